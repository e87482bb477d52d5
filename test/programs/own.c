/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that has functions of MPI's names itself, as tools that are linked into programs bring them: its
 * MPI_Allreduce goes on to PMPI_Allreduce. All else it calls is the library's.
 * Must not live here: a preloaded tool (tool.c).
 */
#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 30 };

static long seen;

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    seen++;
    return PMPI_Allreduce(from, to, count, type, op, comm);
}

int main(int argc, char **argv) {
    double mine = 1, sum = 0;
    MPI_Init(&argc, &argv);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Bcast(&sum, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
    printf("own calls: %ld\n", seen);
    MPI_Finalize();
    return 0;
}
