/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU timing over a driver that a test steps through (fake_gpu.h), in a unit test that is the whole process. To be
 * included once in a program.
 * Must not live here: what launches, graphs and waits come to (the tests themselves).
 */
#ifndef COMMTAP_TEST_UNIT_GPU_FIXTURE_H
#define COMMTAP_TEST_UNIT_GPU_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_gpu.h"
#include "shim/gpu/graphs.h"
#include "shim/gpu/harvester.h"
#include "shim/gpu/mode.h"
#include "shim/gpu/timing.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/resolve.h"
#include "shim/record/aggregates.h"

#define MS   1000000ull
#define CALL 300
#define COMM 7

/* The job's functions (wrap_cuda.c), behind which everything succeeds. */
int cudaEventRecord(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
int cudaStreamWaitEvent(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
int cudaStreamWaitEvent_ptsz(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static inline uintptr_t succeed(void) {
    return 0;
}

any_function resolve_absent(const char *name, const void *caller, any_function error) {
    (void)name, (void)caller;
    return error;
}
any_function resolve_hook(const struct hook *hook, const void *caller) {
    (void)hook, (void)caller;
    return succeed;
}

static char directory[] = "/tmp/commtap-unit-XXXXXX";
static struct progress progress;
static int device;
static uint64_t seen_records;

static inline int activate(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_HEARTBEAT", "off", 1); /* the test forks, which the thread sanitizer takes of one thread alone */
    setenv("COMMTAP_RING", "16384", 1);
    knobs_read(&recorder.knobs);
    return activate_process() ? 0 : -1;
}

static inline int remove_files(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

/* A fresh engine in the running recorder, without its thread. Lanes are made once: tests use differences. */
static inline int begin(bool graphs) {
    fake_gpu_begin(graphs);
    memset(&gpu, 0, sizeof gpu);
    memset(&recorder.header->losses, 0, sizeof recorder.header->losses);
    recorder.header->captured_unfollowed = 0;
    memset(&recorder.lanes[LANE_DEVICE], 0, sizeof recorder.lanes[LANE_DEVICE]);
    recorder.file.section_count = 20; /* sections of earlier tests may be overwritten */
    gpu.generation = *recorder_armed;
    graphs_begin();
    assert_null(harvester_prepare());
    progress = (struct progress){.version = 2, .comm = COMM};
    device = gpu_attach_device();
    assert_int_equal(device, 0);
    harvester_round(); /* introduces the device, takes its first anchor */
    seen_records = recorder.lanes[LANE_DEVICE].head;
    return 0;
}

static inline int begin_plain(void **state) {
    (void)state;
    return begin(false);
}

static inline int begin_graphs(void **state) {
    (void)state;
    return begin(true);
}

static inline struct gpu_launch launch(uint32_t op) {
    return (struct gpu_launch){.bytes = 4096,
                               .seq = op,
                               .op = op,
                               .comm = COMM,
                               .peer = PEER_NONE,
                               .ranks = 4,
                               .call = CALL,
                               .flags = FLAG_COLLECTIVE,
                               .progress = &progress,
                               .collectives = 1};
}

static inline struct gpu_span *enqueue(void *stream, uint32_t op) {
    struct gpu_launch l = launch(op);
    struct gpu_span *span = gpu_span_begin(device, stream, 1);
    progress.enqueued++;
    gpu_span_end(span, &l);
    return span;
}

/* The next record of the kind that the test has not seen. */
static inline const struct record *next_record(uint8_t kind) {
    const struct lane *lane = &recorder.lanes[LANE_DEVICE];
    while (seen_records < lane->head) {
        const struct record *r = &lane->ring[seen_records++ & lane->mask];
        if (r->kind == kind)
            return r;
    }
    return NULL;
}

static inline const struct losses *losses(void) {
    return &recorder.header->losses;
}

static inline void assert_near(uint64_t a, uint64_t b, uint64_t room) {
    assert_true(a > b ? a - b <= room : b - a <= room);
}

#define PLAIN(test)  cmocka_unit_test_setup(test, begin_plain)
#define GRAPHS(test) cmocka_unit_test_setup(test, begin_graphs)

#endif
