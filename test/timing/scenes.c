/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs of one process on the stand-in's driver, timed by the library's GPU engine (engine.h): one scene each.
 * Prints "name number" lines about itself on stdout; ends with 0 unless a call of the job's own went wrong.
 * Must not live here: what the dump must say about it (test/e2e/test_gpu_timing.py).
 *
 *   scenes NAME [NUMBER]
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/standin/cuda_api.h"
#include "test/standin/cudart_api.h"
#include "test/standin/standin.h"
#include "test/timing/engine.h"

#define OK(call) ok(call, #call)

static int device;
static CUcontext context;
static uint32_t next_op = 1;

static void ok(int status, const char *call) {
    if (status == 0)
        return;
    fprintf(stderr, "scenes: %s: %d\n", call, status);
    _exit(2);
}

static void sleep_us(void *us) {
    usleep((useconds_t)(uintptr_t)us);
}

static void work(CUstream stream, unsigned us) {
    OK(standin_stream_enqueue(stream, sleep_us, (void *)(uintptr_t)us));
}

static CUstream new_stream(void) {
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

/* One launch of a communicator. */
static void launch(CUstream stream, uint32_t comm, unsigned us) {
    void *span = engine_begin(device, stream, 1);
    work(stream, us);
    engine_end(span, comm, next_op++);
}

static void use_device(int ordinal) {
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, ordinal));
    OK(cuCtxSetCurrent(context));
    engine_open();
}

static void attach(void) {
    device = engine_attach();
    printf("device %d\n", device);
}

/* Until the harvester has come to everything; the job itself has nothing to do with that. */
static void wait_for_harvest(uint32_t comm) {
    for (int i = 0; i < 5000 && engine_completed(comm) < engine_enqueued(comm); i++)
        usleep(1000);
}

/* ---- scenes ---------------------------------------------------------------------------------- */

static void streams(int count) {
    CUstream a = new_stream(), b = new_stream();
    for (int i = 0; i < count; i++) {
        launch(a, 1, 3000);
        launch(b, 2, 6000);
    }
    OK(cuStreamSynchronize(a));
    OK(cuStreamSynchronize(b));
}

/* 0, 1 and 2 while another device's context is current. */
static void special(int count) {
    CUcontext other, popped;
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxSetCurrent(other));
    for (int i = 0; i < count; i++)
        for (uintptr_t handle = 0; handle <= 2; handle++) {
            void *span = engine_begin(device, (CUstream)handle, 1);
            OK(cuCtxPushCurrent_v2(context)); /* as the communication library does */
            work((CUstream)handle, 1000);
            OK(cuCtxPopCurrent_v2(&popped));
            engine_end(span, 1, next_op++);
        }
    CUcontext current;
    OK(cuCtxGetCurrent(&current));
    printf("context-kept %d\n", current == other);
    wait_for_harvest(1);
}

/* The strictest kind of capture, while the harvester is busy with another stream. */
static CUgraphExec capture(CUstream stream, unsigned us) {
    CUgraph graph;
    CUgraphExec executable;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < 2; i++) {
        launch(stream, 3, us);
        usleep(10000);
    }
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    OK(cuGraphDestroy(graph));
    return executable;
}

static void replays(int count) {
    CUstream stream = new_stream(), busy = new_stream();
    for (int i = 0; i < 20; i++)
        launch(busy, 1, 2000);
    CUgraphExec executable = capture(stream, 100);
    for (int i = 0; i < count; i++) {
        OK(cuGraphLaunch(executable, stream));
        OK(cuStreamSynchronize(stream));
    }
    OK(cuGraphExecDestroy(executable));
    OK(cuStreamSynchronize(busy));
}

static void replays_at_once(int count) {
    CUstream stream = new_stream();
    CUgraphExec executable = capture(stream, 100);
    for (int i = 0; i < count; i++)
        OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
}

/* Every graph lives while the others are launched: two launches each. */
static void many_graphs(int count) {
    CUstream stream = new_stream();
    CUgraphExec *executables = calloc((size_t)count, sizeof *executables);
    for (int i = 0; i < count; i++) {
        CUgraph graph;
        OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        launch(stream, 3, 0);
        launch(stream, 3, 0);
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphInstantiateWithFlags(&executables[i], graph, 0));
        OK(cuGraphDestroy(graph));
    }
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < count; i++)
            OK(cuGraphLaunch(executables[i], stream));
    OK(cuStreamSynchronize(stream));
    printf("launches %d\n", 3 * 2 * count);
}

