/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/graphs.h"

#include <errno.h>
#include <string.h>

#include "shim/base/handle_map.h"
#include "shim/base/os.h"
#include "shim/gpu/graph_replays.h"
#include "shim/gpu/harvester.h"

/* A map for handles of graphs, which jobs may have many thousands of. */
#define SHARDS 8u
struct graph_map {
    struct handle_map shards[SHARDS];
};

/* Values: a graph's number + 1; of executable graphs also how many launches they were made with. */
#define NUMBER_BITS 20
#define LAUNCH_BITS 14
#define PLAIN_MAX   (REPLAY_TOTAL_MAX - LAUNCHES_PER_CHUNK * LAUNCH_CHUNKS)
_Static_assert(GRAPHS_MAX < 1u << NUMBER_BITS, "a graph's number has room");
_Static_assert(LAUNCHES_PER_CHUNK *LAUNCH_CHUNKS < 1u << LAUNCH_BITS, "and so have its launches");

static struct graph_map by_graph, by_executable;
static struct graph_map continued; /* graphs that are captured into */

void graphs_begin(void) {
    static bool
        before; /* a forked child has its parent's; otherwise there is nothing to forget, and no page to touch */
    if (before) {
        memset(&by_graph, 0, sizeof by_graph);
        memset(&by_executable, 0, sizeof by_executable);
        memset(&continued, 0, sizeof continued);
    }
    graph_replays_begin();
    before = true;
}

static struct handle_map *shard_of(struct graph_map *map, const void *handle) {
    return &map->shards[hash_mix((uintptr_t)handle) % SHARDS];
}

static uintptr_t value_of(struct graph_map *map, const void *handle) {
    return handle_map_get(shard_of(map, handle), (uintptr_t)handle);
}

static struct captured_graph *graph_in(uintptr_t value) {
    return value ? captured_graph_at((uint32_t)(value & ((1u << NUMBER_BITS) - 1)) - 1) : NULL;
}

static struct captured_graph *find(struct graph_map *map, const void *handle) {
    return graph_in(value_of(map, handle));
}

static bool enter(struct graph_map *map, const void *handle, const struct captured_graph *captured, uintptr_t more) {
    uintptr_t value = (captured->number + 1) | more << NUMBER_BITS;
    return handle_map_set(shard_of(map, handle), (uintptr_t)handle, value);
}

/* Number of the replay that begins now: what the one before has left is taken as far as it can be had; what is read of
 * its events after this is worthless. */
