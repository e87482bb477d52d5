/* SPDX-License-Identifier: Apache-2.0
 *
 * What timing one launch by events costs the thread that launches: a span's begin and end beside two bare event
 * records, on whatever libcuda.so.1 is found (LD_LIBRARY_PATH: the stand-in, or a real GPU's). Dumps go to COMMTAP_DIR.
 * Prints "bare NS span NS added NS", medians of batches in turns.
 * Must not live here: spans of its own: gpu_span_begin and gpu_span_end are what is measured.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "shim/gpu/device.h"
#include "shim/gpu/timing.h"
#include "shim/intercept/activate.h"
#include "shim/record/recorder.h"

#define BATCHES 200
#define BATCH   100 /* fits into the pool */

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *driver;

static int (*function(const char *name))() {
    int (*found)() = (int (*)())dlsym(driver, name);
    if (!found) {
        fprintf(stderr, "gpu: libcuda.so.1 lacks %s\n", name);
        exit(2);
    }
    return found;
}

static void must(int status, const char *what) {
    if (status) {
        fprintf(stderr, "gpu: %s: %d\n", what, status);
        exit(2);
    }
}

/* A stream of the first device's primary context. */
static void *make_stream(void) {
    void *context, *stream;
    must(function("cuInit")(0), "cuInit");
    must(function("cuDevicePrimaryCtxRetain")(&context, 0), "cuDevicePrimaryCtxRetain");
    must(function("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
    must(function("cuStreamCreate")(&stream, GPU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return stream;
}

static double bare_batch(void *stream, void **events) {
    uint64_t start = now_ns();
    for (int i = 0; i < BATCH; i++) {
        gpu_driver.event_record(events[2 * i], stream);
        gpu_driver.event_record(events[2 * i + 1], stream);
    }
    return (double)(now_ns() - start) / BATCH;
}

static double span_batch(int device, void *stream) {
    struct gpu_launch launch = {.bytes = 4096, .comm = COMM_NONE, .peer = PEER_NONE, .call = 1};
    uint64_t start = now_ns();
    for (int i = 0; i < BATCH; i++) {
        struct gpu_span *span = gpu_span_begin(device, stream, 1);
        launch.op++;
        gpu_span_end(span, &launch);
    }
    return (double)(now_ns() - start) / BATCH;
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
    static double bare[BATCHES], span[BATCHES];
    static void *events[2 * BATCH];
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "gpu: %s\n", dlerror());
        return 2;
    }
    void *stream = make_stream();
    int (*synchronize)() = function("cuStreamSynchronize");
    knobs_read(&recorder.knobs);
    int device = activate_process() ? gpu_attach_device() : -1;
    if (device < 0) {
        fprintf(stderr, "gpu: not timed by events: %s\n", recorder.header ? recorder.header->gpu_timing_why : "");
        return 2;
    }
    for (int i = 0; i < 2 * BATCH; i++)
        must(gpu_driver.event_create(&events[i], 0), "cuEventCreate");
    for (int i = 0; i < BATCHES; i++) {
        bare[i] = bare_batch(stream, events);
        must(synchronize(stream), "cuStreamSynchronize");
        span[i] = span_batch(device, stream);
        must(synchronize(stream), "cuStreamSynchronize");
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL); /* spans come back */
    }
    if (recorder.header->losses.gpu_no_event || recorder.header->losses.gpu_failed) {
        fprintf(stderr, "gpu: some launches were not timed\n");
        return 2;
    }
    double b = median(bare), s = median(span);
    printf("bare %.0f span %.0f added %.0f\n", b, s, s - b);
    gpu_timing_exit();
    activation_end();
    return 0;
}
