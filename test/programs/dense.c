/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that calls as densely as it can: small reductions from a stack of some depth, and nothing in between.
 * Must not live here: anything that knows of commtap.
 *
 *   dense CALLS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 12 };

static __attribute__((noinline)) int reduce(int depth, long calls) {
    int result = 0;
    if (depth > 0) {
        result = reduce(depth - 1, calls);
        __asm__ volatile("" : "+r"(result)); /* a frame of its own */
        return result;
    }
    for (long i = 0; i < calls; i++) {
        double mine = (double)i, sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        result |= sum < mine;
    }
    return result;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int wrong = reduce(DEPTH, argc > 1 ? atol(argv[1]) : 1000);
    MPI_Finalize();
    return wrong;
}
