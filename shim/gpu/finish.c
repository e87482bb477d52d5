/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/finish.h"

#include <string.h>

#include "shim/base/os.h"
#include "shim/gpu/device_lane.h"
#include "shim/gpu/waits.h"
#include "shim/record/verbose.h"

#define COMMS_ABORTABLE 16384u
#define BUSY_STRETCHES  (sizeof((struct gpu_device *)0)->busy / sizeof((struct gpu_device *)0)->busy[0])

static uint64_t aborted[COMMS_ABORTABLE / 64]; /* bit: local index of a communicator */

void finish_begin(void) {
    memset(aborted, 0, sizeof aborted);
    waits_begin();
}

/* Adds a stretch to the union of all. They come roughly in the order of their ends, so that the last few disjoint ones
 * are all that a new one can touch. */
static void count_busy(struct gpu_device *device, uint64_t t0, uint64_t t1) {
    uint64_t *total = &gpu.rows[gpu_device_index(device)].busy_ns;
    while (device->busy_count && device->busy[device->busy_count - 1].t1 >= t0) {
        uint64_t from = device->busy[--device->busy_count].t0, to = device->busy[device->busy_count].t1;
        *total -= to - from;
        t0 = from < t0 ? from : t0;
        t1 = to > t1 ? to : t1;
    }
    if (device->busy_count == BUSY_STRETCHES) {
        memmove(&device->busy[0], &device->busy[1], (BUSY_STRETCHES - 1) * sizeof device->busy[0]);
        device->busy_count--;
    }
    device->busy[device->busy_count].t0 = t0;
    device->busy[device->busy_count++].t1 = t1;
    *total += t1 - t0;
}

static void print(const struct gpu_launch *launch, uint64_t ns) {
    for (unsigned i = 0; i < commtap_call_count + PATTERN_COUNT; i++) {
        const struct call *call =
            i < commtap_call_count ? &commtap_calls[i] : &commtap_patterns[i - commtap_call_count];
        if (call->id == launch->call)
            verbose_line_ns(call, launch->ranks, launch_bytes_of_one(launch), ns / launch_count(launch));
    }
}

/* Stamps are the launch's own, events may be those of several. */
static bool has_share(const struct gpu_launch *launch) {
    return !gpu.kernel && launch->share_all > launch->share_own;
}

/* What a launch has of the interval between its events. */
static void take_share(const struct gpu_launch *launch, uint64_t *t0, uint64_t *t1) {
    uint64_t length = *t1 - *t0, before = launch->share_before, own = launch->share_own, all = launch->share_all;
    *t1 = *t0 + (uint64_t)((unsigned __int128)length * (before + own) / all);
    *t0 += (uint64_t)((unsigned __int128)length * before / all);
}

void finish_operation(struct gpu_device *device, const struct gpu_launch *launch, uint32_t epoch_bits, uint64_t t0,
                      uint64_t t1) {
    uint64_t ended = t1;
    bool share = has_share(launch);
    if (launch->quiet)
        return;
    if (share)
        take_share(launch, &t0, &t1);
    device_record_launch(&(struct record){.t0 = t0,
                                          .t1 = t1,
                                          .bytes = launch->bytes,
                                          .seq = launch->seq,
                                          .op = launch->op,
                                          .comm = launch->comm,
                                          .peer = launch->peer,
                                          .tag = (int32_t)gpu_device_index(device),
                                          .stack = launch->stack,
                                          .call = launch->call,
                                          .flags = (uint16_t)(launch->flags | (share ? FLAG_SHARE : 0)),
                                          .kind = gpu.kernel ? RECORD_KERNEL : RECORD_GPU,
                                          .dtype = launch->dtype,
                                          .redop = launch->redop,
                                          .result = (uint8_t)(launch->parts ? launch->parts - 1 : 0)},
                         launch);
    device_count(launch, epoch_bits, t1 - t0, share);
    count_busy(device, t0, t1);
    waits_ended(launch->op, ended);
    if (unlikely(recorder.verbose))
        print(launch, t1 - t0);
}

/* The row may by now be another communicator's. */
static void raise_progress(const struct gpu_launch *launch, uint64_t reached, size_t counter) {
    struct progress *progress = launch->progress;
    if (!progress || !reached || progress->comm != launch->comm)
        return;
    uint64_t *value = (uint64_t *)((char *)progress + counter);
    if (*value < reached)
        __atomic_store_n(value, reached, __ATOMIC_RELEASE);
}

/* Likewise. Launches that were captured run in graphs, as often as these are launched. True where it is the newest. */
static bool raise_op(const struct gpu_launch *launch, size_t place) {
    struct progress *progress = launch->progress;
    if (!progress || progress->comm != launch->comm || launch->flags & FLAG_CAPTURED)
        return false;
    uint32_t *value = (uint32_t *)((char *)progress + place);
    if (*value != 0 && (int32_t)(launch->op - *value) <= 0)
        return false;
    __atomic_store_n(value, launch->op, __ATOMIC_RELEASE);
    return true;
}

void finish_progress(const struct gpu_launch *launch, uint64_t reached, bool done) {
    raise_progress(launch, reached, offsetof(struct progress, started));
    if (raise_op(launch, offsetof(struct progress, begun_op)))
        launch->progress->begun_ns = os_monotonic_ns();
    if (!done)
        return;
    raise_progress(launch, reached, offsetof(struct progress, completed));
    raise_op(launch, offsetof(struct progress, ended_op));
}

void finish_unfollowed(const struct gpu_launch *launch) {
    raise_op(launch, offsetof(struct progress, unfollowed_op));
}

bool finish_is_aborted(uint32_t comm) {
    return comm < COMMS_ABORTABLE && __atomic_load_n(&aborted[comm / 64], __ATOMIC_RELAXED) >> comm % 64 & 1;
}

void finish_abort(uint32_t comm) {
    if (comm < COMMS_ABORTABLE)
        __atomic_fetch_or(&aborted[comm / 64], 1ull << comm % 64, __ATOMIC_RELAXED);
}
