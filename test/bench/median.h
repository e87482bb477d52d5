/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop of calls timed as the median of many short runs: what the scheduler does to some of them leaves it alone.
 * Must not live here: what is called.
 */
#ifndef COMMTAP_BENCH_MEDIAN_H
#define COMMTAP_BENCH_MEDIAN_H

#include <stdlib.h>
#include <time.h>

#define CHUNKS 401

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* `measure` makes that many calls and returns the nanoseconds of one. */
static double median_of(double (*measure)(int), int calls) {
    double chunk[CHUNKS];
    measure(calls);
    for (int i = 0; i < CHUNKS; i++)
        chunk[i] = measure(calls);
    qsort(chunk, CHUNKS, sizeof *chunk, ascending);
    return chunk[CHUNKS / 2];
}

#endif
