/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways for ranks that use NCCL to hang, after some collectives that went well. Ranks that reach the hang say so.
 * Lives here: the hangs. Must not live here: what a diagnosis should say (test/e2e).
 *
 *   hang MODE    rank, size and the id's file from RANK, WORLD_SIZE, TRAIN_ID_FILE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/programs/nccl/unique_id.h"
#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

enum { GOOD = 800, /* more than the smallest ring and its windows hold */ VALUES = 1024, TRIES = 3000 };

#define NEED(call)                                                                                                     \
    do {                                                                                                               \
        int code = (int)(call);                                                                                        \
        if (code != 0) {                                                                                               \
            fprintf(stderr, "hang: %s: error %d\n", #call, code);                                                      \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static int rank, size;
static ncclComm_t comm;
static cudaStream_t stream;
static float *values;

static void reduce(size_t count) {
    NEED(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, comm, stream));
}

static void sleep_long(void *nothing) {
    (void)nothing;
    sleep(600);
}

/* Rank 1 never calls it. */
static void absent(void) {
    if (rank == 1)
        sleep(600);
    reduce(VALUES);
}

/* Rank 1 calls it, but what it has on its stream before does not end. */
static void stream_blocked(void) {
    if (rank == 1)
        NEED(cudaLaunchHostFunc(stream, sleep_long, NULL));
    reduce(VALUES);
}

/* Rank 2 reduces fewer values. */
static void count(void) {
    reduce(rank == 2 ? VALUES / 2 : VALUES);
}

/* Rank 2 leaves one out: its next one is another one than everybody else's. */
static void skipped(void) {
    if (rank != 2)
        reduce(VALUES);
    NEED(ncclBroadcast(values, values, VALUES, ncclFloat32, 0, comm, stream));
}

/* Rank 1 stays away from a group of two. */
static void group(void) {
    if (rank == 1)
        sleep(600);
    NEED(ncclGroupStart());
    reduce(VALUES);
    reduce(VALUES / 2);
    NEED(ncclGroupEnd());
}

static const struct {
    const char *name;
    void (*hang)(void);
} modes[] = {{"absent", absent}, {"stream", stream_blocked}, {"count", count}, {"skipped", skipped}, {"group", group}};

int main(int argc, char **argv) {
    rank = atoi(getenv("RANK"));
    size = atoi(getenv("WORLD_SIZE"));
    NEED(cudaSetDevice(rank));
    NEED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    NEED(cudaMalloc((void **)&values, VALUES * sizeof *values));
    NEED(ncclCommInitRank(&comm, size, unique_id_exchange(getenv("TRAIN_ID_FILE"), rank), rank));
    for (int i = 0; i < GOOD; i++) {
        reduce(VALUES - (size_t)i);
        NEED(cudaStreamSynchronize(stream));
    }
    if (write(1, "ready\n", 6) != 6)
        return 1;
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            modes[i].hang();
    NEED(cudaStreamSynchronize(stream));
    return 0;
}
