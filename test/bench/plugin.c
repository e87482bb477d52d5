/* SPDX-License-Identifier: Apache-2.0
 *
 * What the profiler plugin costs NCCL's threads: the events of one collective, made by hand as NCCL 2.28 makes them.
 * Dumps go to COMMTAP_DIR; a libcuda.so.1 (LD_LIBRARY_PATH: the stand-in) is needed for a device to be timed.
 * Prints "calls NS launch NS channel NS": with calls counted alone, all events of a launch in the calling thread with
 * kernel times on, and one channel's in the proxy's thread; medians of batches.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "shim/gpu/kernel_times.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/threads.h"
#include "shim/nccl/nccl_begin.h"
#include "shim/nccl/nccl_frame.h"
#include "shim/nccl/plugin.h"
#include "shim/nccl/plugin_abi.h"

#define BATCHES 200
#define BATCH   100

extern const struct profiler_v5 ncclProfiler_v5;
static const struct profiler_v5 *const plugin = &ncclProfiler_v5;

static void *context, *tasks[BATCH];
static struct communicator communicator = {.size = 2};
static struct progress progress;
static struct nccl_frame frame;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(bool fine, const char *what) {
    if (fine)
        return;
    fprintf(stderr, "plugin: %s\n", what);
    exit(2);
}

static void *start(struct profiler_event *event) {
    void *handle;
    plugin->start(context, &handle, event);
    return handle;
}

static void *start_call(void) {
    start(&(struct profiler_event){.type = 1 << 8}); /* GroupApi: comes with any other of the calls' events */
    struct profiler_event event = {.type = PROFILER_COLL_API};
    event.collective_call.function = "AllReduce";
    frame.call.told = 0;
    return start(&event);
}

static double calls_batch(void) {
    uint64_t begin = now_ns();
    for (int i = 0; i < BATCH; i++)
        start_call();
    return (double)(now_ns() - begin) / BATCH;
}

static double launches_batch(void) {
    const struct gpu_launch facts = {
        .bytes = 4096, .peer = PEER_NONE, .call = frame.call.call->id, .progress = &progress, .collectives = 1};
    uint64_t begin = now_ns();
    for (int i = 0; i < BATCH; i++) {
        void *call = start_call();
        plugin->stop(call);
        void *group = start(&(struct profiler_event){.type = PROFILER_GROUP});
        struct profiler_event event = {.type = PROFILER_COLL, .parent = call};
        event.collective.group = group;
        event.collective.channels = 1;
        tasks[i] = start(&event);
        plugin->stop(tasks[i]);
        plugin->stop(group);
        kernel_span_launch(frame.kernel, 0, &facts);
        frame.kernel = NULL;
    }
    return (double)(now_ns() - begin) / BATCH;
}

static double channels_batch(void) {
    uint64_t begin = now_ns();
    for (int i = 0; i < BATCH; i++) {
        struct profiler_event event = {.type = PROFILER_KERNEL_CH, .parent = tasks[i]};
        event.kernel.stamp = begin;
        void *channel = start(&event);
        plugin->state(channel, PROFILER_KERNEL_CH_STOP, &(union profiler_state_details){.kernel = {.stamp = begin}});
        plugin->stop(channel);
    }
    return (double)(now_ns() - begin) / BATCH;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, BATCHES, sizeof *values, by_value);
    return values[BATCHES / 2];
}

/* As in a wrapper of ncclAllReduce. */
static void enter_call(void) {
    struct thread *self = current_thread();
    must(self != NULL, "no thread");
    communicator.progress = &progress;
    frame =
        (struct nccl_frame){.call = {.self = self, .comm = &communicator, .call = &commtap_calls[INDEX_ncclAllReduce]}};
    self->frame = &frame.call;
    self->outer = 1;
}

static void use_device(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *device_context;
    must(driver != NULL, "no libcuda.so.1");
    must(((int (*)(unsigned))dlsym(driver, "cuInit"))(0) == 0, "cuInit");
    must(((int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain"))(&device_context, 0) == 0, "no context");
    must(((int (*)(void *))dlsym(driver, "cuCtxSetCurrent"))(device_context) == 0, "cuCtxSetCurrent");
}

int main(void) {
    static double calls[BATCHES], launches[BATCHES], channels[BATCHES];
    int mask = 0;
    setenv("COMMTAP_GPU_TIMING", "kernel", 1);
    knobs_read(&recorder.knobs);
    use_device();
    must(activate_process() && nccl_begin(NULL), "cannot record");
    enter_call();
    must(plugin->init(&context, 1, &mask, NULL, 1, 2, 0, NULL) == 0 && context, "not wanted");
    for (int i = 0; i < BATCHES; i++)
        calls[i] = calls_batch();
    kernel_times_offer(true);
    must(gpu_attach_device() == 0 && kernel_times_live(), "kernel times are not in force");
    plugin_follow_mode();
    for (int i = 0; i < BATCHES; i++) {
        launches[i] = launches_batch();
        channels[i] = channels_batch();
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL); /* spans come back */
    }
    must(recorder.header->losses.gpu_no_event == 0, "some launches were not timed");
    printf("calls %.0f launch %.0f channel %.0f\n", median(calls), median(launches), median(channels));
    gpu_timing_exit();
    activation_end();
    return 0;
}
