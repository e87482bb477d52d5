/* SPDX-License-Identifier: Apache-2.0
 *
 * Dumps of a large job for timing the analyzer: RANKS ranks with RECORDS records each (a power of two), reductions on
 * the world and messages around a ring; rank 3 is 2 ms late once in ten times.
 * Must not live here: anything the analyzer is judged by (test/scenes).
 *
 *   dumps DIR RANKS RECORDS
 */
#include <stdio.h>
#include <stdlib.h>

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
    char path[4200];
    snprintf(path, sizeof path, "%s/commtap.bench.%016x.ct", directory, (unsigned)rank);
    int failed = dump_builder_write(builder, path, 0);
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
