/* SPDX-License-Identifier: Apache-2.0
 *
 * Dumps of a large job for timing the analyzer: RANKS ranks with RECORDS records each (a power of two), reductions on
 * the world and messages around a ring; rank 3 is 2 ms late once in ten times. As in dumps of the recorder, what nobody
 * wrote is a hole: of 100,000 small ones each takes 28 kB of the disk.
 * Must not live here: anything the analyzer is judged by (test/scenes).
 *
 *   dumps DIR RANKS RECORDS
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/support/dump_builder.h"

#define SLOW_RANK 3
#define ROUND_NS  1000000
#define LATE_NS   2000000

struct job {
    int32_t ranks;
    uint32_t records;
};

/* The same on every run and for every rank that asks. */
static uint64_t noise(uint64_t a, uint64_t b) {
    uint64_t x = a * 0x9e3779b97f4a7c15u + b;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

static uint64_t lateness(int32_t rank, uint32_t round) {
    return noise((uint64_t)rank, round) % 20000 + (rank == SLOW_RANK && round % 10 == 0 ? LATE_NS : 0);
}

/* One round is four records: a reduction that ends when the last has come, a send, a receive, a barrier. */
static void write_round(struct dump_builder *builder, const struct job *job, int32_t rank, uint32_t round,
                        struct operation_row *row) {
    uint64_t start = UINT64_C(1000000000) + (uint64_t)round * (ROUND_NS + LATE_NS);
    uint64_t late = lateness(rank, round), slow = lateness(SLOW_RANK, round);
    uint64_t end = start + (late > slow ? late : slow) + 30000;
    int32_t next = (rank + 1) % job->ranks, before = (rank + job->ranks - 1) % job->ranks;
    dump_builder_collective(builder, 0, BUILDER_ALLREDUCE, 0, 2 * round, 65536, start + late, end);
    dump_builder_count(row, 65536, end - start - late);
    dump_builder_p2p(builder, 0, BUILDER_SEND, 0, FLAG_SEND, next, 7, round, 8192, end + 1000, end + 5000);
    dump_builder_p2p(builder, 0, BUILDER_RECV, 0, FLAG_RECV, before, 7, round, 8192, end + 6000, end + 15000);
    dump_builder_collective(builder, 0, BUILDER_BARRIER, 0, 2 * round + 1, 0, end + 20000 + noise(7, round) % 9000,
                            end + 60000);
}

/* The job has ended as it should, with every collective done. */
static void write_end(struct dump_builder *builder, const struct job *job, uint64_t end) {
    struct progress *progress = dump_builder_progress(builder, 0);
    progress->enqueued = progress->started = progress->completed = job->records / 4 * 2;
    struct dump_header *header = dump_builder_header(builder);
    header->finalise_ticks = end;
    header->finalised_ticks = header->exited_ticks = end + 1000;
    header->state |= STATE_FINALISING | STATE_FINALISED | STATE_EXITED;
}

enum { PAGE = 4096 };

/* Returns 0, or -1 with errno set. */
static int write_pages(int fd, const char *data, size_t bytes) {
    static const char nothing[PAGE];
    for (size_t at = 0; at < bytes; at += PAGE) {
        size_t length = bytes - at < PAGE ? bytes - at : PAGE;
        if (memcmp(data + at, nothing, length) == 0)
            continue;
        ssize_t written = pwrite(fd, data + at, length, (off_t)at);
        if (written != (ssize_t)length) {
            errno = written < 0 ? errno : ENOSPC;
            return -1;
        }
    }
    return ftruncate(fd, (off_t)bytes);
}

static int write_with_holes(const struct dump_builder *builder, const char *path) {
    size_t bytes;
    const char *data = dump_builder_data(builder, &bytes);
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    int failed = fd < 0 || write_pages(fd, data, bytes);
    if (fd >= 0)
        failed |= close(fd);
    return failed;
}

static int write_rank(const struct job *job, int32_t rank, const char *directory) {
    struct dump_plan plan = {.rank = rank, .world_size = job->ranks, .ring_records = job->records};
    struct dump_builder *builder = dump_builder_new(&plan);
    dump_builder_standard_calls(builder);
    dump_builder_world(builder);
    struct operation_row *row = dump_builder_operation(builder, 0);
    row->call = BUILDER_ALLREDUCE;
    row->source = SOURCE_HOST;
    row->bytes = 65536;
    uint64_t end = UINT64_C(1000000000) + (uint64_t)job->records / 4 * (ROUND_NS + LATE_NS);
    dump_builder_anchor(builder, 1000, 1000, UINT64_C(1700000000000000000) + 1000, 10);
    dump_builder_anchor(builder, end, end, UINT64_C(1700000000000000000) + end, 10);
    for (uint32_t round = 0; round < job->records / 4; round++)
        write_round(builder, job, rank, round, row);
    write_end(builder, job, end);
    char path[4200];
    snprintf(path, sizeof path, "%s/commtap.bench.%016x.ct", directory, (unsigned)rank);
    int failed = write_with_holes(builder, path);
    if (failed)
        perror(path);
    dump_builder_free(builder);
    return failed;
}

int main(int argc, char **argv) {
    struct job job = {argc > 2 ? atoi(argv[2]) : 0, argc > 3 ? (uint32_t)atoi(argv[3]) : 0};
    if (job.ranks < SLOW_RANK + 1 || job.records < 4) {
        fprintf(stderr, "usage: dumps DIR RANKS RECORDS\n");
        return 2;
    }
    for (int32_t rank = 0; rank < job.ranks; rank++)
        if (write_rank(&job, rank, argv[1]))
            return 1;
    return 0;
}
