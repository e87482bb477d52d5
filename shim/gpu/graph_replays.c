/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/graph_replays.h"

#include <string.h>

#include "shim/base/os.h"
#include "shim/gpu/finish.h"

#define GRAPHS_MAX         1024u
#define SAMPLE_INTERVAL_NS 20000000u
#define SAMPLE_QUIET_NS    5000000000u /* after its last launch was captured a graph is taken to be whole */
#define SAME_NS            1000000u    /* anchors tell one moment differently, but not by this much */
#define RECENT_NS          1000000000u /* what happened longer ago was looked at before */
#define STALE_NS           1000000u    /* no anchor is this far off: the node was not run by this replay */

static struct captured_graph graphs[GRAPHS_MAX];
static uint32_t graph_limit; /* places that have ever been used */

void graph_replays_begin(void) {
    memset(graphs, 0, sizeof graphs);
    graph_limit = 0;
}

struct captured_graph *captured_graph_take(const struct gpu_device *device) {
    for (uint32_t i = 0; i < GRAPHS_MAX; i++) {
        struct captured_graph *captured = &graphs[i];
        uint32_t no = 0;
        if (captured->device && captured->device != device)
            continue;
        if (!__atomic_compare_exchange_n(&captured->taken, &no, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        uint32_t limit = __atomic_load_n(&graph_limit, __ATOMIC_RELAXED);
        while (limit <= i &&
               !__atomic_compare_exchange_n(&graph_limit, &limit, i + 1, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            ;
        return captured;
    }
    return NULL;
}

void count_untimed_replays(uint64_t launches) {
    __atomic_fetch_add(&recorder.header->losses.replays_untimed, launches, __ATOMIC_RELAXED);
}

uint32_t captured_launches(const struct captured_graph *captured) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < captured->launch_count; i++)
        count += !captured_launch_at(captured, i)->dropped;
    return count;
}

static bool is_unread(const struct gpu_span *span, uint64_t replay) {
    return replay_number(replay) == span->replay && replay & REPLAY_UNREAD;
}

/* Claims one launch of the replay: what was read before is its own then. False: the next replay may have begun. */
static bool claim_launch(const struct gpu_span *span) {
    uint64_t replay = __atomic_load_n(&span->graph->replay, __ATOMIC_ACQUIRE);
    while (is_unread(span, replay))
        if (__atomic_compare_exchange_n(&span->graph->replay, &replay, replay + 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return true;
    return false;
}

static void read_launch(const struct gpu_span *span, const struct captured_launch *launch) {
    uint64_t t0, length;
    if (!launch->timed || launch->dropped || device_clock_length(launch->start, launch->stop, &length) != GPU_SUCCESS ||
        device_clock_read(&span->graph->device->clock, launch->start, &t0) != GPU_SUCCESS ||
        t0 + STALE_NS < span->enqueued_ns || !claim_launch(span))
        return;
    finish_operation(span->graph->device, &launch->launch, launch->epoch_bits, t0, t0 + length, FLAG_CAPTURED);
}

/* Nothing more will be read of it: the rest is lost, unless the next replay's launcher has counted it already. */
static void close_replay(const struct gpu_span *span) {
    uint64_t replay = __atomic_load_n(&span->graph->replay, __ATOMIC_ACQUIRE);
    while (is_unread(span, replay))
        if (__atomic_compare_exchange_n(&span->graph->replay, &replay, replay & ~REPLAY_UNREAD, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            count_untimed_replays(captured_launches(span->graph) - replay_read(replay));
            return;
        }
}

int graphs_replayed(const struct gpu_span *span) {
    struct captured_graph *captured = span->graph;
    if (!captured->device->clock.taken)
        return GPU_NOT_READY;
    for (uint32_t i = 0;
         i < captured->launch_count && is_unread(span, __atomic_load_n(&captured->replay, __ATOMIC_ACQUIRE)); i++)
        read_launch(span, captured_launch_at(captured, i));
    close_replay(span);
    return GPU_SUCCESS;
}

void graphs_replay_lost(const struct gpu_span *span) {
    close_replay(span);
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* The nodes may be written while they are read: the start is read on both sides of the stop. */
static void sample_launch(struct gpu_device *device, struct captured_launch *launch) {
    uint64_t t0, length, again;
    if (!launch->timed || device_clock_read(&device->clock, launch->start, &t0) != GPU_SUCCESS ||
        device_clock_length(launch->start, launch->stop, &length) != GPU_SUCCESS || !length ||
        device_clock_read(&device->clock, launch->start, &again) != GPU_SUCCESS || again != t0 ||
        t0 < launch->sampled_t0 + SAME_NS || t0 + RECENT_NS < os_monotonic_ns())
        return;
    launch->sampled_t0 = t0;
    finish_operation(device, &launch->launch, launch->epoch_bits, t0, t0 + length, FLAG_CAPTURED);
}

void graphs_sample(struct gpu_device *device, uint64_t now) {
    static uint64_t due_ns[GPU_DEVICES_MAX];
    uint64_t *due = &due_ns[gpu_device_index(device)];
    if (now < *due || !device->clock.taken)
        return;
    *due = now + SAMPLE_INTERVAL_NS;
    uint32_t limit = __atomic_load_n(&graph_limit, __ATOMIC_ACQUIRE);
    bool entered = limit && gpu_context_enter(device);
    for (uint32_t i = 0; i < limit && gpu_device_is_live(device); i++) {
        struct captured_graph *captured = &graphs[i];
        if (captured->device != device || !__atomic_load_n(&captured->taken, __ATOMIC_ACQUIRE) ||
            __atomic_load_n(&captured->seen, __ATOMIC_RELAXED) || now < captured->captured_ns + SAMPLE_QUIET_NS)
            continue;
        for (uint32_t k = 0; k < __atomic_load_n(&captured->launch_count, __ATOMIC_ACQUIRE); k++)
            sample_launch(device, captured_launch_at(captured, k));
    }
    gpu_context_leave(entered);
}
