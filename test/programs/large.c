/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of 2 GiB and more, whose sizes overflow an int, with their ledger.
 * Lives here: derived types that cover little memory but many bytes where MPI allows it, and one real transfer.
 * Must not live here: transfers that need more than 3 GiB on all ranks together.
 *
 * A type of N overlapping copies of the same element has a size of N elements and an extent of one: legal to send.
 */
#include <mpi.h>

#include "expect.h"

#define MIB (1024LL * 1024)

static int me;

/* `mib` MiB, all of them the same MiB of memory. */
static MPI_Datatype folded(int mib) {
    MPI_Datatype block, type;
    MPI_Type_contiguous((int)MIB, MPI_BYTE, &block);
    MPI_Type_create_hvector(mib, 1, 0, block, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&block);
    return type;
}

/* Rank 0 sends 2 GiB + 3 MiB out of one MiB; rank 1 really receives them. */
static void real_transfer(void) {
    const long long bytes = 2051 * MIB;
    if (me == 0) {
        char *block = calloc(1, (size_t)MIB);
        memset(block, 'x', (size_t)MIB);
        MPI_Datatype type = folded(2051);
        CALLED(MPI_Send, bytes, MPI_Send(block, 1, type, 1, 0, MPI_COMM_WORLD));
        MPI_Type_free(&type);
        free(block);
        return;
    }
    MPI_Datatype block;
    MPI_Status status;
    char *target = malloc((size_t)bytes);
    if (!target)
        exit(9);
    MPI_Type_contiguous((int)MIB, MPI_BYTE, &block);
    MPI_Type_commit(&block);
    CALLED(MPI_Recv, bytes, MPI_Recv(target, 2051, block, 0, 0, MPI_COMM_WORLD, &status));
    if (target[bytes - 1] != 'x')
        exit(8);
    MPI_Type_free(&block);
    free(target);
}

/* Nothing moves: where there is no partner the size is told all the same, to MPI_PROC_NULL it is none. */
static void only_sized(void) {
    char byte = 0;
    MPI_Datatype gib = folded(1024);
    CALLED(MPI_Bcast, 5 * 1024 * MIB, MPI_Bcast(&byte, 5, gib, 0, MPI_COMM_SELF));
    CALLED(MPI_Send, 0, MPI_Send(&byte, 3, gib, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    MPI_Type_free(&gib);
}

#if defined(MPICH_NUMVERSION) && MPI_VERSION >= 4
static void large_counts(void) {
    char byte = 0;
    CALLED(MPI_Bcast_c, 3000000000LL, MPI_Bcast_c(&byte, 3000000000LL, MPI_BYTE, 0, MPI_COMM_SELF));
    CALLED(MPI_Send_c, 0, MPI_Send_c(&byte, 2200000000LL, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    int in[4] = {1, 2, 3, 4}, out[4];
    CALLED(MPI_Allreduce_c, 16, MPI_Allreduce_c(in, out, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
}
#else
static void large_counts(void) {
}
#endif

int main(int argc, char **argv) {
    CALLED(MPI_Init, 0, MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    real_transfer();
    only_sized();
    large_counts();
    CALLED(MPI_Finalize, 0, MPI_Finalize());
    expect_write(me);
    return 0;
}
