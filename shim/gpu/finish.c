/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of finish.h.
 */
#include "shim/gpu/finish.h"

#include <string.h>

#include "shim/base/os.h"
#include "shim/gpu/graphs.h"
#include "shim/gpu/waits.h"
#include "shim/record/aggregates.h"
#include "shim/record/lanes.h"
#include "shim/record/verbose.h"

#define ANCHOR_ROWS        4096u
#define MEMORY_INTERVAL_NS 2000000000u
#define COMMS_ABORTABLE    16384u
#define BUSY_STRETCHES     (sizeof((struct gpu_device *)0)->busy / sizeof((struct gpu_device *)0)->busy[0])

static struct {
    struct lane *lane;
    struct anchors clock; /* of the lane: "ticks" are CLOCK_MONOTONIC ns */
    struct device_anchor *anchors;
    uint32_t told_anchors[GPU_DEVICES_MAX];  /* number of finish_anchor's next one */
    uint32_t anchor_stride[GPU_DEVICES_MAX]; /* every how many-th anchor of a device is kept in the dump */
    uint64_t aborted[COMMS_ABORTABLE / 64];  /* bit: local index of a communicator */
} finish;

bool finish_begin(void) {
    static bool
        before; /* a forked child has its parent's; otherwise there is nothing to forget, and no page to touch */
    if (before) {
        memset(&finish, 0, sizeof finish);
        waits_begin();
        graphs_begin();
    }
    before = true;
    finish.clock =
        (struct anchors){.tick_hz = 1000000000u, .last_ticks = os_monotonic_ns(), .last_realtime = os_realtime_ns()};
    for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++)
        finish.anchor_stride[i] = 1;
    gpu.rows = dumpfile_section(&recorder.file, SECTION_DEVICES, 0, GPU_DEVICES_MAX, sizeof *gpu.rows);
    finish.anchors = dumpfile_section(&recorder.file, SECTION_DEVICE_ANCHORS, 0, ANCHOR_ROWS, sizeof *finish.anchors);
    finish.lane = lanes_open_device(&finish.clock);
    return gpu.rows && finish.anchors && finish.lane;
}

/* ---- records and rows ------------------------------------------------------------------------ */

void finish_record(const struct record *content) {
    uint64_t ticket;
    struct record *record = ring_begin(finish.lane, &ticket);
    memcpy((char *)record + sizeof record->commit, (const char *)content + sizeof record->commit,
           sizeof *record - sizeof record->commit);
    ring_end(finish.lane, record, ticket);
}

static void count_in_row(const struct gpu_launch *launch, uint32_t epoch_bits, uint64_t ns) {
    uint8_t peer_class = launch->peer == PEER_NONE ? PEER_CLASS_NONE : PEER_CLASS_RANK;
    uint32_t comm_epoch = (launch->comm < ROW_COMM_NONE ? launch->comm : ROW_COMM_NONE) | epoch_bits;
    uint8_t source = gpu.kernel ? SOURCE_IN_KERNEL : SOURCE_GPU_EVENT;
    uint64_t key = operation_key(launch->call, source, peer_class, comm_epoch);
    struct operation_row *row = operations_find(finish.lane, key, launch->bytes);
    if (!row) {
        operation_add_rare(finish.lane, NULL,
                           &(struct operation_sample){.call = launch->call, .bytes = launch->bytes, .time = ns});
        return;
    }
    uint64_t before = row_begin(&row->version);
    operation_count(row, launch->bytes, ns);
    row_end(&row->version, before);
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
    for (unsigned i = 0; i < commtap_call_count; i++)
        if (commtap_calls[i].id == launch->call)
            verbose_line_ns(&commtap_calls[i], launch->ranks, launch->bytes, ns);
}

