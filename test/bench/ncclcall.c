/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call of NCCL costs the thread that makes it: ncclAllReduce in place on a communicator of one rank, for which
 * NCCL itself has nothing to do, in batches; and two event records of the program's own in the same stream, which is
 * what timing by events cannot do without. Preload nothing, the floor (ncclfloor.c) or commtap.
 * Prints "call NS records NS", medians of batches in turns.
 * Must not live here: anything that knows of commtap.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

#define BATCHES  200
#define BATCH    100 /* launches that may be in flight without want */
#define OK(call) ok((int)(call), #call)

static void ok(int status, const char *call) {
    if (status == 0)
        return;
    fprintf(stderr, "ncclcall: %s: %d\n", call, status);
    exit(2);
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, BATCHES, sizeof *values, by_value);
    return values[BATCHES / 2];
}

int main(void) {
    static double call[BATCHES], records[BATCHES];
    static cudaEvent_t events[2 * BATCH];
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    float *data;
    OK(cudaSetDevice(0));
    OK(cudaMalloc((void **)&data, 4096));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 2 * BATCH; i++)
        OK(cudaEventCreate(&events[i]));
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&comm, 1, id, 0));
    for (int b = 0; b < BATCHES; b++) {
        double start = now_ns();
        for (int i = 0; i < BATCH; i++)
            OK(ncclAllReduce(data, data, 1024, ncclFloat32, ncclSum, comm, stream));
        call[b] = (now_ns() - start) / BATCH;
        OK(cudaStreamSynchronize(stream));
        start = now_ns();
        for (int i = 0; i < 2 * BATCH; i++)
            OK(cudaEventRecord(events[i], stream));
        records[b] = (now_ns() - start) / BATCH;
        OK(cudaStreamSynchronize(stream));
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL); /* who times by events gets them back */
    }
    printf("call %.0f records %.0f\n", median(call), median(records));
    OK(ncclCommDestroy(comm));
    return 0;
}
