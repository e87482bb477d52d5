/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/graph_replays.h"

#include <string.h>

#include "shim/base/free_list.h"
#include "shim/base/os.h"
#include "shim/gpu/finish.h"

#define GRAPHS_PER_CHUNK   256u
#define SAMPLE_INTERVAL_NS 20000000u
#define SAMPLE_QUIET_NS    5000000000u /* after its last launch was captured a graph is taken to be whole */
#define SAME_NS            1000000u    /* anchors tell one moment differently, but not by this much */
#define RECENT_NS          1000000000u /* what happened longer ago was looked at before */
#define STALE_NS           1000000u    /* what began so long before its replay, and the anchor's width, is of another */

static struct captured_graph *chunks[GRAPHS_MAX / GRAPHS_PER_CHUNK]; /* made when first needed, never given back */
static struct free_list fresh;                                       /* places that no graph has had so far */
static struct free_list given_back[GPU_DEVICES_MAX];                 /* places with events, by their device */
static uint32_t next_free[GRAPHS_MAX];                               /* of all these lists */

void graph_replays_begin(void) {
    for (uint32_t i = 0; i < GRAPHS_MAX / GRAPHS_PER_CHUNK && chunks[i]; i++)
        memset(chunks[i], 0, GRAPHS_PER_CHUNK * sizeof *chunks[i]);
    fresh = (struct free_list){.capacity = GRAPHS_MAX, .next = next_free};
    for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++)
        given_back[i] = (struct free_list){.next = next_free};
}

struct captured_graph *captured_graph_at(uint32_t number) {
    struct captured_graph *chunk = __atomic_load_n(&chunks[number / GRAPHS_PER_CHUNK], __ATOMIC_ACQUIRE);
    return chunk ? &chunk[number % GRAPHS_PER_CHUNK] : NULL;
}

