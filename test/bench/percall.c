/* SPDX-License-Identifier: Apache-2.0
 *
 * What one MPI call costs, with no other process involved: an 8-byte Allreduce and an Irecv+Isend+Waitall on
 * MPI_COMM_SELF. Prints "allreduce NS exchange NS init NS", nanoseconds per call (per three calls, per MPI_Init).
 * Must not live here: comparison, repetition over processes (bench.py).
 */
#include <mpi.h>
#include <stdio.h>

#include "test/bench/median.h"

__attribute__((noinline)) static double allreduce(int calls) {
    double sent = 1, received, start = now_ns();
    for (int i = 0; i < calls; i++)
        MPI_Allreduce(&sent, &received, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
    return (now_ns() - start) / calls;
}

__attribute__((noinline)) static double exchange(int calls) {
    MPI_Request requests[2];
    double sent = 1, received, start = now_ns();
    for (int i = 0; i < calls; i++) {
        MPI_Irecv(&received, 1, MPI_DOUBLE, 0, 7, MPI_COMM_SELF, &requests[0]);
        MPI_Isend(&sent, 1, MPI_DOUBLE, 0, 7, MPI_COMM_SELF, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    return (now_ns() - start) / calls;
}

int main(int argc, char **argv) {
    double start = now_ns();
    MPI_Init(&argc, &argv);
    double init = now_ns() - start;
    double one = median_of(allreduce, 2000), three = median_of(exchange, 500);
    printf("allreduce %.2f exchange %.2f init %.0f\n", one, three, init);
    MPI_Finalize();
    return 0;
}