static uint32_t settle_replay(struct captured_graph *captured) {
    if (__atomic_load_n(&captured->replay, __ATOMIC_ACQUIRE) & REPLAY_UNREAD)
        harvester_look_briefly();
    uint64_t before = __atomic_load_n(&captured->replay, __ATOMIC_ACQUIRE), next;
    do
        next = (before / REPLAY_ONE + 1) * REPLAY_ONE;
    while (!__atomic_compare_exchange_n(&captured->replay, &before, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    if (before & REPLAY_UNREAD)
        count_untimed_replays(replay_left(before));
    return replay_number(next);
}

/* ---- capture --------------------------------------------------------------------------------- */

/* Captured launches of which no executable graph is known: until there is one, if ever. */
static void count_unfollowed(int64_t launches) {
    __atomic_fetch_add(&recorder.header->captured_unfollowed, (uint64_t)launches, __ATOMIC_RELAXED);
}

static void note_unfollowed(struct captured_graph *captured, int32_t launches) {
    __atomic_fetch_add(&captured->unfollowed, (uint32_t)launches, __ATOMIC_RELAXED);
    count_unfollowed(launches);
}

static void follow(struct captured_graph *captured) {
    count_unfollowed(-(int64_t)__atomic_exchange_n(&captured->unfollowed, 0, __ATOMIC_RELAXED));
}

static void release(struct captured_graph *captured) {
    if (__atomic_sub_fetch(&captured->users, 1, __ATOMIC_ACQ_REL) == 0) {
        settle_replay(captured);
        captured_graph_give_back(captured);
    }
}

static struct captured_graph *new_graph(struct gpu_device *device, const void *graph, uint64_t capture_id) {
    struct captured_graph *captured = captured_graph_take(device);
    if (!captured)
        return NULL;
    captured->users = 1;
    captured->capture_id = capture_id;
    captured->former = replay_number(captured->replay);
    captured->launch_count = captured->plain = captured->unfollowed = captured->nested = captured->seen = 0;
    capture_contents_clear(&captured->contents);
    if (enter(&by_graph, graph, captured, 0))
        return captured;
    release(captured);
    return NULL;
}

/* Graphs are told apart by their capture, too: handles come again. Only what is captured into has several. */
static struct captured_graph *graph_of(struct gpu_device *device, const void *graph, uint64_t capture_id,
                                       bool is_continued) {
    struct captured_graph *captured = find(&by_graph, graph);
    if (captured && (captured->capture_id == capture_id || is_continued) && captured->device == device)
        return captured;
    if (captured)
        graphs_destroyed(graph);
    return new_graph(device, graph, capture_id);
}

static void count_plain(struct captured_graph *captured, uint32_t launches) {
    uint32_t before = __atomic_load_n(&captured->plain, __ATOMIC_RELAXED);
    launches = launches < PLAIN_MAX - before ? launches : PLAIN_MAX - before;
    __atomic_fetch_add(&captured->plain, launches, __ATOMIC_RELEASE);
    note_unfollowed(captured, (int32_t)launches);
}

/* A launch beyond the last place is only counted. */
static struct captured_launch *new_launch(struct captured_graph *captured) {
    uint32_t i = captured->launch_count;
    struct captured_launch **chunk = &captured->chunks[i / LAUNCHES_PER_CHUNK];
    if (i < LAUNCHES_PER_CHUNK * LAUNCH_CHUNKS && !*chunk)
        *chunk = os_memory(LAUNCHES_PER_CHUNK * sizeof **chunk);
    if (i >= LAUNCHES_PER_CHUNK * LAUNCH_CHUNKS || !*chunk) {
        count_plain(captured, 1);
        return NULL;
    }
    struct captured_launch *launch = captured_launch_at(captured, i);
    launch->timed = launch->dropped = false;
    launch->sampled_t0 = 0;
    launch->launch = (struct gpu_launch){.comm = COMM_NONE};
    captured->captured_ns = os_monotonic_ns();
    __atomic_store_n(&captured->launch_count, i + 1, __ATOMIC_RELEASE);
    note_unfollowed(captured, 1);
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

/* The graph that a stream is being captured into; NULL where it is not, or that is not to be known. */
static void *capture_of(void *stream, uint64_t *id) {
    int status = GPU_CAPTURE_STATUS_NONE;
    void *graph = NULL;
    const void **nodes;
    size_t node_count;
    if (!gpu_driver.stream_capture ||
        gpu_driver.stream_capture(stream, &status, id, &graph, &nodes, &node_count) != GPU_SUCCESS ||
        status != GPU_CAPTURE_STATUS_ACTIVE)
        return NULL;
    return graph;
}

struct gpu_span *graphs_capture_begin(struct gpu_device *device, void *stream, uint32_t streams) {
    uint64_t id = 0;
    void *graph = capture_of(stream, &id);
    if (!graph) {
        count_unfollowed(1);
        return NULL;
    }
    bool is_continued = value_of(&continued, graph) != 0;
    struct captured_graph *captured = graph_of(device, graph, id, is_continued);
    if (!captured)
        count_unfollowed(1);
    struct captured_launch *launch = captured ? new_launch(captured) : NULL;
    if (!launch)
        return NULL;
    launch->timed =
        streams <= 1 && !is_continued && gpu_driver.event_record_flags && record_start(device, launch, stream);
    launch->carrier = (struct gpu_span){
        .kind = SPAN_CAPTURED, .device = device, .stream = stream, .graph = captured, .captured = launch};
    return &launch->carrier;
}

void graphs_capture_end(struct gpu_span *span, const struct gpu_launch *launch) {
    struct captured_launch *captured = span->captured;
    if (launch->collectives)
        graphs_capture_holds(span, &(struct capture_part){.comm = launch->comm,
                                                          .peer = PEER_NONE,
                                                          .count = launch->collectives,
                                                          .stack = launch->stack,
                                                          .call = launch->call});
    captured->launch = *launch;
    captured->launch.quiet &= QUIET_LEFT_OUT; /* it is recorded where its replay is */
    captured->epoch_bits = recorder.epoch_bits;
    if (captured->timed)
        captured->timed =
            gpu_driver.event_record_flags(captured->stop, span->stream, GPU_EVENT_RECORD_EXTERNAL) == GPU_SUCCESS;
}

void graphs_capture_drop(struct gpu_span *span) {
    span->captured->timed = false;
    span->captured->dropped = true;
    note_unfollowed(span->graph, -1);
}

void graphs_capture_holds(const struct gpu_span *span, const struct capture_part *part) {
    capture_contents_add(&span->graph->contents, part);
}

void graphs_capture_holds_more(const struct gpu_span *span) {
    span->graph->contents.lost = true;
}

void graphs_captured_into(const void *graph) {
    handle_map_set(shard_of(&continued, graph), (uintptr_t)graph, 1);
}

/* ---- graphs and executable graphs ------------------------------------------------------------ */

static uint32_t all_launches(const struct captured_graph *captured) {
    return captured_launches(captured, captured->launch_count) + captured->plain;
}

/* The part's events are written by replays of the whole as well as by its own. */
static void add_part(struct captured_graph *captured, struct captured_graph *part, uint32_t launches) {
    __atomic_store_n(&part->nested, 1, __ATOMIC_RELEASE);
    capture_contents_add_all(&captured->contents, &part->contents);
    count_plain(captured, launches);
}

void graphs_cloned(const void *clone, const void *graph) {
    struct captured_graph *captured = find(&by_graph, graph);
    if (!captured || !all_launches(captured))
        return;
    struct captured_graph *copy = new_graph(captured->device, clone, captured->capture_id);
    if (copy)
        add_part(copy, captured, all_launches(captured));
    else
        count_unfollowed(all_launches(captured));
}

void graphs_child_added(const void *graph, const void *child) {
    struct captured_graph *part = find(&by_graph, child), *captured = find(&by_graph, graph);
    if (!part || !all_launches(part))
        return;
    if (!captured)
        captured = new_graph(part->device, graph, 0);
    if (captured)
        add_part(captured, part, all_launches(part));
    else
        count_unfollowed(all_launches(part));
    follow(part); /* with the whole */
}

void graphs_instantiated(const void *executable, const void *graph) {
    struct captured_graph *captured = find(&by_graph, graph);
    if (captured) {
        __atomic_add_fetch(&captured->users, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&captured->seen, 1, __ATOMIC_RELAXED);
    }
    graphs_executable_destroyed(executable); /* updated, or its handle comes again */
    if (!captured)
        return;
    captures_settle(&captured->contents);
    if (enter(&by_executable, executable, captured, captured->launch_count | (uintptr_t)captured->plain << LAUNCH_BITS))
        follow(captured);
    else
        release(captured);
}

static void forget(struct graph_map *map, const void *handle) {
    struct captured_graph *captured = find(map, handle);
    if (!captured)
        return;
    handle_map_remove(shard_of(map, handle), (uintptr_t)handle);
    release(captured);
}

void graphs_executable_destroyed(const void *executable) {
    forget(&by_executable, executable);
}

void graphs_destroyed(const void *graph) {
    handle_map_remove(shard_of(&continued, graph), (uintptr_t)graph);
    forget(&by_graph, graph);
}

/* ---- replays --------------------------------------------------------------------------------- */

static uint32_t launches_of(const struct graph_launch *launch) {
    return captured_launches(launch->graph, launch->launches) + launch->plain;
}

/* An ordinary event behind the launch tells when the nodes' events are this replay's: until then they may still hold
 * those of the one before. */
static struct gpu_span *new_replay(struct graph_launch *launch) {
    struct captured_graph *captured = launch->graph;
    struct gpu_device *device = gpu_device_of_stream(captured->device, launch->stream);
    launch->timed = launch->launches > 0 && !launch->quiet && !__atomic_load_n(&captured->nested, __ATOMIC_ACQUIRE);
    bool followed = !launch->quiet && (launch->timed || captured->contents.list.count > 0);
    struct gpu_span *span = followed && device && gpu_device_is_live(device) ? gpu_span_take(device) : NULL;
    if (!span)
        return NULL;
    span->kind = SPAN_REPLAY;
    span->started = 1;
    span->stream = launch->stream;
    span->graph = captured;
    span->replay = launch->number;
    span->launches = launch->timed ? launch->launches : 0;
    span->captures = captured->contents.list;
    span->launch_number = 0;
    span->launch.replay = launch->number - captured->former;
    span->enqueued_ns = os_monotonic_ns();
    return span;
}

bool graphs_before_launch(struct graph_launch *launch, const void *executable, void *stream) {
    uintptr_t value = value_of(&by_executable, executable), made_with = value >> NUMBER_BITS;
    if (!made_with)
        return false;
    int saved = errno, capturing = GPU_CAPTURE_STATUS_NONE;
    *launch = (struct graph_launch){.graph = graph_in(value),
                                    .stream = stream,
                                    .launches = made_with & ((1u << LAUNCH_BITS) - 1),
                                    .plain = (uint32_t)(made_with >> LAUNCH_BITS)};
    launch->into_capture =
        gpu_driver.stream_is_capturing(stream, &capturing) == GPU_SUCCESS && capturing != GPU_CAPTURE_STATUS_NONE;
    if (!launch->into_capture) {
        launch->quiet = __atomic_load_n(&recorder.paused, __ATOMIC_RELAXED) != 0;
        launch->number = settle_replay(launch->graph);
        launch->span = new_replay(launch);
    }
    errno = saved;
    return true;
}

static void launched_into_capture(const struct graph_launch *launch) {
    uint64_t id = 0;
    void *graph = capture_of(launch->stream, &id);
    struct captured_graph *whole =
        graph ? graph_of(launch->graph->device, graph, id, value_of(&continued, graph) != 0) : NULL;
    if (whole)
        add_part(whole, launch->graph, launches_of(launch));
    else
        count_unfollowed(launches_of(launch));
}

/* False where another thread has launched the graph meanwhile: the events will be a mixture of both. */
static bool expect(const struct graph_launch *launch) {
    uint64_t begun = launch->number * REPLAY_ONE, total = launches_of(launch);
    return __atomic_compare_exchange_n(&launch->graph->replay, &begun, begun | REPLAY_UNREAD | total * REPLAY_TOTAL,
                                       false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* The launch has been made. Its span is handed over where it has an event behind it, whether or not the nodes' events
 * are this replay's alone. */
static void replay_launched(const struct graph_launch *launch) {
    struct gpu_span *span = launch->span;
    const struct capture_contents *contents = &launch->graph->contents;
    uint64_t number = captures_launched(contents, span ? span->enqueued_ns : os_monotonic_ns());
    bool entered = span && GPU_STREAM_IS_SPECIAL(span->stream) && gpu_context_enter(span->device);
    bool followed = span && gpu_driver.event_record(span->stop, span->stream) == GPU_SUCCESS;
    bool timed = followed && launch->timed && expect(launch);
    if (!timed && !launch->quiet)
        count_untimed_replays(launches_of(launch));
    if (followed && (timed || number)) {
        span->launches = timed ? span->launches : 0;
        span->launch_number = number;
        gpu_span_push(span);
    } else {
        captures_unfollowed(&contents->list, number);
        if (span)
            gpu_span_put(span);
    }
    gpu_context_leave(entered);
}

void graphs_launched(struct graph_launch *launch, bool succeeded) {
    int saved = errno;
    if (succeeded && launch->into_capture)
        launched_into_capture(launch);
    else if (succeeded)
        replay_launched(launch);
    else if (launch->span)
        gpu_span_put(launch->span);
    errno = saved;
}