/* The place with that number, made where there was none so far. */
static struct captured_graph *make_place(uint32_t number) {
    struct captured_graph **chunk = &chunks[number / GRAPHS_PER_CHUNK], *none = NULL;
    if (!__atomic_load_n(chunk, __ATOMIC_ACQUIRE)) {
        struct captured_graph *made = os_memory(GRAPHS_PER_CHUNK * sizeof *made);
        if (made) /* where another thread was faster, this one's stays unused, and untouched */
            __atomic_compare_exchange_n(chunk, &none, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    return captured_graph_at(number);
}

struct captured_graph *captured_graph_take(struct gpu_device *device) {
    uint32_t number = free_list_take(&given_back[gpu_device_index(device)]);
    if (!number)
        number = free_list_take(&fresh);
    struct captured_graph *captured = number ? make_place(number - 1) : NULL;
    if (!captured) {
        if (number) /* no memory */
            free_list_put(&fresh, number);
        return NULL;
    }
    captured->number = number - 1;
    captured->device = device;
    __atomic_store_n(&captured->taken, 1, __ATOMIC_RELEASE);
    return captured;
}

void captured_graph_give_back(struct captured_graph *captured) {
    __atomic_store_n(&captured->taken, 0, __ATOMIC_RELEASE);
    free_list_put(&given_back[gpu_device_index(captured->device)], captured->number + 1);
}

void count_untimed_replays(uint64_t launches) {
    __atomic_fetch_add(&recorder.header->losses.replays_untimed, launches, __ATOMIC_RELAXED);
}

uint32_t captured_launches(const struct captured_graph *captured, uint32_t count) {
    uint32_t held = 0;
    for (uint32_t i = 0; i < count; i++)
        held += !captured_launch_at(captured, i)->dropped;
    return held;
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

/* `replay`: NULL where others were not seen, nor counted. */
static void finish_replayed(struct gpu_device *device, const struct captured_launch *captured,
                            const struct gpu_span *replay, uint64_t t0, uint64_t t1) {
    struct gpu_launch launch = captured->launch;
    launch.flags |= FLAG_CAPTURED;
    launch.replay = replay ? replay->launch.replay : 0;
    launch.graph_launched_ns = replay ? replay->enqueued_ns : 0;
    finish_operation(device, &launch, captured->epoch_bits, t0, t1);
}

static void read_launch(const struct gpu_span *span, const struct captured_launch *launch) {
    uint64_t t0, length, width, seen = os_monotonic_ns();
    if (!launch->timed || launch->dropped || device_clock_length(launch->start, launch->stop, &length) != GPU_SUCCESS ||
        device_clock_read(&span->graph->device->clock, launch->start, &t0, &width) != GPU_SUCCESS ||
        t0 + STALE_NS + width < span->enqueued_ns || !claim_launch(span))
        return;
    t0 = device_clock_narrow(t0, length, span->enqueued_ns, seen);
    finish_replayed(span->graph->device, launch, span, t0, t0 + length);
}

/* Nothing more will be read of it: the rest is lost, unless the next replay's launcher has counted it already. */
static void close_replay(const struct gpu_span *span) {
    uint64_t replay = __atomic_load_n(&span->graph->replay, __ATOMIC_ACQUIRE);
    while (is_unread(span, replay))
        if (__atomic_compare_exchange_n(&span->graph->replay, &replay, replay & ~REPLAY_UNREAD, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            count_untimed_replays(replay_left(replay));
            return;
        }
}

int graphs_replayed(const struct gpu_span *span) {
    struct captured_graph *captured = span->graph;
    if (!captured->device->clock.taken)
        return GPU_NOT_READY;
    captures_ended(&span->captures, span->launch_number, os_monotonic_ns() - span->enqueued_ns);
    if (span->launches == 0)
        return GPU_SUCCESS;
    for (uint32_t i = 0; i < span->launches && is_unread(span, __atomic_load_n(&captured->replay, __ATOMIC_ACQUIRE));
         i++)
        read_launch(span, captured_launch_at(captured, i));
    close_replay(span);
    return GPU_SUCCESS;
}

void graphs_replay_lost(const struct gpu_span *span) {
    captures_unfollowed(&span->captures, span->launch_number);
    if (span->launches > 0)
        close_replay(span);
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* The nodes may be written while they are read: the start is read on both sides of the stop. */
static void sample_launch(struct gpu_device *device, struct captured_launch *launch) {
    uint64_t t0, length, again;
    if (!launch->timed || device_clock_read(&device->clock, launch->start, &t0, NULL) != GPU_SUCCESS ||
        device_clock_length(launch->start, launch->stop, &length) != GPU_SUCCESS || !length ||
        device_clock_read(&device->clock, launch->start, &again, NULL) != GPU_SUCCESS || again != t0 ||
        t0 < launch->sampled_t0 + SAME_NS || t0 + RECENT_NS < os_monotonic_ns())
        return;
    launch->sampled_t0 = t0;
    if (__atomic_load_n(&recorder.paused, __ATOMIC_RELAXED))
        return;
    finish_replayed(device, launch, NULL, t0, t0 + length);
}

void graphs_sample(struct gpu_device *device, uint64_t now) {
    static uint64_t due_ns[GPU_DEVICES_MAX];
    uint64_t *due = &due_ns[gpu_device_index(device)];
    if (now < *due || !device->clock.taken)
        return;
    *due = now + SAMPLE_INTERVAL_NS;
    uint32_t limit = free_list_limit(&fresh);
    bool entered = limit && gpu_context_enter(device);
    for (uint32_t i = 0; i < limit && gpu_device_is_live(device); i++) {
        struct captured_graph *captured = captured_graph_at(i);
        if (!captured || captured->device != device || !__atomic_load_n(&captured->taken, __ATOMIC_ACQUIRE) ||
            __atomic_load_n(&captured->seen, __ATOMIC_RELAXED) || now < captured->captured_ns + SAMPLE_QUIET_NS)
            continue;
        for (uint32_t k = 0; k < __atomic_load_n(&captured->launch_count, __ATOMIC_ACQUIRE); k++)
            sample_launch(device, captured_launch_at(captured, k));
    }
    gpu_context_leave(entered);
}
