/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/device_lane.h"

#include <string.h>

#include "shim/base/os.h"
#include "shim/record/aggregates.h"
#include "shim/record/lanes.h"
#include "shim/record/ring.h"

#define ANCHOR_ROWS 4096u

static struct {
    struct lane *records;
    struct anchors clock; /* of the lane: "ticks" are CLOCK_MONOTONIC ns */
    struct device_anchor *anchors;
    uint64_t graph_launched_ns;              /* ... which was launched then */
    uint32_t replay;                         /* that the last record belongs to, 0 = none, or not known */
    uint32_t anchors_touched;                /* of these, from the front, that have room */
    uint32_t told_anchors[GPU_DEVICES_MAX];  /* number of device_tell_anchor's next one */
    uint32_t anchor_stride[GPU_DEVICES_MAX]; /* every how many-th anchor of a device is kept in the dump */
} lane;

bool device_lane_begin(void) {
    memset(lane.told_anchors, 0, sizeof lane.told_anchors);
    lane.anchors_touched = 0;
    lane.replay = 0;
    lane.graph_launched_ns = 0;
    lane.clock =
        (struct anchors){.tick_hz = 1000000000u, .last_ticks = os_monotonic_ns(), .last_realtime = os_realtime_ns()};
    for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++)
        lane.anchor_stride[i] = 1;
    gpu.rows = dumpfile_full_section(&recorder.file, SECTION_DEVICES, 0, GPU_DEVICES_MAX, sizeof *gpu.rows);
    lane.anchors = dumpfile_section(&recorder.file, SECTION_DEVICE_ANCHORS, 0, ANCHOR_ROWS, sizeof *lane.anchors);
    lane.records = lanes_open_device(&lane.clock);
    return gpu.rows && lane.anchors && lane.records;
}

void device_lane_tick(uint64_t now) {
    if (now - lane.clock.last_ticks > 1000000000u) {
        lane.clock.last_ticks = now;
        lane.clock.last_realtime = os_realtime_ns();
    }
}

void device_record(const struct record *content) {
    lane.replay = 0;
    lane.graph_launched_ns = 0;
    ring_add(lane.records, content);
}

static void record_replay(const struct record *first, const struct gpu_launch *launch) {
    uint64_t since = launch->graph_launched_ns;
    ring_add(lane.records, &(struct record){.t0 = since && since < first->t0 ? since : first->t0,
                                            .t1 = first->t0,
                                            .seq = launch->replay ? launch->replay : SEQ_NONE,
                                            .comm = COMM_NONE,
                                            .peer = PEER_NONE,
                                            .tag = first->tag,
                                            .kind = RECORD_REPLAY});
}

/* Launches of one replay follow each other, so that it is told once. */
void device_record_launch(const struct record *content, const struct gpu_launch *launch) {
    if (launch->replay != lane.replay || launch->graph_launched_ns != lane.graph_launched_ns)
        record_replay(content, launch);
    lane.replay = launch->replay;
    lane.graph_launched_ns = launch->graph_launched_ns;
    ring_add(lane.records, content);
}

void device_count(const struct gpu_launch *launch, uint32_t epoch_bits, uint64_t ns, bool share) {
    uint8_t peer_class = launch->peer == PEER_NONE ? PEER_CLASS_NONE : PEER_CLASS_RANK;
    uint32_t comm_epoch = (launch->comm < ROW_COMM_NONE ? launch->comm : ROW_COMM_NONE) | epoch_bits;
    uint8_t source = gpu.kernel ? SOURCE_IN_KERNEL : SOURCE_GPU_EVENT;
    uint64_t key = operation_key(launch->call, source, peer_class, comm_epoch);
    uint64_t bytes = launch_bytes_of_one(launch);
    struct operation_row *row = operations_find(lane.records, key, bytes);
    if (!row) {
        operation_add_rare(lane.records, NULL,
                           &(struct operation_sample){.call = launch->call, .bytes = bytes, .time = ns});
        return;
    }
    uint64_t before = row_begin(&row->version);
    operation_count_alike(row, launch_count(launch), bytes, ns);
    row->shares += share ? launch_count(launch) : 0;
    row->shares_total += share ? ns : 0;
    row_end(&row->version, before);
}

static struct device_anchor *free_anchor_row(void) {
    for (uint32_t i = 0; i < lane.anchors_touched; i++)
        if (!lane.anchors[i].version)
            return &lane.anchors[i];
    struct device_anchor *fresh = &lane.anchors[lane.anchors_touched];
    if (lane.anchors_touched < ANCHOR_ROWS && dumpfile_make_room(&recorder.file, fresh, sizeof *fresh)) {
        lane.anchors_touched++;
        return fresh;
    }
    for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++)
        lane.anchor_stride[i] *= 2;
    struct device_anchor *freed = NULL;
    for (uint32_t i = 0; i < lane.anchors_touched; i++)
        if (lane.anchors[i].reserved[0] % lane.anchor_stride[lane.anchors[i].device]) {
            freed = &lane.anchors[i];
            __atomic_store_n(&freed->version, 0, __ATOMIC_RELEASE);
        }
    return freed;
}

void device_keep_anchor(uint32_t device, uint32_t number, const struct device_anchor *content) {
    if (number % lane.anchor_stride[device])
        return;
    struct device_anchor *row = free_anchor_row();
    if (!row || number % lane.anchor_stride[device])
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

void device_tell_anchor(const struct gpu_device *device, enum source source, uint64_t monotonic_ns, uint64_t width_ns,
                        uint64_t raw) {
    uint32_t index = gpu_device_index(device);
    device_keep_anchor(index, lane.told_anchors[index]++,
                       &(struct device_anchor){
                           .source = source, .monotonic_ns = monotonic_ns, .width_ns = width_ns, .device_ns = raw});
}
