/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/lanes.h"

#include "shim/record/aggregates.h"
#include "shim/record/ring.h"

/* Compact where one thread of the job writes. */
static bool open_ring(struct lane *lane, uint32_t index) {
    uint32_t records = recorder.header->ring_records, pages = ring_pages_for(records);
    if (recorder.header->keep == KEEP_SUMMARY) {
        ring_begin_nothing(lane);
        return true;
    }
    if (index < LANES_EXCLUSIVE) {
        struct ring_page *ring = dumpfile_section(&recorder.file, SECTION_RING_PAGES, index, pages, sizeof *ring);
        return ring && ring_begin_pages(lane, ring, pages);
    }
    struct record *ring = dumpfile_section(&recorder.file, SECTION_RING, index, records, sizeof *ring);
    if (ring)
        ring_begin_plain(lane, ring, records);
    return ring != NULL;
}

static bool lane_open(struct lane *lane, uint32_t index) {
    lane->index = index;
    lane->shared = index == LANES_EXCLUSIVE;
    lane->clock = &recorder.anchors;
    lane->state = &recorder.lane_states[index];
    lane->state->shared = lane->shared;
    lane->trace_window = (struct trace_window_writer){.lane = index, .state = lane->state};
    if (!open_ring(lane, index) || !aggregates_begin(lane))
        return false;
    __atomic_store_n(&lane->ready, 1, __ATOMIC_RELEASE);
    return true;
}

/* An exclusive lane that nobody writes to, the first such; a lane whose sections could not be made stays taken. */
static struct lane *take_exclusive_lane(uint32_t tid) {
    for (uint32_t i = 0; i < LANES_EXCLUSIVE; i++) {
        uint32_t nobody = 0;
        if (!__atomic_compare_exchange_n(&recorder.lane_states[i].owner_tid, &nobody, tid, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        if (recorder.lanes[i].ready || lane_open(&recorder.lanes[i], i))
            return &recorder.lanes[i];
    }
    return NULL;
}

void lanes_expect_threads(void) {
    uint32_t nobody = 0;
    if (__atomic_compare_exchange_n(&recorder.lane_states[LANES_EXCLUSIVE].owner_tid, &nobody, (uint32_t)os_thread_id(),
                                    false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        lane_open(&recorder.lanes[LANES_EXCLUSIVE], LANES_EXCLUSIVE);
}

struct lane *lanes_open_device(const struct anchors *clock) {
    struct lane *lane = &recorder.lanes[LANE_DEVICE];
    recorder.lane_states[LANE_DEVICE].device = 1;
    recorder.lane_states[LANE_DEVICE].owner_tid = (uint32_t)os_thread_id();
    if (!lane_open(lane, LANE_DEVICE))
        return NULL;
    lane->clock = clock;
    return lane;
}

static struct lane *shared_lane(void) {
    struct lane *lane = &recorder.lanes[LANES_EXCLUSIVE];
    lanes_expect_threads();
    return __atomic_load_n(&lane->ready, __ATOMIC_ACQUIRE) ? lane : NULL;
}

struct lane *lanes_take(uint32_t tid) {
    struct lane *lane = take_exclusive_lane(tid);
    if (!lane)
        lane = shared_lane();
    if (lane)
        __atomic_fetch_add(&lane->state->threads, 1, __ATOMIC_RELAXED);
    return lane;
}

void lanes_give_back(struct lane *lane) {
    if (!lane->shared)
        __atomic_store_n(&lane->state->owner_tid, 0, __ATOMIC_RELEASE);
}
