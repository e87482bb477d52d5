/* SPDX-License-Identifier: Apache-2.0
 *
 * Another tool, of the usual kind: a preloaded library that wraps MPI_X and calls PMPI_X.
 * Lives here: such a library for three functions; it prints what it saw at MPI_Finalize. Must not live here: the job.
 */
#include <mpi.h>
#include <stdio.h>

static int allreduces;

int MPI_Init(int *argc, char ***argv) {
    return PMPI_Init(argc, argv);
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    allreduces++;
    return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Finalize(void) {
    printf("the other tool saw %d\n", allreduces);
    fflush(stdout);
    return PMPI_Finalize();
}
