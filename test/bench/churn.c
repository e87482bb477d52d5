/* SPDX-License-Identifier: Apache-2.0
 *
 * What one communicator's life costs: a copy of MPI_COMM_SELF, an 8-byte Allreduce on it, its end. Prints "life NS",
 * the median over short stretches of them.
 * Must not live here: comparison, repetition over processes (bench.py).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHUNKS 101 /* short ones: what the scheduler does to some of them leaves the median alone */
#define LIVES  200

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double live(void) {
    double sent = 1, received, start = now_ns();
    for (int i = 0; i < LIVES; i++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        MPI_Allreduce(&sent, &received, 1, MPI_DOUBLE, MPI_SUM, comm);
        MPI_Comm_free(&comm);
    }
    return (now_ns() - start) / LIVES;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    double chunk[CHUNKS];
    MPI_Init(&argc, &argv);
    live();
    for (int i = 0; i < CHUNKS; i++)
        chunk[i] = live();
    qsort(chunk, CHUNKS, sizeof *chunk, ascending);
    printf("life %.0f\n", chunk[CHUNKS / 2]);
    MPI_Finalize();
    return 0;
}
