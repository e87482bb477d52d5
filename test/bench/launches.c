/* SPDX-License-Identifier: Apache-2.0
 *
 * What calls of NCCL and CUDA beside a plain collective cost the thread that makes them: a group (a send and a receive
 * to itself, one launch), the launch of a captured graph, and ncclAllReduce outside and inside of a region between
 * cudaProfilerStart and cudaProfilerStop. Beside them what timing by events needs of the driver: two event records, and
 * the question whether a stream is being captured. Preload nothing, the floor (ncclfloor.c) or commtap.
 * Prints "group NS graph NS outside NS inside NS records NS capturing NS", medians of batches in turns.
 * Must not live here: anything that knows of commtap.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

int cudaProfilerStart(void);
int cudaProfilerStop(void);

#define ROUNDS   100
#define BATCH    20      /* in a row: what one costs with all caches cold is another question */
#define PAUSE_NS 2000000 /* who times by events gets them back */
#define OK(call) ok((int)(call), #call)

enum what { GROUP, GRAPH, OUTSIDE, INSIDE, RECORDS, CAPTURING, MEASURED };
static const char *const names[MEASURED] = {"group", "graph", "outside", "inside", "records", "capturing"};
static double took[MEASURED][ROUNDS];

static ncclComm_t comm;
static cudaStream_t stream;
static cudaEvent_t events[2];
static cudaGraphExec_t executables[BATCH]; /* one for each: a replay has ended when its graph is launched again */
static float *data, *other;

static void ok(int status, const char *call) {
    if (status == 0)
        return;
    fprintf(stderr, "launches: %s: %d\n", call, status);
    exit(2);
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* others may have the processor meanwhile */
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void one(enum what what, int i) {
    enum cudaStreamCaptureStatus status;
    switch (what) {
    case GROUP:
        OK(ncclGroupStart());
        OK(ncclSend(data, 64, ncclFloat32, 0, comm, stream));
        OK(ncclRecv(other, 64, ncclFloat32, 0, comm, stream));
        OK(ncclGroupEnd());
        return;
    case GRAPH:
        OK(cudaGraphLaunch(executables[i], stream));
        return;
    case OUTSIDE:
    case INSIDE:
        OK(ncclAllReduce(data, data, 64, ncclFloat32, ncclSum, comm, stream));
        return;
    case RECORDS:
        OK(cudaEventRecord(events[0], stream));
        OK(cudaEventRecord(events[1], stream));
        return;
    default:
        OK(cudaStreamIsCapturing(stream, &status));
    }
}

static void measure(enum what what, int round) {
    if (what == INSIDE)
        OK(cudaProfilerStart());
    double start = now_ns();
    for (int i = 0; i < BATCH; i++)
        one(what, i);
    took[what][round] = (now_ns() - start) / BATCH;
    if (what == INSIDE)
        OK(cudaProfilerStop());
    OK(cudaStreamSynchronize(stream));
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static void capture(cudaGraphExec_t *executable) {
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(ncclAllReduce(data, other, 64, ncclFloat32, ncclSum, comm, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(executable, graph, 0));
}

int main(void) {
    ncclUniqueId id;
    OK(cudaSetDevice(0));
    OK(cudaMalloc((void **)&data, 4096));
    OK(cudaMalloc((void **)&other, 4096));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaEventCreate(&events[0]));
    OK(cudaEventCreate(&events[1]));
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&comm, 1, id, 0));
    for (int i = 0; i < BATCH; i++)
        capture(&executables[i]);
    for (int round = 0; round < ROUNDS; round++)
        for (enum what what = 0; what < MEASURED; what++)
            measure(what, round);
    for (enum what what = 0; what < MEASURED; what++) {
        qsort(took[what], ROUNDS, sizeof *took[what], by_value);
        printf("%s %.0f%c", names[what], took[what][ROUNDS / 2], what + 1 < MEASURED ? ' ' : '\n');
    }
    OK(ncclCommDestroy(comm));
    return 0;
}
