/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a job that does to graphs, streams and devices what is allowed and seldom done, and keeps account: prints
 * "made N", how many reductions it enqueued, those that graphs replayed included.
 *
 *   accounts SCENE RANK RANKS FOLDER
 *
 * FOLDER: where rank 0 leaves the unique ids. Must not live here: anything that knows of commtap.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/programs/nccl/unique_id.h"
#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

enum { FLOATS = 1024 };
#define OK(call) ok((int)(call), #call)

static int rank, ranks, ids, made;
static const char *folder;
static ncclComm_t comm;
static cudaStream_t stream, other;
static float *data;
static cudaGraphExec_t shared;

static void ok(int status, const char *call) {
    if (status == 0)
        return;
    fprintf(stderr, "accounts: rank %d: %s: %d\n", rank, call, status);
    _exit(2);
}

static void begin(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/id.%d", folder, ids++);
    OK(cudaSetDevice(rank));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaMallocHost((void **)&data, FLOATS * sizeof *data));
    memset(data, 0, FLOATS * sizeof *data);
    OK(ncclCommInitRank(&comm, ranks, unique_id_exchange(path, rank), rank));
}

static void enqueue(cudaStream_t on) {
    OK(ncclAllReduce(data, data, FLOATS, ncclFloat32, ncclSum, comm, on));
}

static void reduce(cudaStream_t on) {
    enqueue(on);
    made++;
}

/* A graph of `count` reductions, which itself is left in `graph`, if asked for. */
static cudaGraphExec_t capture(cudaStream_t on, int count, cudaGraph_t *graph) {
    cudaGraph_t own;
    cudaGraphExec_t executable;
    OK(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < count; i++)
        enqueue(on);
    OK(cudaStreamEndCapture(on, &own));
    OK(cudaGraphInstantiate(&executable, own, 0));
    if (graph)
        *graph = own;
    else
        OK(cudaGraphDestroy(own));
    return executable;
}

static void replay(cudaGraphExec_t executable, cudaStream_t on, int count) {
    OK(cudaGraphLaunch(executable, on));
    made += count;
}

/* ---- scenes ---------------------------------------------------------------------------------- */

/* Graphs come and go, some while they run. */
static void scene_come_and_go(void) {
    for (int i = 0; i < 100; i++) {
        cudaGraphExec_t executable = capture(stream, 2, NULL);
        replay(executable, stream, 2);
        if (i % 2)
            OK(cudaStreamSynchronize(stream));
        OK(cudaGraphExecDestroy(executable));
        reduce(stream);
    }
}

static void *capture_here(void *unused) {
    cudaStream_t own;
    (void)unused;
    OK(cudaSetDevice(rank));
    OK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    shared = capture(own, 3, NULL);
    OK(cudaStreamDestroy(own));
    return NULL;
}

/* A thread captures on a stream that is gone when another launches, on two streams by turns. */
static void scene_threads(void) {
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        OK(pthread_create(&thread, NULL, capture_here, NULL));
        OK(pthread_join(thread, NULL));
        for (int k = 0; k < 10; k++) {
            replay(shared, k % 2 ? stream : other, 3);
            OK(cudaDeviceSynchronize());
        }
        OK(cudaGraphExecDestroy(shared));
    }
}

/* Waiting for a stream ends its capture; what was captured never runs, and the stream is as before. */
static void scene_given_up(void) {
    for (int i = 0; i < 20; i++) {
        cudaGraph_t graph = NULL;
        OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        enqueue(stream);
        if (cudaStreamSynchronize(stream) == cudaSuccess || cudaStreamEndCapture(stream, &graph) == cudaSuccess)
            OK(1);
        (void)cudaGetLastError();
        reduce(stream);
        OK(cudaStreamSynchronize(stream));
    }
}

/* One graph, several executable ones. */
static void scene_twice(void) {
    cudaGraph_t graph;
    cudaGraphExec_t one = capture(stream, 2, &graph), two;
    OK(cudaGraphInstantiate(&two, graph, 0));
    for (int i = 0; i < 30; i++) {
        replay(i % 2 ? one : two, i % 2 ? stream : other, 2);
        OK(cudaDeviceSynchronize());
        if (i != 15)
            continue;
        OK(cudaGraphExecDestroy(one));
        OK(cudaGraphInstantiate(&one, graph, 0));
    }
    OK(cudaGraphDestroy(graph));
    replay(one, stream, 2);
}

