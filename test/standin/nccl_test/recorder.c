/* SPDX-License-Identifier: Apache-2.0
 *
 * A profiler plugin that writes every call it gets as a line to the file RECORDER_LOG, for test_plugin.c. The handles
 * it hands out are numbers from 1. RECORDER_MASK is the first event mask; recorder_set_mask changes it at run time.
 */
#include "test/standin/nccl/plugin_api.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *out;
static uintptr_t handles;
static int *event_mask;

__attribute__((visibility("default"))) void recorder_set_mask(int mask) {
    __atomic_store_n(event_mask, mask, __ATOMIC_RELAXED);
}

static int init(int version, void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank) {
    const char *wanted = getenv("RECORDER_MASK"), *path = getenv("RECORDER_LOG");
    if (!out && path)
        out = fopen(path, "w");
    if (!out)
        return 3;
    setvbuf(out, NULL, _IOLBF, 0);
    event_mask = mask;
    *mask = wanted ? atoi(wanted) : 0;
    *context = out;
    fprintf(out, "init %d %llx %s %d %d %d\n", version, (unsigned long long)id, name ? name : "-", nodes, ranks, rank);
    return 0;
}

/* What is of interest of each event in five numbers. */
static void details(const struct profiler_event_v6 *e, unsigned long long *d) {
    switch (e->type) {
    case PROFILER_GROUP_API:
        d[0] = e->groupApi.graphCaptured;
        d[1] = (unsigned long long)e->groupApi.groupDepth;
        break;
    case PROFILER_COLL_API:
        d[0] = e->collApi.graphCaptured;
        d[1] = e->collApi.count;
        d[2] = (uintptr_t)e->collApi.stream;
        break;
    case PROFILER_P2P_API:
        d[0] = e->p2pApi.graphCaptured;
        d[1] = e->p2pApi.count;
        d[2] = (uintptr_t)e->p2pApi.stream;
        break;
    case PROFILER_KERNEL_LAUNCH:
        d[2] = (uintptr_t)e->kernelLaunch.stream;
        break;
    case PROFILER_COLL:
        d[0] = e->coll.seqNumber;
        d[1] = e->coll.count;
        d[2] = (uintptr_t)e->coll.parentGroup;
        d[3] = e->coll.nChannels;
        break;
    case PROFILER_P2P:
        d[0] = (unsigned long long)e->p2p.peer;
        d[1] = e->p2p.count;
        d[2] = (uintptr_t)e->p2p.parentGroup;
        break;
    case PROFILER_PROXY_OP:
        d[0] = (unsigned long long)e->proxyOp.peer;
        d[1] = (unsigned long long)e->proxyOp.nSteps;
        d[2] = (unsigned long long)e->proxyOp.isSend;
        d[3] = (unsigned long long)e->proxyOp.pid;
        break;
    case PROFILER_PROXY_STEP:
        d[0] = (unsigned long long)e->proxyStep.step;
        break;
    case PROFILER_KERNEL_CH:
        d[0] = e->kernelCh.channelId;
        d[1] = e->kernelCh.pTimer;
        break;
    default:
        break;
    }
}

static int start_v6(void *context, void **handle, struct profiler_event_v6 *e) {
    unsigned long long d[4] = {0};
    details(e, d);
    pthread_mutex_lock(&lock);
    *handle = (void *)++handles;
    fprintf(context, "start %llu %lu %lu %d %llu %llu %llu %llu\n", (unsigned long long)e->type, (unsigned long)handles,
            (unsigned long)(uintptr_t)e->parentObj, e->rank, d[0], d[1], d[2], d[3]);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int start_v4(void *context, void **handle, struct profiler_event_v4 *e) {
    struct profiler_event_v6 newer = {.type = e->type, .parentObj = e->parentObj, .rank = e->rank};
    if (e->type == PROFILER_COLL) {
        newer.coll.seqNumber = e->coll.seqNumber;
        newer.coll.count = e->coll.count;
        newer.coll.nChannels = e->coll.nChannels;
    }
    return start_v6(context, handle, &newer);
}

static int stop(void *handle) {
    fprintf(out, "stop %lu\n", (unsigned long)(uintptr_t)handle);
    return 0;
}

static int record(void *handle, int state, union profiler_state_args *args) {
    unsigned long long value = 0;
    if (args && state == STATE_KERNEL_CH_STOP)
        value = args->kernelCh.pTimer;
    else if (args)
        value = args->proxyStep.transSize;
    fprintf(out, "state %d %lu %llu\n", state, (unsigned long)(uintptr_t)handle, value);
    return 0;
}

static int finalize(void *context) {
    fprintf(context, "finalize\n");
    return 0;
}

static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank,
                   profiler_logger log) {
    (void)log;
    return init(4, context, hash, mask, name, nodes, ranks, rank);
}

static int init_v5(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,
                   profiler_logger log) {
    (void)log;
    return init(5, context, id, mask, name, nodes, ranks, rank);
}

static int init_v6(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,
                   profiler_logger log) {
    (void)log;
    return init(6, context, id, mask, name, nodes, ranks, rank);
}

#define PLUGIN __attribute__((visibility("default"))) const struct
PLUGIN profiler_v4 ncclProfiler_v4 = {"recorder", init_v4, start_v4, stop, record, finalize};
PLUGIN profiler_v6 ncclProfiler_v5 = {"recorder", init_v5, start_v6, stop, record, finalize};
PLUGIN profiler_v6 ncclProfiler_v6 = {"recorder", init_v6, start_v6, stop, record, finalize};
