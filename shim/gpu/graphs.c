/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/graphs.h"

#include <errno.h>
#include <string.h>

#include "shim/base/handle_map.h"
#include "shim/base/os.h"
#include "shim/gpu/graph_replays.h"
#include "shim/gpu/harvester.h"

static struct handle_map by_graph, by_executable;

void graphs_begin(void) {
    static bool
        before; /* a forked child has its parent's; otherwise there is nothing to forget, and no page to touch */
    if (before) {
        memset(&by_graph, 0, sizeof by_graph);
        memset(&by_executable, 0, sizeof by_executable);
        graph_replays_begin();
    }
    before = true;
}

static struct captured_graph *find(struct handle_map *map, const void *handle) {
    return (struct captured_graph *)handle_map_get(map, (uintptr_t)handle);
}

/* What the replay before has left, as far as it can be had now; what is read of its events after this is worthless.
 * Returns the number of the next one. */
static uint32_t settle_replay(struct captured_graph *captured) {
    if (__atomic_load_n(&captured->replay, __ATOMIC_ACQUIRE) & REPLAY_UNREAD)
        harvester_look_briefly();
    uint64_t before = __atomic_load_n(&captured->replay, __ATOMIC_ACQUIRE), next;
    do
        next = (uint64_t)(replay_number(before) + 1) * REPLAY_ONE;
    while (!__atomic_compare_exchange_n(&captured->replay, &before, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    if (before & REPLAY_UNREAD)
        count_untimed_replays(captured_launches(captured) - replay_read(before));
    return replay_number(next);
}

/* ---- capture --------------------------------------------------------------------------------- */

static void release(struct captured_graph *captured) {
    if (__atomic_sub_fetch(&captured->users, 1, __ATOMIC_ACQ_REL) == 0) {
        settle_replay(captured);
        __atomic_store_n(&captured->taken, 0, __ATOMIC_RELEASE);
    }
}

static struct captured_graph *new_graph(struct gpu_device *device, const void *graph, uint64_t capture_id) {
    struct captured_graph *captured = captured_graph_take(device);
    if (!captured)
        return NULL;
    captured->users = 1;
    captured->capture_id = capture_id;
    captured->device = device;
    captured->launch_count = captured->seen = 0;
    if (handle_map_set(&by_graph, (uintptr_t)graph, (uintptr_t)captured))
        return captured;
    release(captured);
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
    struct captured_launch *launch = captured_launch_at(captured, i);
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
    uint32_t number = settle_replay(captured);
    struct gpu_device *device = gpu_device_of_stream(captured->device, stream);
    struct gpu_span *span = device && gpu_device_is_live(device) ? gpu_span_take(device) : NULL;
    if (!span) {
        count_untimed_replays(captured_launches(captured));
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
            count_untimed_replays(captured_launches(span->graph));
        gpu_span_put(span);
    }
    gpu_context_leave(entered);
    errno = saved;
}