void finish_operation(struct gpu_device *device, const struct gpu_launch *launch, uint32_t epoch_bits, uint64_t t0,
                      uint64_t t1, uint16_t flags) {
    finish_record(&(struct record){.t0 = t0,
                                   .t1 = t1,
                                   .bytes = launch->bytes,
                                   .seq = launch->seq,
                                   .op = launch->op,
                                   .comm = launch->comm,
                                   .peer = launch->peer,
                                   .tag = (int32_t)gpu_device_index(device),
                                   .stack = launch->stack,
                                   .call = launch->call,
                                   .flags = launch->flags | flags,
                                   .kind = gpu.kernel ? RECORD_KERNEL : RECORD_GPU,
                                   .dtype = launch->dtype,
                                   .redop = launch->redop});
    count_in_row(launch, epoch_bits, t1 - t0);
    count_busy(device, t0, t1);
    waits_ended(launch->op, t1);
    if (unlikely(recorder.verbose))
        print(launch, t1 - t0);
}

void finish_wait(struct gpu_device *device, const struct gpu_launch *launch, uint64_t reached, uint64_t ended) {
    struct device_state *row = &gpu.rows[gpu_device_index(device)];
    uint64_t until = ended > reached ? ended : reached;
    row->exposed_waits++;
    row->exposed_ns += until - reached;
    finish_record(&(struct record){.t0 = reached,
                                   .t1 = until,
                                   .seq = launch->seq,
                                   .op = launch->op,
                                   .comm = launch->comm,
                                   .peer = launch->peer,
                                   .tag = (int32_t)gpu_device_index(device),
                                   .kind = RECORD_EXPOSED});
}

/* ---- a launch -------------------------------------------------------------------------------- */

/* The row may by now be another communicator's. */
static void raise_progress(const struct gpu_launch *launch, uint64_t reached, size_t counter) {
    struct progress *progress = launch->progress;
    if (!progress || !reached || progress->comm != launch->comm)
        return;
    uint64_t *value = (uint64_t *)((char *)progress + counter);
    if (*value < reached)
        __atomic_store_n(value, reached, __ATOMIC_RELEASE);
}

void finish_progress(const struct gpu_launch *launch, uint64_t reached, bool done) {
    raise_progress(launch, reached, offsetof(struct progress, started));
    if (done)
        raise_progress(launch, reached, offsetof(struct progress, completed));
}

void finish_started(struct gpu_span *span) {
    if (span->started || span->kind != SPAN_LAUNCH || gpu_driver.event_query(span->start) != GPU_SUCCESS)
        return;
    span->started = 1;
    finish_progress(&span->launch, span->reached, false);
}

bool finish_is_aborted(uint32_t comm) {
    return comm < COMMS_ABORTABLE && __atomic_load_n(&finish.aborted[comm / 64], __ATOMIC_RELAXED) >> comm % 64 & 1;
}

void finish_abort(uint32_t comm) {
    if (comm < COMMS_ABORTABLE)
        __atomic_fetch_or(&finish.aborted[comm / 64], 1ull << comm % 64, __ATOMIC_RELAXED);
}

/* An anchor is off by up to its width; what the host knows for certain narrows that: nothing starts before it was
 * enqueued or ends after it was seen complete. */
static uint64_t place(uint64_t t0, uint64_t length, uint64_t enqueued, uint64_t seen) {
    if (t0 + length > seen && seen > length)
        t0 = seen - length;
    return t0 < enqueued ? enqueued : t0;
}

static int finish_launch(struct gpu_span *span) {
    uint64_t seen = os_monotonic_ns(), t0, length;
    int status = device_clock_length(span->start, span->stop, &length);
    if (status == GPU_SUCCESS)
        status = device_clock_read(&span->device->clock, span->start, &t0);
    if (status != GPU_SUCCESS)
        return status;
    finish_progress(&span->launch, span->reached, true);
    if (finish_is_aborted(span->launch.comm)) {
        finish_unfinished(span);
        return GPU_SUCCESS;
    }
    t0 = place(t0, length, span->enqueued_ns, seen);
    finish_operation(span->device, &span->launch, span->epoch_bits, t0, t0 + length, 0);
    return GPU_SUCCESS;
}

