/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a job of NCCL whose phases begin when a test says so (test/programs/phases.h).
 *
 *   ordered RANK RANKS FOLDER PHASES
 *
 * FOLDER: of the phases' files, and where rank 0 leaves the unique id. Phase K is CALLS times ncclAllReduce of K + 1
 * floats, as many groups of two ncclBroadcast of these, and as many replays of a graph into which an ncclAllGather of
 * FLOATS floats was captured before phase 0; then the stream is waited for.
 * Must not live here: orders, what a dump should hold afterwards (test/e2e/test_ctl.py).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/programs/nccl/unique_id.h"
#include "test/programs/phases.h"
#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

enum { CALLS = 10, FLOATS = 1000, RANKS_MOST = 8 };
#define OK(call) ok((int)(call), #call)

static int rank;
static ncclComm_t world;
static cudaStream_t stream;
static float *data, *into;
static cudaGraphExec_t captured;

static void ok(int status, const char *call) {
    if (status == 0)
        return;
    fprintf(stderr, "ordered: rank %d: %s: %d\n", rank, call, status);
    _exit(2);
}

static void capture(void) {
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(ncclAllGather(data, into, FLOATS, ncclFloat32, world, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&captured, graph, 0));
    OK(cudaGraphDestroy(graph));
}

static void work(size_t floats) {
    for (int i = 0; i < CALLS; i++) {
        OK(ncclAllReduce(data, into, floats, ncclFloat32, ncclSum, world, stream));
        OK(ncclGroupStart());
        OK(ncclBroadcast(data, into, floats, ncclFloat32, 0, world, stream));
        OK(ncclBroadcast(data, into + FLOATS, floats, ncclFloat32, 0, world, stream));
        OK(ncclGroupEnd());
        OK(cudaGraphLaunch(captured, stream));
    }
    OK(cudaStreamSynchronize(stream));
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    rank = atoi(argv[1]);
    int ranks = atoi(argv[2]), phases = atoi(argv[4]);
    const char *folder = argv[3];
    char id_path[512];
    OK(cudaSetDevice(rank));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMallocHost((void **)&data, FLOATS * sizeof *data));
    OK(cudaMallocHost((void **)&into, RANKS_MOST * FLOATS * sizeof *into));
    snprintf(id_path, sizeof id_path, "%s/id", folder);
    OK(ncclCommInitRank(&world, ranks, unique_id_exchange(id_path, rank), rank));
    capture();
    for (int phase = 0; phase < phases; phase++) {
        phases_await(folder, "go", phase);
        work((size_t)phase + 1);
        phases_tell(folder, "done", phase, rank);
    }
    OK(cudaGraphExecDestroy(captured));
    OK(ncclCommDestroy(world));
    return 0;
}
