/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a job of NCCL that launches small reductions on and on, for so many seconds on rank 0's clock, with a
 * little work of its own between two. Prints "launches N".
 *
 *   launches RANK RANKS FOLDER SECONDS [AT_ONCE]
 *
 * FOLDER: where rank 0 leaves the unique id. AT_ONCE: launches between two looks at the clock, 64 unless told. Must not
 * live here: anything that knows of commtap.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/programs/nccl/unique_id.h"
#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

enum { AT_ONCE = 64, PAUSE_US = 2000 };
#define OK(call) ok((int)(call), #call)

static int rank;

static void ok(int status, const char *call) {
    if (status == 0)
        return;
    fprintf(stderr, "launches: rank %d: %s: %d\n", rank, call, status);
    _exit(2);
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    rank = atoi(argv[1]);
    char path[512];
    long launches = 0, at_once = argc > 5 ? atol(argv[5]) : AT_ONCE;
    float *over, *data;
    ncclComm_t world;
    cudaStream_t stream;
    snprintf(path, sizeof path, "%s/id", argv[3]);
    OK(cudaSetDevice(rank));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMallocHost((void **)&data, 2 * sizeof *data));
    OK(cudaMallocHost((void **)&over, sizeof *over));
    OK(ncclCommInitRank(&world, atoi(argv[2]), unique_id_exchange(path, rank), rank));
    *over = 0;
    for (double begin = now_s(); *over == 0;) {
        for (long i = 0; i < at_once; i++, launches++)
            OK(ncclAllReduce(data, data + 1, 1, ncclFloat32, ncclSum, world, stream));
        usleep(PAUSE_US);
        *over = now_s() - begin > atof(argv[4]);
        OK(ncclBroadcast(over, over, 1, ncclFloat32, 0, world, stream));
        OK(cudaStreamSynchronize(stream));
    }
    printf("launches %ld\n", launches);
    OK(ncclCommDestroy(world));
    return 0;
}
