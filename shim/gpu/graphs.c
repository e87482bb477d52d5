/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of graphs.h.
 */
#include "shim/gpu/graphs.h"

#include <errno.h>
#include <string.h>

#include "shim/base/handle_map.h"
#include "shim/base/os.h"
#include "shim/gpu/finish.h"
#include "shim/gpu/harvester.h"

#define GRAPHS_MAX         1024u
#define LAUNCHES_PER_CHUNK 32u
#define LAUNCH_CHUNKS      128u /* 4096 launches in one graph */
#define SAMPLE_INTERVAL_NS 20000000u
#define SAMPLE_QUIET_NS    5000000000u /* after its last launch was captured a graph is taken to be whole */
#define SAME_NS            1000000u    /* anchors tell one moment differently, but not by this much */
#define RECENT_NS          1000000000u /* what happened longer ago was looked at before */
#define STALE_NS           1000000u    /* no anchor is this far off: the node was not run by this replay */

struct captured_launch {
    void *start, *stop;   /* nodes' events: this launch's alone, kept for the place's next tenant */
    uint32_t incarnation; /* of the device whose events they are */
    uint32_t epoch_bits;
    bool timed, dropped;
    uint64_t sampled_t0; /* of the last replay found by sampling */
    struct gpu_launch launch;
};

struct captured_graph {
    uint32_t taken;
    uint32_t users; /* executable graphs, and 1 while the graph itself lives */
    uint64_t capture_id;
    struct gpu_device *device;
    uint32_t launch_count;
    uint64_t replay;      /* the last one launched: see REPLAY_UNREAD */
    uint64_t captured_ns; /* when the last of them was captured */
    uint32_t seen;        /* its executable graphs are seen: nothing is left to sampling */
    struct captured_launch *chunks[LAUNCH_CHUNKS];
};

/* One word for a replay, so that a launch of it is either read by the harvester or counted as lost by the thread that
 * begins the next one, never both: number of the replay in the high half, REPLAY_UNREAD until it is done with, launches
 * read of it below. */
#define REPLAY_ONE    (UINT64_C(1) << 32)
#define REPLAY_UNREAD (UINT64_C(1) << 31)

static uint32_t replay_number(uint64_t replay) {
    return (uint32_t)(replay >> 32);
}

static uint32_t replay_read(uint64_t replay) {
    return (uint32_t)(replay & (REPLAY_UNREAD - 1));
}

static struct captured_graph graphs[GRAPHS_MAX];
static uint32_t graph_limit; /* places that have ever been used */
static struct handle_map by_graph, by_executable;

void graphs_begin(void) {
    memset(graphs, 0, sizeof graphs);
    graph_limit = 0;
    memset(&by_graph, 0, sizeof by_graph);
    memset(&by_executable, 0, sizeof by_executable);
}

static struct captured_graph *find(struct handle_map *map, const void *handle) {
    return (struct captured_graph *)handle_map_get(map, (uintptr_t)handle);
}

static void count_untimed(uint64_t launches) {
    __atomic_fetch_add(&recorder.header->losses.replays_untimed, launches, __ATOMIC_RELAXED);
}

static struct captured_launch *launch_at(const struct captured_graph *captured, uint32_t i) {
    return &captured->chunks[i / LAUNCHES_PER_CHUNK][i % LAUNCHES_PER_CHUNK];
}

static uint32_t real_launches(const struct captured_graph *captured) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < captured->launch_count; i++)
        count += !launch_at(captured, i)->dropped;
    return count;
}

/* What the replay before has left, as far as it can be had now; what is read of its events after this is worthless.
 * Returns the number of the next one. */