/* Streams are destroyed before their work is done, which they do still. */
static void scene_streams(void) {
    for (int i = 0; i < 40; i++) {
        cudaStream_t brief;
        OK(cudaStreamCreateWithFlags(&brief, cudaStreamNonBlocking));
        cudaGraphExec_t executable = capture(brief, 1, NULL);
        reduce(brief);
        replay(executable, brief, 1);
        reduce(brief);
        OK(cudaStreamDestroy(brief));
    }
}

static void scene_reset(void) {
    for (int i = 0; i < 3; i++) {
        cudaGraphExec_t executable = capture(stream, 2, NULL);
        for (int k = 0; k < 5; k++) {
            reduce(stream);
            replay(executable, stream, 2);
        }
        OK(cudaDeviceSynchronize());
        OK(ncclCommDestroy(comm));
        OK(cudaDeviceReset());
        begin();
    }
    reduce(stream);
}

static void *launch_here(void *on) {
    OK(cudaSetDevice(rank));
    for (int i = 0; i < 50; i++)
        OK(cudaGraphLaunch(shared, (cudaStream_t)on));
    return NULL;
}

/* Two threads launch one graph. */
static void scene_both(void) {
    pthread_t thread;
    shared = capture(stream, 1, NULL);
    OK(pthread_create(&thread, NULL, launch_here, other));
    launch_here(stream);
    OK(pthread_join(thread, NULL));
    made += 100;
}

/* A graph that holds another, which runs by itself, too. */
static void scene_inside(void) {
    cudaGraph_t graph;
    cudaGraphExec_t part = capture(stream, 2, NULL), whole;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaGraphLaunch(part, stream));
    enqueue(stream);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&whole, graph, 0));
    for (int i = 0; i < 10; i++) {
        replay(whole, stream, 3);
        replay(part, stream, 2);
        OK(cudaStreamSynchronize(stream));
    }
}

/* An executable graph is updated with new captures, some that run still, as decoders and schedulers do; one that is of
 * another shape is refused, and what was goes on. */
static void scene_updated(void) {
    cudaGraph_t graph, longer;
    cudaGraphExecUpdateResultInfo info;
    cudaGraphExec_t executable = capture(stream, 2, NULL), unused = capture(stream, 3, &longer);
    OK(cudaGraphExecDestroy(unused));
    for (int i = 0; i < 40; i++) {
        replay(executable, stream, 2);
        if (i % 2)
            OK(cudaStreamSynchronize(stream));
        if (cudaGraphExecUpdate(executable, longer, &info) != cudaErrorGraphExecUpdateFailure)
            OK(1);
        (void)cudaGetLastError();
        replay(executable, stream, 2);
        OK(cudaGraphExecDestroy(capture(stream, 2, &graph)));
        OK(cudaGraphExecUpdate(executable, graph, &info));
        OK(cudaGraphDestroy(graph));
        replay(executable, i % 3 ? stream : other, 2);
    }
}

/* A graph of five reductions of the communicator on two streams, which part and meet again. */
static cudaGraphExec_t capture_forked(void) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaEvent_t parted, met;
    OK(cudaEventCreateWithFlags(&parted, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&met, cudaEventDisableTiming));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    enqueue(stream);
    OK(cudaEventRecord(parted, stream));
    OK(cudaStreamWaitEvent(other, parted, 0));
    enqueue(other);
    enqueue(stream);
    enqueue(other);
    OK(cudaEventRecord(met, other));
    OK(cudaStreamWaitEvent(stream, met, 0));
    enqueue(stream);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventDestroy(parted));
    OK(cudaEventDestroy(met));
    return executable;
}

static void scene_forked(void) {
    cudaGraphExec_t one = capture_forked(), two = capture_forked();
    for (int i = 0; i < 30; i++) {
        replay(i % 2 ? one : two, stream, 5);
        if (i % 3 == 0)
            OK(cudaStreamSynchronize(stream));
        reduce(other);
        OK(cudaStreamSynchronize(other));
    }
    OK(cudaGraphExecDestroy(one));
    OK(cudaGraphExecDestroy(two));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*play)(void);
    } scenes[] = {{"come-and-go", scene_come_and_go},
                  {"threads", scene_threads},
                  {"given-up", scene_given_up},
                  {"twice", scene_twice},
                  {"streams", scene_streams},
                  {"reset", scene_reset},
                  {"both", scene_both},
                  {"inside", scene_inside},
                  {"updated", scene_updated},
                  {"forked", scene_forked}};
    if (argc < 5)
        return 2;
    rank = atoi(argv[2]);
    ranks = atoi(argv[3]);
    folder = argv[4];
    begin();
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (!strcmp(argv[1], scenes[i].name))
            scenes[i].play();
    OK(cudaDeviceSynchronize());
    OK(ncclCommDestroy(comm));
    printf("made %d\n", made);
    return 0;
}
