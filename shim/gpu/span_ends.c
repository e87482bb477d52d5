/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/span_ends.h"

#include "shim/base/os.h"
#include "shim/gpu/device_lane.h"
#include "shim/gpu/finish.h"
#include "shim/gpu/graph_replays.h"
#include "shim/gpu/waits.h"

#define MEMORY_INTERVAL_NS 2000000000u

void span_started(struct gpu_span *span) {
    if (span->started || span->kind != SPAN_LAUNCH || gpu_driver.event_query(span->start) != GPU_SUCCESS)
        return;
    span->started = 1;
    finish_progress(&span->launch, span->reached, false);
}

static int launch_ended(struct gpu_span *span) {
    uint64_t seen = os_monotonic_ns(), t0, length;
    int status = device_clock_length(span->start, span->stop, &length);
    if (status == GPU_SUCCESS)
        status = device_clock_read(&span->device->clock, span->start, &t0, NULL);
    if (status != GPU_SUCCESS)
        return status;
    finish_progress(&span->launch, span->reached, true);
    if (!gpu_span_claim(span))
        return GPU_SUCCESS;
    if (finish_is_aborted(span->launch.comm)) {
        count_loss(&recorder.header->losses.gpu_unfinished);
        return GPU_SUCCESS;
    }
    t0 = device_clock_narrow(t0, length, span->enqueued_ns, seen);
    finish_operation(span->device, &span->launch, span->epoch_bits, t0, t0 + length);
    return GPU_SUCCESS;
}

int span_ended(struct gpu_span *span) {
    if (span->kind == SPAN_LAUNCH)
        return launch_ended(span);
    return span->kind == SPAN_WAIT ? waits_reached(span) : graphs_replayed(span);
}

void span_failed(struct gpu_span *span, int status) {
    bool mine = gpu_span_claim(span);
    if (span->kind == SPAN_LAUNCH)
        finish_unfollowed(&span->launch);
    if (span->kind == SPAN_LAUNCH && mine)
        count_loss(&recorder.header->losses.gpu_failed);
    else if (span->kind == SPAN_REPLAY)
        graphs_replay_lost(span);
    if (span->incarnation == span->device->incarnation)
        gpu_device_error(span->device, status);
}

static void count_unfinished(const struct gpu_span *span) {
    if (span->kind == SPAN_LAUNCH)
        count_loss(&recorder.header->losses.gpu_unfinished);
    else if (span->kind == SPAN_REPLAY)
        graphs_replay_lost(span);
}

void span_unfinished(struct gpu_span *span) {
    if (gpu_span_claim(span))
        count_unfinished(span);
}

void spans_unfinished(void) {
    gpu_spans_claim_all(count_unfinished);
}

/* ---- now and then ---------------------------------------------------------------------------- */

/* With the device's context current. */
static bool introduce(struct gpu_device *device) {
    struct device_state *row = &gpu.rows[gpu_device_index(device)];
    uint64_t version = row->version | 1;
    size_t free_bytes, total = 0;
    int status = gpu.kernel ? GPU_SUCCESS : device_clock_begin(&device->clock);
    if (status != GPU_SUCCESS) {
        gpu_device_drop(device);
        return false;
    }
    __atomic_store_n(&row->version, version, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    row->ordinal = (uint32_t)device->ordinal;
    row->backend = gpu_driver.backend;
    if (gpu_driver.device_name)
        gpu_driver.device_name(row->name, sizeof row->name, device->ordinal);
    if (gpu_driver.device_bus)
        gpu_driver.device_bus(row->bus, sizeof row->bus, device->ordinal);
    if (gpu_driver.memory_info && gpu_driver.memory_info(&free_bytes, &total) == GPU_SUCCESS)
        row->capacity = total;
    if (!row->memory_samples)
        row->memory_used = BYTES_UNKNOWN;
    __atomic_store_n(&row->version, version + 1, __ATOMIC_RELEASE);
    device->busy_count = 0;
    device->introduced = device->incarnation;
    return true;
}

static void keep_event_anchor(const struct gpu_device *device) {
    uint32_t number = device->clock.taken - 1, newest = number % DEVICE_CLOCK_ANCHORS;
    device_keep_anchor(gpu_device_index(device), number,
                       &(struct device_anchor){.source = SOURCE_GPU_EVENT,
                                               .monotonic_ns = device->clock.anchors[newest].monotonic_ns,
                                               .width_ns = device->clock.anchors[newest].width_ns});
}

static void sample_memory(struct gpu_device *device, uint64_t now) {
    struct device_state *row = &gpu.rows[gpu_device_index(device)];
    size_t free_bytes, total;
    device->memory_due_ns = now + MEMORY_INTERVAL_NS;
    if (!gpu_driver.memory_info || gpu_driver.memory_info(&free_bytes, &total) != GPU_SUCCESS || free_bytes > total)
        return;
    row->memory_used = total - free_bytes;
    if (row->memory_used > row->memory_peak)
        row->memory_peak = row->memory_used;
    row->memory_samples++;
    device_record(&(struct record){.t0 = now,
                                   .t1 = now,
                                   .bytes = row->memory_used,
                                   .seq = SEQ_NONE,
                                   .comm = COMM_NONE,
                                   .peer = PEER_NONE,
                                   .tag = (int32_t)gpu_device_index(device),
                                   .kind = RECORD_MEMORY});
}

void keep_device(struct gpu_device *device, uint64_t now) {
    bool fresh = device->introduced != device->incarnation;
    device_lane_tick(now);
    graphs_sample(device, now);
    bool anchor_due = !gpu.kernel && (fresh || now >= device->clock.due_ns);
    if (!fresh && !anchor_due && now < device->memory_due_ns)
        return;
    bool entered = gpu_context_enter(device);
    if (gpu_device_is_live(device) && (!fresh || introduce(device)) && anchor_due &&
        device_clock_take(&device->clock, now))
        keep_event_anchor(device);
    if (gpu_device_is_live(device) && now >= device->memory_due_ns)
        sample_memory(device, now);
    gpu_context_leave(entered);
}