static uint32_t settle(struct captured_graph *captured) {
    if (__atomic_load_n(&captured->replay, __ATOMIC_ACQUIRE) & REPLAY_UNREAD)
        harvester_look_briefly();
    uint64_t before = __atomic_load_n(&captured->replay, __ATOMIC_ACQUIRE), next;
    do
        next = (uint64_t)(replay_number(before) + 1) * REPLAY_ONE;
    while (!__atomic_compare_exchange_n(&captured->replay, &before, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    if (before & REPLAY_UNREAD)
        count_untimed(real_launches(captured) - replay_read(before));
    return replay_number(next);
}

/* ---- capture --------------------------------------------------------------------------------- */

static void release(struct captured_graph *captured) {
    if (__atomic_sub_fetch(&captured->users, 1, __ATOMIC_ACQ_REL) == 0) {
        settle(captured);
        __atomic_store_n(&captured->taken, 0, __ATOMIC_RELEASE);
    }
}

/* Events of a former tenant stay with the place. */
static struct captured_graph *new_graph(struct gpu_device *device, const void *graph, uint64_t capture_id) {
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
        captured->users = 1;
        captured->capture_id = capture_id;
        captured->device = device;
        captured->launch_count = captured->seen = 0;
        if (handle_map_set(&by_graph, (uintptr_t)graph, (uintptr_t)captured))
            return captured;
        release(captured);
        return NULL;
    }
    return NULL;
}

/* Graphs are told apart by their capture, too: handles come again. */
static struct captured_graph *graph_of(struct gpu_device *device, const void *graph, uint64_t capture_id) {
    struct captured_graph *captured = find(&by_graph, graph);
    if (captured && captured->capture_id == capture_id && captured->device == device)
        return captured;
    if (captured)
        graphs_destroyed(graph);
    return new_graph(device, graph, capture_id);
}

static struct captured_launch *new_launch(struct captured_graph *captured) {
    uint32_t i = captured->launch_count;
    if (i >= LAUNCHES_PER_CHUNK * LAUNCH_CHUNKS)
        return NULL;
    struct captured_launch **chunk = &captured->chunks[i / LAUNCHES_PER_CHUNK];
    if (!*chunk)
        *chunk = os_memory(LAUNCHES_PER_CHUNK * sizeof **chunk);
    if (!*chunk)
        return NULL;
    struct captured_launch *launch = launch_at(captured, i);
    launch->timed = launch->dropped = false;
    launch->sampled_t0 = 0;
    launch->launch = (struct gpu_launch){.comm = COMM_NONE};
    captured->captured_ns = os_monotonic_ns();
    __atomic_store_n(&captured->launch_count, i + 1, __ATOMIC_RELEASE);
    return launch;
}

/* Making events is allowed under capture; recording one without the flag would make it useless and be no node. */
static bool record_start(const struct gpu_device *device, struct captured_launch *launch, void *stream) {
    if (launch->incarnation != device->incarnation) {
        launch->incarnation = 0;
        if (gpu_driver.event_create(&launch->start, 0) || gpu_driver.event_create(&launch->stop, 0))
            return false;
        launch->incarnation = device->incarnation;
    }
    return gpu_driver.event_record_flags(launch->start, stream, GPU_EVENT_RECORD_EXTERNAL) == GPU_SUCCESS;
}

struct gpu_span *graphs_capture_begin(struct gpu_device *device, void *stream, uint32_t streams) {
    int status = GPU_CAPTURE_STATUS_NONE;
    uint64_t id = 0;
    void *graph = NULL;
    const void **nodes;
    size_t node_count;
    if (!gpu_driver.stream_capture ||
        gpu_driver.stream_capture(stream, &status, &id, &graph, &nodes, &node_count) != GPU_SUCCESS ||
        status != GPU_CAPTURE_STATUS_ACTIVE || !graph)
        return NULL;
    struct captured_graph *captured = graph_of(device, graph, id);
    struct captured_launch *launch = captured ? new_launch(captured) : NULL;
    struct gpu_span *span = launch ? gpu_span_take(device) : NULL;
    if (!span)
        return NULL;
    launch->timed = streams <= 1 && gpu_driver.event_record_flags && record_start(device, launch, stream);
    span->kind = SPAN_CAPTURED;
    span->stream = stream;
    span->captured = launch;
    return span;
}

void graphs_capture_end(struct gpu_span *span, const struct gpu_launch *launch) {
    struct captured_launch *captured = span->captured;
    captured->launch = *launch;
    captured->epoch_bits = recorder.epoch_bits;
    if (captured->timed)
        captured->timed =
            gpu_driver.event_record_flags(captured->stop, span->stream, GPU_EVENT_RECORD_EXTERNAL) == GPU_SUCCESS;
    gpu_span_put(span);
}

void graphs_capture_drop(struct gpu_span *span) {
    span->captured->timed = false;
    span->captured->dropped = true;
    gpu_span_put(span);
}

/* ---- graphs and executable graphs ------------------------------------------------------------ */

void graphs_instantiated(const void *executable, const void *graph) {
    struct captured_graph *captured = find(&by_graph, graph);
    if (captured) {
        __atomic_add_fetch(&captured->users, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&captured->seen, 1, __ATOMIC_RELAXED);
    }
    graphs_executable_destroyed(executable); /* updated, or its handle comes again */
    if (captured && !handle_map_set(&by_executable, (uintptr_t)executable, (uintptr_t)captured))
        release(captured);
}

static void forget(struct handle_map *map, const void *handle) {
    struct captured_graph *captured = find(map, handle);
    if (!captured)
        return;
    handle_map_remove(map, (uintptr_t)handle);
    release(captured);
}

void graphs_executable_destroyed(const void *executable) {
    forget(&by_executable, executable);
}

void graphs_destroyed(const void *graph) {
    forget(&by_graph, graph);
}

/* ---- replays --------------------------------------------------------------------------------- */

/* An ordinary event behind the launch tells when the nodes' events are this replay's: until then they may still hold
 * those of the one before. */
static struct gpu_span *new_replay(struct captured_graph *captured, void *stream) {
    int capturing = GPU_CAPTURE_STATUS_ACTIVE; /* then it becomes a child graph and is not followed */
    if (gpu_driver.stream_is_capturing(stream, &capturing) != GPU_SUCCESS || capturing != GPU_CAPTURE_STATUS_NONE)
        return NULL;
    uint32_t number = settle(captured);
    struct gpu_device *device = gpu_device_of_stream(captured->device, stream);
    struct gpu_span *span = device && gpu_device_is_live(device) ? gpu_span_take(device) : NULL;
    if (!span) {
        count_untimed(real_launches(captured));
        return NULL;
    }
    span->kind = SPAN_REPLAY;
    span->started = 1;
    span->stream = stream;
    span->graph = captured;
    span->replay = number;
    span->enqueued_ns = os_monotonic_ns();
    return span;
}

struct gpu_span *graphs_before_launch(const void *executable, void *stream) {
    int saved = errno;
    struct captured_graph *captured = find(&by_executable, executable);
    struct gpu_span *span = captured && captured->launch_count ? new_replay(captured, stream) : NULL;
    errno = saved;
    return span;
}

/* False where another thread has launched the graph meanwhile: the events will be a mixture of both. */
static bool expect(const struct gpu_span *span) {
    uint64_t begun = span->replay * REPLAY_ONE;
    return __atomic_compare_exchange_n(&span->graph->replay, &begun, begun | REPLAY_UNREAD, false, __ATOMIC_RELEASE,
                                       __ATOMIC_RELAXED);
}

void graphs_launched(struct gpu_span *span, bool succeeded) {
    int saved = errno;
    bool entered = GPU_STREAM_IS_SPECIAL(span->stream) && gpu_context_enter(span->device);
    if (succeeded && gpu_driver.event_record(span->stop, span->stream) == GPU_SUCCESS && expect(span)) {
        gpu_span_push(span);
    } else {
        if (succeeded)
            count_untimed(real_launches(span->graph));
        gpu_span_put(span);
    }
    gpu_context_leave(entered);
    errno = saved;
}

static bool is_unread(const struct gpu_span *span, uint64_t replay) {
    return replay_number(replay) == span->replay && replay & REPLAY_UNREAD;
}

/* Claims one launch of the replay: what was read before is its own then. False: the next replay may have begun. */
static bool claim(const struct gpu_span *span) {
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
        t0 + STALE_NS < span->enqueued_ns || !claim(span))
        return;
    finish_operation(span->graph->device, &launch->launch, launch->epoch_bits, t0, t0 + length, FLAG_CAPTURED);
}

/* Nothing more will be read of it: the rest is lost, unless the next replay's launcher has counted it already. */
static void close_replay(const struct gpu_span *span) {
    uint64_t replay = __atomic_load_n(&span->graph->replay, __ATOMIC_ACQUIRE);
    while (is_unread(span, replay))
        if (__atomic_compare_exchange_n(&span->graph->replay, &replay, replay & ~REPLAY_UNREAD, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            count_untimed(real_launches(span->graph) - replay_read(replay));
            return;
        }
}

int graphs_replayed(const struct gpu_span *span) {
    struct captured_graph *captured = span->graph;
    if (!captured->device->clock.taken)
        return GPU_NOT_READY;
    for (uint32_t i = 0;
         i < captured->launch_count && is_unread(span, __atomic_load_n(&captured->replay, __ATOMIC_ACQUIRE)); i++)
        read_launch(span, launch_at(captured, i));
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
            sample_launch(device, launch_at(captured, k));
    }
    gpu_context_leave(entered);
}
