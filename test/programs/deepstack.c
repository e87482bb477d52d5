/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls from far down a stack that is another one each time: as slow to walk as stacks get. Prints the median time of
 * a call as its caller sees it, "median_us N".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DEPTH 900
#define CALLS 300

static double seen[CALLS];
static int calls;

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int left(int depth, unsigned path);
static int right(int depth, unsigned path);

static int descend(int depth, unsigned path) {
    if (depth > 0)
        return path >> depth % 16 & 1 ? left(depth - 1, path) : right(depth - 1, path);
    int one = 1, sum = 0;
    double start = now_us();
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    seen[calls++] = now_us() - start;
    return sum;
}

__attribute__((noinline)) static int left(int depth, unsigned path) {
    return descend(depth, path) + 1;
}

__attribute__((noinline)) static int right(int depth, unsigned path) {
    return descend(depth, path) + 2;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    unsigned sum = 0;
    for (unsigned i = 0; i < CALLS; i++)
        sum += (unsigned)descend(DEPTH, i * 2654435761u >> 8);
    qsort(seen, CALLS, sizeof *seen, ascending);
    printf("median_us %.3f\n", seen[CALLS / 2]);
    MPI_Finalize();
    return sum == 0;
}
