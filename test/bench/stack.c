/* SPDX-License-Identifier: Apache-2.0
 *
 * What the id of a native stack costs at depths 5, 15 and 40: again and again, with cold caches, for the first time,
 * from more callers than a thread remembers; and glibc's backtrace() beside it. Prints a line per depth, nanoseconds.
 * Must not live here: comparison with goals (bench.py), whether the frames are right (test/stacks).
 */
#include <execinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/intercept/activate.h"
#include "shim/intercept/threads.h"
#include "shim/record/recorder.h"
#include "shim/stacks/stacks.h"

#define CHUNKS      101
#define DEPTH_MAX   128
#define SWEPT_BYTES (64u << 20) /* more than any cache; an eighth of it: more than a core's own */

static struct thread *self;
static volatile uint32_t sink;
static unsigned char *swept;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return values[n / 2];
}

/* Stands for a wrapper. */
__attribute__((noinline)) static void ours(void) {
    sink = stack_here(self, __builtin_frame_address(0), (uintptr_t)__builtin_dwarf_cfa());
}

__attribute__((noinline)) static void theirs(void) {
    void *frames[DEPTH_MAX];
    sink = (uint32_t)backtrace(frames, DEPTH_MAX);
}

/* The same stack pointer, another caller each time: more stacks than the ways of one set. */
__attribute__((noinline)) static void alternating(void) {
    static unsigned turn;
    switch (turn++ % 8) {
#define CALLER(n)                                                                                                      \
    case n:                                                                                                            \
        ours();                                                                                                        \
        __asm__ volatile("# " #n);                                                                                     \
        break;
        CALLER(0) CALLER(1) CALLER(2) CALLER(3) CALLER(4) CALLER(5) CALLER(6) CALLER(7)
    }
}

static double repeated(void (*take)(void), int calls) {
    double chunk[CHUNKS];
    for (int i = 0; i < CHUNKS; i++) {
        double start = now_ns();
        for (int k = 0; k < calls; k++)
            take();
        chunk[i] = (now_ns() - start) / calls;
    }
    return median(chunk, CHUNKS);
}

static double cold(void (*take)(void), size_t bytes) {
    double single[CHUNKS], clock[CHUNKS];
    for (int i = 0; i < CHUNKS; i++) {
        for (size_t at = 0; at < bytes; at += 64)
            swept[at]++;
        double before = now_ns(), start = now_ns();
        take();
        single[i] = now_ns() - start;
        clock[i] = start - before;
    }
    double reading = median(clock, CHUNKS);
    return median(single, CHUNKS) - reading;
}

static void nothing(void) {
}

static void measure(void) {
    double start = now_ns();
    ours();
    double first = now_ns() - start;
    double empty = repeated(nothing, 2000);
    printf("hot %.1f cold %.0f uncached %.0f first %.0f alternating %.1f backtrace %.0f\n",
           repeated(ours, 2000) - empty, cold(ours, SWEPT_BYTES / 8), cold(ours, SWEPT_BYTES), first,
           repeated(alternating, 1000) - empty, repeated(theirs, 30));
}

/* Frames of different sizes without a frame pointer. */
__attribute__((noinline)) static long descend(int frames, long a, long b) {
    volatile char bytes[40] = {0};
    if (frames <= 0)
        measure();
    else
        a += descend(frames - 1, b, a ^ frames);
    return a + b + bytes[frames % 40];
}

int main(int argc, char **argv) {
    void *frames[DEPTH_MAX];
    int wanted = argc > 1 ? atoi(argv[1]) : 15;
    setenv("COMMTAP_STACK", "native", 1);
    knobs_read(&recorder.knobs);
    swept = malloc(SWEPT_BYTES);
    if (!swept || !activate_process() || !(self = current_thread()))
        return 1;
    memset(swept, 0, SWEPT_BYTES);
    int outer = backtrace(frames, DEPTH_MAX);
    descend(wanted - outer - 3, 1, 2); /* measure, repeated and the last descend are frames, too */
    return 0;
}