/* A graph of two launches, launched into the capture of another that has one of its own. */
static void nested_graphs(int count) {
    CUstream stream = new_stream();
    CUgraphExec part = capture(stream, 100), executable;
    CUgraph whole;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch(stream, 3, 100);
    OK(cuGraphLaunch(part, stream));
    OK(cuStreamEndCapture(stream, &whole));
    OK(cuGraphInstantiateWithFlags(&executable, whole, 0));
    for (int i = 0; i < count; i++) {
        OK(cuGraphLaunch(part, stream));
        OK(cuGraphLaunch(executable, stream));
        OK(cuGraphLaunch(executable, stream));
        OK(cuStreamSynchronize(stream));
    }
    printf("launches %d\n", count * (2 + 2 * 3));
}

static unsigned event_nodes(CUgraph graph) {
    CUgraphNode nodes[64];
    size_t count = 64;
    unsigned found = 0;
    OK(cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;
        OK(cuGraphNodeGetType(nodes[i], &type));
        found += type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    }
    return found;
}

/* One launch more in each capture into one graph, and an executable graph after each. */
static void captured_again(int count) {
    CUstream stream = new_stream();
    CUgraphExec executable;
    CUgraph graph, same;
    int launches = 0;
    OK(cuGraphCreate(&graph, 0));
    for (int i = 0; i < count; i++) {
        OK(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
        launch(stream, 3, 100);
        OK(cuStreamEndCapture(stream, &same));
        OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
        for (int k = 0; k < 3; k++)
            OK(cuGraphLaunch(executable, stream));
        OK(cuStreamSynchronize(stream));
        launches += 3 * (i + 1);
    }
    printf("launches %d\nevent-nodes %u\n", launches, event_nodes(graph));
}

/* Two streams in one captured group: the job joins only what it has forked itself. */
static void captured_group(int count) {
    CUstream main_stream = new_stream(), second = new_stream();
    CUevent fork_event, join_event;
    CUgraph graph;
    CUgraphExec executable;
    OK(cuEventCreate(&fork_event, 0));
    OK(cuEventCreate(&join_event, 0));
    OK(cuStreamBeginCapture_v2(main_stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(fork_event, main_stream));
    OK(cuStreamWaitEvent(second, fork_event, 0));
    void *span = engine_begin(device, second, 2);
    work(second, 1000);
    OK(cuEventRecord(join_event, second)); /* inside the library: all streams wait for the launch */
    OK(cuStreamWaitEvent(main_stream, join_event, 0));
    engine_end(span, 1, next_op++);
    OK(cuStreamEndCapture(main_stream, &graph));
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int i = 0; i < count; i++) {
        OK(cuGraphLaunch(executable, main_stream));
        OK(cuStreamSynchronize(main_stream));
    }
}

/* Communication of 20 ms; compute comes to its wait after 5. */
static void exposed(int count) {
    CUstream communication = new_stream(), compute = new_stream();
    CUevent done;
    OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < count; i++) {
        launch(communication, 1, 20000);
        OK(cuEventRecord(done, communication));
        work(compute, 5000);
        OK(cuStreamWaitEvent(compute, done, 0));
        OK(cuStreamSynchronize(compute));
    }
    wait_for_harvest(1);
}

/* The same three things through the runtime, which comes back to us with the driver's functions or does not: replays,
 * a wait, the end of the context. */
