/* SPDX-License-Identifier: Apache-2.0
 *
 * A program whose calls come from another stack than the one before, each of them one of many that come back: what a
 * call costs whoever wants to know its stack is mostly finding that. For so many seconds on the first rank's clock,
 * with a little work of its own between two calls. Prints "calls N". Must not live here: anything that knows of
 * commtap.
 *
 *   winding SECONDS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 40, PATHS = 256, CALLS = 1024 /* between two looks at the clock */, WORK = 400 };

static int left(int depth, unsigned path);
static int right(int depth, unsigned path);

static int descend(int depth, unsigned path) {
    int one = 1, sum = 0;
    if (depth > 0)
        return path >> depth % 8 & 1 ? left(depth - 1, path) : right(depth - 1, path);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    return sum;
}

__attribute__((noinline)) static int left(int depth, unsigned path) {
    return descend(depth, path) + 1;
}

__attribute__((noinline)) static int right(int depth, unsigned path) {
    return descend(depth, path) + 2;
}

static void work(void) {
    for (int i = 0; i < WORK; i++)
        __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
    double begin, seconds = argc > 1 ? atof(argv[1]) : 1;
    long calls = 0, sum = 0;
    int over = 0;
    MPI_Init(&argc, &argv);
    for (begin = MPI_Wtime(); !over;) {
        for (int i = 0; i < CALLS; i++, calls++, work())
            sum += descend(DEPTH, (unsigned)calls * 2654435761u >> 8 & (PATHS - 1));
        over = MPI_Wtime() - begin > seconds;
        MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    printf("calls %ld\n", calls);
    MPI_Finalize();
    return sum == 0;
}
