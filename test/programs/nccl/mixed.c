/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of both libraries: MPI starts it and hands the unique id around, NCCL reduces. Each process is one rank.
 */
#include <mpi.h>

#include "test/standin/nccl_api.h"

int cudaSetDevice(int device);
int cudaMalloc(void **pointer, size_t bytes);
int cudaDeviceSynchronize(void);

#define ROUNDS 6
#define FLOATS 256

int main(int argc, char **argv) {
    int rank, ranks, failed = 0;
    void *buffer;
    ncclComm_t comm;
    ncclUniqueId id;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    failed |= cudaSetDevice(rank) | cudaMalloc(&buffer, FLOATS * sizeof(float));
    if (rank == 0)
        failed |= ncclGetUniqueId(&id);
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    failed |= ncclCommInitRank(&comm, ranks, id, rank);
    for (int i = 0; i < ROUNDS && !failed; i++) {
        failed |= ncclAllReduce(buffer, buffer, FLOATS, ncclFloat32, ncclSum, comm, NULL);
        failed |= cudaDeviceSynchronize();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    failed |= ncclCommDestroy(comm);
    MPI_Finalize();
    return failed != 0;
}