int finish_span(struct gpu_span *span) {
    if (span->kind == SPAN_LAUNCH)
        return finish_launch(span);
    return span->kind == SPAN_WAIT ? waits_reached(span) : graphs_replayed(span);
}

void finish_failed(struct gpu_span *span, int status) {
    if (span->kind == SPAN_LAUNCH)
        count_loss(&recorder.header->losses.gpu_failed);
    else if (span->kind == SPAN_REPLAY)
        graphs_replay_lost(span);
    if (span->incarnation == span->device->incarnation)
        gpu_device_error(span->device, status);
}

void finish_unfinished(const struct gpu_span *span) {
    if (span->kind == SPAN_LAUNCH)
        count_loss(&recorder.header->losses.gpu_unfinished);
    else if (span->kind == SPAN_REPLAY)
        graphs_replay_lost(span);
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

/* A full table loses every second anchor of each device, and keeps every second from then on. */
static struct device_anchor *free_anchor_row(void) {
    for (uint32_t i = 0; i < ANCHOR_ROWS; i++)
        if (!finish.anchors[i].version)
            return &finish.anchors[i];
    for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++)
        finish.anchor_stride[i] *= 2;
    struct device_anchor *freed = NULL;
    for (uint32_t i = 0; i < ANCHOR_ROWS; i++)
        if (finish.anchors[i].reserved[0] % finish.anchor_stride[finish.anchors[i].device]) {
            freed = &finish.anchors[i];
            __atomic_store_n(&freed->version, 0, __ATOMIC_RELEASE);
        }
    return freed;
}

static void keep_anchor(uint32_t device, uint32_t number, const struct device_anchor *content) {
    if (number % finish.anchor_stride[device])
        return;
    struct device_anchor *row = free_anchor_row();
    if (!row || number % finish.anchor_stride[device])
        return;
    __atomic_store_n(&row->version, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    row->device = device;
    row->source = content->source;
    row->monotonic_ns = content->monotonic_ns;
    row->width_ns = content->width_ns;
    row->device_ns = content->device_ns;
    row->reserved[0] = number;
    __atomic_store_n(&row->version, 2, __ATOMIC_RELEASE);
    gpu.rows[device].last_anchor_ns = row->monotonic_ns;
}

static void keep_event_anchor(const struct gpu_device *device) {
    uint32_t number = device->clock.taken - 1, newest = number % DEVICE_CLOCK_ANCHORS;
    keep_anchor(gpu_device_index(device), number,
                &(struct device_anchor){.source = SOURCE_GPU_EVENT,
                                        .monotonic_ns = device->clock.anchors[newest].monotonic_ns,
                                        .width_ns = device->clock.anchors[newest].width_ns});
}

void finish_anchor(const struct gpu_device *device, enum source source, uint64_t monotonic_ns, uint64_t width_ns,
                   uint64_t raw) {
    uint32_t index = gpu_device_index(device);
    keep_anchor(index, finish.told_anchors[index]++,
                &(struct device_anchor){
                    .source = source, .monotonic_ns = monotonic_ns, .width_ns = width_ns, .device_ns = raw});
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
    finish_record(&(struct record){.t0 = now,
                                   .t1 = now,
                                   .bytes = row->memory_used,
                                   .seq = SEQ_NONE,
                                   .comm = COMM_NONE,
                                   .peer = PEER_NONE,
                                   .tag = (int32_t)gpu_device_index(device),
                                   .kind = RECORD_MEMORY});
}

void finish_housekeeping(struct gpu_device *device, uint64_t now) {
    bool fresh = device->introduced != device->incarnation;
    if (now - finish.clock.last_ticks > 1000000000u) {
        finish.clock.last_ticks = now;
        finish.clock.last_realtime = os_realtime_ns();
    }
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