static void runtime(int count) {
    cudaStream_t communication, compute;
    cudaEvent_t done;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    OK(cudaStreamCreateWithFlags(&communication, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    OK(cudaStreamBeginCapture(communication, cudaStreamCaptureModeGlobal));
    launch((CUstream)communication, 3, 1000);
    OK(cudaStreamEndCapture(communication, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < count; i++) {
        OK(cudaGraphLaunch(executable, communication));
        launch((CUstream)communication, 1, 20000);
        OK(cudaEventRecord(done, communication));
        OK(cudaStreamWaitEvent(compute, done, 0));
        OK(cudaStreamSynchronize(compute));
    }
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    launch((CUstream)communication, 1, 50000);
    OK(cudaDeviceReset());
}

/* Two devices of one process, whose contexts are current by turns. */
static void devices(int count) {
    CUcontext contexts[2];
    CUstream streams_of[2];
    int index[2];
    for (int d = 0; d < 2; d++) {
        OK(cuDevicePrimaryCtxRetain(&contexts[d], d));
        OK(cuCtxSetCurrent(contexts[d]));
        index[d] = engine_attach();
        streams_of[d] = new_stream();
    }
    printf("second %d\n", index[1]);
    for (int i = 0; i < count; i++)
        for (int d = 0; d < 2; d++) {
            void *span = engine_begin(index[d], streams_of[d], 1); /* the last device's context is current */
            OK(cuCtxPushCurrent_v2(contexts[d]));
            work(streams_of[d], 1000);
            OK(cuCtxPopCurrent_v2(&context));
            engine_end(span, (uint32_t)d + 1, next_op++);
        }
    for (int d = 0; d < 2; d++)
        OK(cuStreamSynchronize(streams_of[d]));
}

static void reset(int count) {
    for (int i = 0; i < count; i++) {
        CUstream stream = new_stream();
        launch(stream, 1, 1000);
        OK(cuStreamSynchronize(stream));
        launch(stream, 1, 100000);
        OK(cuDevicePrimaryCtxReset_v2(0));
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        device = engine_attach();
    }
    printf("device-again %d\n", device);
}

static void abandon(int count) {
    CUstream stream = new_stream();
    for (int i = 0; i < count; i++)
        launch(stream, 1, i < count / 2 ? 1000 : 2000000);
    usleep(1000 * (useconds_t)count + 50000);
}

static void exit_busy(int count) {
    abandon(count);
    exit(0);
}

static void killed(int count) {
    abandon(count);
    fflush(stdout);
    kill(getpid(), SIGKILL);
}

/* Ends after `us` at whatever the harvester is doing. */
static void brief(int us) {
    CUstream stream = new_stream();
    for (int i = 0; i < 50; i++)
        launch(stream, 1, 0);
    usleep((useconds_t)us);
}

static void forked(int count) {
    CUstream stream = new_stream();
    launch(stream, 1, 1000);
    pid_t child = fork();
    if (child == 0)
        exit(engine_begin(device, stream, 1) != NULL);
    int status;
    waitpid(child, &status, 0);
    printf("child %d\n", status);
    for (int i = 0; i < count; i++)
        launch(stream, 1, 1000);
    OK(cuStreamSynchronize(stream));
}

static void aborted(int count) {
    CUstream a = new_stream(), b = new_stream();
    launch(b, 2, 1000);
    for (int i = 0; i < count; i++)
        launch(a, 1, 10000);
    OK(cuStreamSynchronize(b));
    engine_abort(1);
    OK(cuStreamSynchronize(a));
}

static void *launch_many(void *stream) {
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < 200; i++) {
        void *span = engine_begin(device, stream, 1);
        work(stream, 0);
        engine_end(span, 1, __atomic_fetch_add(&next_op, 1, __ATOMIC_RELAXED));
        usleep(200);
    }
    OK(cuStreamSynchronize(stream));
    return NULL;
}

static void threads(int count) {
    pthread_t thread[16];
    for (int i = 0; i < count; i++)
        pthread_create(&thread[i], NULL, launch_many, new_stream());
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
}

static void *attach_and_launch(void *stream) {
    OK(cuCtxSetCurrent(context));
    device = engine_attach(); /* the same for all */
    return launch_many(stream);
}

/* All threads create their first communicator at once. */
static void rush(int count) {
    pthread_t thread[16];
    for (int i = 0; i < count; i++)
        pthread_create(&thread[i], NULL, attach_and_launch, new_stream());
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    attach();
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(int number);
        int number;
    } scenes[] = {
        {"streams", streams, 10},
        {"special", special, 3},
        {"replays", replays, 1000},
        {"replays_at_once", replays_at_once, 200},
        {"many_graphs", many_graphs, 1500},
        {"nested_graphs", nested_graphs, 5},
        {"captured_again", captured_again, 4},
        {"captured_group", captured_group, 5},
        {"exposed", exposed, 5},
        {"runtime", runtime, 5},
        {"devices", devices, 10},
        {"reset", reset, 3},
        {"exit_busy", exit_busy, 10},
        {"killed", killed, 10},
        {"brief", brief, 1000},
        {"forked", forked, 5},
        {"aborted", aborted, 3},
        {"threads", threads, 4},
        {"rush", rush, 8},
    };
    for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof *scenes; i++)
        if (!strcmp(argv[1], scenes[i].name)) {
            setvbuf(stdout, NULL, _IOLBF, 0);
            use_device(0);
            if (scenes[i].run != rush)
                attach();
            scenes[i].run(argc > 2 ? atoi(argv[2]) : scenes[i].number);
            return 0;
        }
    fprintf(stderr, "usage: scenes NAME [NUMBER]\n");
    return 2;
}
