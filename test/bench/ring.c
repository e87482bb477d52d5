/* SPDX-License-Identifier: Apache-2.0
 *
 * The shim's own recorder without MPI: how long activation takes, what one record costs in one and in two threads, and
 * the tail of single writes while the file system is busy with fsync. Dumps go to COMMTAP_DIR.
 * Prints "activation US first US" (first: a thread's own lane), "write1 NS write2 NS", and with "tail" per line
 * "idle|fsync p50 NS p99 NS p999 NS max NS".
 * Must not live here: a ring of its own: ring_write_like is what is measured.
 *
 *   ring speed | tail
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/intercept/activate.h"
#include "shim/intercept/threads.h"
#include "shim/record/recorder.h"
#include "shim/record/ring.h"

#define START       (1ull << 40) /* ticks */
#define RECORDS     2000000
#define ROUNDS      15
#define TAIL_WRITES 3000000

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* As a wrapper does it: what repeats is a template that is known. */
static inline void write_record(struct lane *lane, uint64_t i) {
#define ROW(size)                                                                                                      \
    { .bytes = size, .call = 30, .flags = FLAG_COLLECTIVE, .kind = RECORD_CALL, .redop = REDOP_SUM }
    static const struct record_template rows[4] = {ROW(8), ROW(16), ROW(24), ROW(32)};
#undef ROW
    static __thread uint16_t templates[4];
    uint16_t *template = &templates[i % 4];
    if (*template && ring_write_known(lane, *template, NULL, START + i, START + i + 1, (uint32_t)i, 0))
        return;
    struct facts facts;
    memcpy(&facts, &rows[i % 4], sizeof facts);
    *template = (uint16_t)ring_write_rare(lane, &facts,
                                          &(struct record_moment){START + i, START + i + 1, (uint32_t)i, 0}, true);
}

static struct lane *my_lane(void) {
    struct thread *self = current_thread();
    if (!self || self->lane->shared) {
        fprintf(stderr, "ring: the recorder is not armed\n");
        exit(2);
    }
    return self->lane;
}

/* ---- speed ----------------------------------------------------------------------------------- */

struct writer {
    pthread_barrier_t *barrier;
    double ns;
};

static void *write_many(void *argument) {
    struct writer *writer = argument;
    struct lane *lane = my_lane();
    if (writer->barrier)
        pthread_barrier_wait(writer->barrier);
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < RECORDS; i++)
        write_record(lane, i);
    writer->ns = (double)(now_ns() - start) / RECORDS;
    return NULL;
}

static double one_thread(void) {
    struct writer writer = {NULL, 0};
    write_many(&writer);
    return writer.ns;
}

/* The slower of two. */
static double two_threads(void) {
    pthread_barrier_t barrier;
    pthread_t threads[2];
    struct writer writers[2] = {{&barrier, 0}, {&barrier, 0}};
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, write_many, &writers[i]))
            exit(2);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    return writers[0].ns > writers[1].ns ? writers[0].ns : writers[1].ns;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure_speed(void) {
    double one[ROUNDS], two[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        one[i] = one_thread();
        two[i] = two_threads();
    }
    qsort(one, ROUNDS, sizeof *one, ascending);
    qsort(two, ROUNDS, sizeof *two, ascending);
    printf("write1 %.2f write2 %.2f\n", one[ROUNDS / 2], two[ROUNDS / 2]);
}

/* ---- tail ------------------------------------------------------------------------------------ */

static atomic_bool stop;

/* Keeps the file system busy: fresh blocks in another file, and the dump's own dirty pages. */
static void *sync_files(void *directory) {
    static char block[1 << 20];
    char path[1200];
    snprintf(path, sizeof path, "%s/fsync.load", (const char *)directory);
    int other = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), dump = open(recorder.file.path, O_RDWR);
    memset(block, 1, sizeof block);
    for (off_t at = 0; !stop; at = (at + (off_t)sizeof block) % (64 << 20)) {
        if (pwrite(other, block, sizeof block, at) != sizeof block || fsync(other) || fdatasync(dump)) {
            perror(path);
            exit(2);
        }
    }
    close(other);
    close(dump);
    unlink(path);
    return NULL;
}

static int ascending_ticks(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void measure_tail(const char *label) {
    struct lane *lane = my_lane();
    uint32_t *taken = malloc(TAIL_WRITES * sizeof *taken);
    if (!taken)
        exit(2);
    uint64_t start_ns = now_ns(), start_ticks = ticks();
    for (uint32_t i = 0; i < TAIL_WRITES; i++) {
        uint64_t before = ticks();
        write_record(lane, i);
        uint64_t length = ticks() - before;
        taken[i] = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
        for (int pause = 0; pause < 400; pause++) /* a real job computes in between: pages get time to be cleaned */
            __asm__ volatile("");
    }
    double ns_per_tick = (double)(now_ns() - start_ns) / (double)(ticks() - start_ticks);
    qsort(taken, TAIL_WRITES, sizeof *taken, ascending_ticks);
    printf("%s p50 %.0f p99 %.0f p999 %.0f max %.0f\n", label, taken[TAIL_WRITES / 2] * ns_per_tick,
           taken[TAIL_WRITES / 100 * 99] * ns_per_tick, taken[TAIL_WRITES / 1000 * 999] * ns_per_tick,
           taken[TAIL_WRITES - 1] * ns_per_tick);
    free(taken);
}

static void measure_tails(void) {
    pthread_t syncer;
    measure_tail("idle");
    if (pthread_create(&syncer, NULL, sync_files, recorder.knobs.dir))
        exit(2);
    measure_tail("fsync");
    stop = true;
    pthread_join(syncer, NULL);
}

int main(int argc, char **argv) {
    knobs_read(&recorder.knobs);
    uint64_t start = now_ns();
    activate_process();
    uint64_t active = now_ns();
    my_lane();
    uint64_t attached = now_ns();
    printf("activation %.0f first %.0f\n", (double)(active - start) / 1e3, (double)(attached - active) / 1e3);
    if (argc > 1 && !strcmp(argv[1], "tail"))
        measure_tails();
    else if (argc > 1 && !strcmp(argv[1], "speed"))
        measure_speed();
    return 0;
}
