/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a small NCCL job, for GPU times seen through the real wrappers: scenes on the stand-in under the
 * preloaded library. Prints "sum NUMBER" (of all results) on stdout; ends with 0 unless a call went wrong.
 * Must not live here: what the dump must say about it (test/e2e/test_gpu_timing.py).
 *
 *   ranks SCENE RANK SIZE ID-FILE      rank 0 writes the unique id there
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

#define COUNT    1024
#define OK(call) ok((int)(call), #call)

static int rank, size;
static ncclComm_t world;
static int *data;
static long long sum;

static void ok(int status, const char *call) {
    if (status == 0)
        return;
    fprintf(stderr, "ranks: rank %d: %s: %d\n", rank, call, status);
    _exit(2);
}

static ncclUniqueId exchange_id(const char *path) {
    ncclUniqueId id;
    char temporary[512];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    if (rank == 0) {
        OK(ncclGetUniqueId(&id));
        FILE *file = fopen(temporary, "w");
        if (!file || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) || rename(temporary, path))
            ok(1, "writing the id");
        return id;
    }
    FILE *file;
    for (int i = 0; !(file = fopen(path, "r")) && i < 30000; i++)
        usleep(1000);
    if (!file || fread(&id, sizeof id, 1, file) != 1)
        ok(1, "reading the id");
    fclose(file);
    return id;
}

static cudaStream_t new_stream(void) {
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static void reduce(ncclComm_t comm, cudaStream_t stream) {
    OK(ncclAllReduce(data, data, COUNT, ncclInt32, ncclMax, comm, stream));
}

static void streams(void) {
    ncclComm_t second;
    cudaStream_t a = new_stream(), b = new_stream();
    OK(ncclCommSplit(world, 0, rank, &second, NULL));
    for (int i = 0; i < 20; i++) {
        reduce(world, a);
        reduce(second, b);
    }
    OK(cudaStreamSynchronize(a));
    OK(cudaStreamSynchronize(b));
    OK(ncclCommDestroy(second));
}

static void graph(void) {
    cudaStream_t stream = new_stream();
    cudaGraph_t captured;
    cudaGraphExec_t executable;
    reduce(world, stream);
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    reduce(world, stream);
    OK(cudaStreamEndCapture(stream, &captured));
    OK(cudaGraphInstantiate(&executable, captured, 0));
    for (int i = 0; i < 100; i++) {
        OK(cudaGraphLaunch(executable, stream));
        OK(cudaStreamSynchronize(stream));
    }
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(captured));
}

/* As data-parallel training does it: the optimizer's stream waits for the gradients. */
static void overlap(void) {
    cudaStream_t communication = new_stream(), compute = new_stream();
    cudaEvent_t done;
    OK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    for (int i = 0; i < 10; i++) {
        reduce(world, communication);
        OK(cudaEventRecord(done, communication));
        OK(cudaStreamWaitEvent(compute, done, 0));
        OK(cudaStreamSynchronize(compute));
    }
}

/* Two communicators, and groups of several operations, in one graph. */
static void graph_of_groups(void) {
    ncclComm_t second;
    cudaStream_t stream = new_stream();
    cudaGraph_t captured;
    cudaGraphExec_t executable;
    OK(ncclCommSplit(world, 0, rank, &second, NULL));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(ncclGroupStart());
    reduce(world, stream);
    reduce(world, stream);
    OK(ncclGroupEnd());
    reduce(second, stream);
    OK(cudaStreamEndCapture(stream, &captured));
    OK(cudaGraphInstantiate(&executable, captured, 0));
    for (int i = 0; i < 20; i++)
        OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(captured));
    OK(ncclCommDestroy(second));
}

/* Every second call as a library makes them that holds a copy of NCCL of its own: no wrapper stands before them. */
static void bypass(void) {
    extern ncclResult_t pncclAllReduce(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                       cudaStream_t);
    cudaStream_t stream = new_stream();
    for (int i = 0; i < 10; i++) {
        reduce(world, stream);
        OK(pncclAllReduce(data, data, COUNT, ncclInt32, ncclMax, world, stream));
    }
    OK(cudaStreamSynchronize(stream));
}

/* A data loader's process comes and goes. */
static void fork_meanwhile(void) {
    cudaStream_t stream = new_stream();
    for (int i = 0; i < 20; i++) {
        reduce(world, stream);
        pid_t child = i == 10 ? fork() : -1;
        if (child == 0)
            exit(0);
        if (child > 0)
            waitpid(child, NULL, 0);
    }
    OK(cudaStreamSynchronize(stream));
}

/* Dies with work in flight. */
static void killed(void) {
    cudaStream_t stream = new_stream();
    for (int i = 0; i < 10; i++)
        reduce(world, stream);
    OK(cudaStreamSynchronize(stream));
    usleep(100000);
    for (int i = 0; i < 10; i++)
        reduce(world, stream);
    kill(getpid(), SIGKILL);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } scenes[] = {{"streams", streams}, {"graph", graph},   {"graph_of_groups", graph_of_groups},
                  {"overlap", overlap}, {"bypass", bypass}, {"fork", fork_meanwhile},
                  {"killed", killed}};
    if (argc != 5)
        return 2;
    rank = atoi(argv[2]);
    size = atoi(argv[3]);
    OK(cudaSetDevice(rank));
    OK(cudaMalloc((void **)&data, COUNT * sizeof *data));
    for (int i = 0; i < COUNT; i++)
        data[i] = i * (rank + 1); /* the stand-in's device memory is the host's */
    ncclUniqueId id = exchange_id(argv[4]);
    OK(ncclCommInitRank(&world, size, id, rank));
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (!strcmp(argv[1], scenes[i].name))
            scenes[i].run();
    for (int i = 0; i < COUNT; i++)
        sum += data[i];
    OK(ncclCommDestroy(world));
    printf("sum %lld\n", sum);
    return 0;
}
