/* SPDX-License-Identifier: Apache-2.0
 *
 * Time lines of pipeline-parallel training, as ByteDance's straggler analysis publishes them: Chrome traces whose
 * metadata name the data-parallel rank of a process and the pipeline rank, tensor rank and stream of a thread.
 * Lives here: this format's words, and rebuilding what it leaves out.
 * Must not live here: numbering, dumps.
 *
 * Two things are rebuilt. Waiting was trimmed from the beginnings of communication: a rank entered an operation when
 * its last local work had ended, so that is taken. Work begins when the communication before it has ended, also where
 * the clocks of the two streams say otherwise. The recorded steps are samples with made-up distances: they are laid
 * end to end. World ranks are numbered as Megatron does: tensor ranks vary fastest, then data, then pipeline ranks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/statistics.h"
#include "analyzer/import/chrome_frames.h"
#include "analyzer/import/formats.h"

enum { SLACK_NS = 1000000, DEGREE_MOST = 1 << 12, THREADS_MOST = 1 << 20 };

/* Whom an operation connects. */
enum operation_scope { SCOPE_NEXT, SCOPE_PREVIOUS, SCOPE_TENSOR, SCOPE_DATA, SCOPE_ENDS, SCOPE_WORLD, SCOPES };

enum { TAG_FORWARD = 0, TAG_BACKWARD = 1 };

static const struct trace_call calls[] = {
    {"forward-send", "send", API_TRACE, CLASS_SEND, FLOW_NONE, BUSBW_ONE},
    {"forward-recv", "recv", API_TRACE, CLASS_RECV, FLOW_NONE, BUSBW_ONE},
    {"backward-send", "send", API_TRACE, CLASS_SEND, FLOW_NONE, BUSBW_ONE},
    {"backward-recv", "recv", API_TRACE, CLASS_RECV, FLOW_NONE, BUSBW_ONE},
    {"params-all-gather", "all_gather_into_tensor", API_TRACE, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_SHARE},
    {"grads-reduce-scatter", "reduce_scatter_tensor", API_TRACE, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_SHARE},
    {"layernorm-grads-all-reduce", "all_reduce", API_TRACE, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE},
    {"embedding-grads-all-reduce", "all_reduce", API_TRACE, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE},
    {"optimizer-clip-main-grad", "all_reduce", API_TRACE, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE},
    {"forward-compute", NULL, API_TRACE, CLASS_OTHER, FLOW_NONE, BUSBW_NONE},
    {"backward-compute", NULL, API_TRACE, CLASS_OTHER, FLOW_NONE, BUSBW_NONE},
    {"optimizer", NULL, API_TRACE, CLASS_OTHER, FLOW_NONE, BUSBW_NONE},
    {"other work", NULL, API_TRACE, CLASS_OTHER, FLOW_NONE, BUSBW_NONE},
};

enum { CALLS = sizeof calls / sizeof *calls, LOCAL_WORK = 9 /* and all after it */, OTHER_WORK = CALLS - 1 };

static const struct {
    enum operation_scope scope;
    int32_t tag;
} places[LOCAL_WORK] = {
    {SCOPE_NEXT, TAG_FORWARD},  {SCOPE_PREVIOUS, TAG_FORWARD}, {SCOPE_PREVIOUS, TAG_BACKWARD},
    {SCOPE_NEXT, TAG_BACKWARD}, {SCOPE_DATA, TAG_NONE},        {SCOPE_DATA, TAG_NONE},
    {SCOPE_TENSOR, TAG_NONE},   {SCOPE_ENDS, TAG_NONE},        {SCOPE_WORLD, TAG_NONE},
};

struct item {
    int64_t start_ns, end_ns, enter_ns;
    int64_t step;
    uint32_t process, thread;
    uint32_t seq;
    uint32_t call;  /* from LOCAL_WORK on: not communication */
    uint32_t frame; /* of the document's frames, CHROME_FRAME_NONE */
    uint32_t stack; /* once the document has been read */
    int32_t rank;
    bool known;
};

struct thread {
    uint32_t process, thread;
    int32_t pipeline, tensor;
    bool communication;
};

struct imported_timeline {
    struct import_limits *limits;
    struct item *items;
    size_t item_count, document_items;
    struct thread *threads;
    size_t thread_count;
    int32_t data, pipeline, tensor; /* degrees */
    size_t dropped;
    struct trace_stacks stacks;
    struct chrome_frames frames; /* of the present document */
    bool no_memory;
};

static void *begin(struct import_limits *limits) {
    struct imported_timeline *timeline = calloc(1, sizeof *timeline);
    if (timeline)
        timeline->limits = limits;
    return timeline;
}

static void end(void *state) {
    struct imported_timeline *timeline = state;
    free(timeline->items);
    free(timeline->threads);
    trace_stacks_free(&timeline->stacks);
    chrome_frames_free(&timeline->frames);
    free(timeline);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool small_number(const json_t *object, const char *key, uint32_t *number) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > UINT32_MAX)
        return false;
    *number = (uint32_t)json_integer_value(value);
    return true;
}

/* "PP rank 3, TP rank 0, dp-comm" */
static bool add_thread(struct imported_timeline *timeline, const json_t *piece) {
    const char *name = json_string_value(json_object_get(json_object_get(piece, "args"), "name"));
    struct thread thread;
    char stream[32];
    if (!name || sscanf(name, "PP rank %9d, TP rank %9d, %31s", &thread.pipeline, &thread.tensor, stream) != 3 ||
        thread.pipeline < 0 || thread.tensor < 0 || thread.pipeline >= DEGREE_MOST || thread.tensor >= DEGREE_MOST ||
        !small_number(piece, "pid", &thread.process) || !small_number(piece, "tid", &thread.thread))
        return true;
    thread.communication = strstr(stream, "comm") != NULL;
    if (timeline->thread_count == THREADS_MOST)
        return true;
    if (!grow_list(timeline->threads, timeline->thread_count))
        return false;
    timeline->threads[timeline->thread_count++] = thread;
    return true;
}

static uint32_t call_named(const char *name) {
    uint32_t call = 0;
    while (call < OTHER_WORK && (!name || strcmp(calls[call].name, name) != 0))
        call++;
    return call;
}

static bool add_item(struct imported_timeline *timeline, const json_t *piece, const json_t *arguments) {
    struct item item = {.step = json_integer_value(json_object_get(arguments, "step")),
                        .call = call_named(json_string_value(json_object_get(piece, "name"))),
                        .frame = chrome_frame_number(json_object_get(piece, "sf")),
                        .rank = -1};
    int64_t duration;
    if (!import_time(json_object_get(piece, "ts"), &item.start_ns) ||
        !import_time(json_object_get(piece, "dur"), &duration) || duration < 0 ||
        !small_number(piece, "pid", &item.process) || item.process >= DEGREE_MOST ||
        !small_number(piece, "tid", &item.thread) || !small_number(arguments, "seq_id", &item.seq)) {
        timeline->dropped++;
        return true;
    }
    item.end_ns = item.start_ns + duration;
    if (!limits_keep(timeline->limits, 2 * sizeof item + 2 * sizeof(int64_t))) /* the array doubles; `ends` */
        return false;
    if (!grow_list(timeline->items, timeline->item_count))
        return false;
    timeline->items[timeline->item_count++] = item;
    timeline->document_items++;
    return true;
}

static bool piece(void *state, const char *key, const json_t *value) {
    struct imported_timeline *timeline = state;
    if (key && strcmp(key, "stackFrames") == 0)
        return chrome_frames_read(&timeline->frames, value, &timeline->stacks, timeline->limits);
    if ((key && strcmp(key, "traceEvents") != 0) || !json_is_object(value))
        return true;
    const char *phase = json_string_value(json_object_get(value, "ph"));
    const char *name = json_string_value(json_object_get(value, "name"));
    const json_t *arguments = json_object_get(value, "args");
    if (phase && name && strcmp(phase, "M") == 0 && strcmp(name, "thread_name") == 0)
        return add_thread(state, value);
    if (phase && strcmp(phase, "X") == 0 && json_is_integer(json_object_get(arguments, "step")))
        return add_item(state, value, arguments);
    return true;
}

static bool document(void *state, const char *name, int64_t written_ns, const char **lacks) {
    (void)written_ns;
    (void)lacks;
    struct imported_timeline *timeline = state;
    (void)name;
    bool any = timeline->document_items > 0 && timeline->thread_count > 0;
    for (size_t i = timeline->item_count - timeline->document_items; i < timeline->item_count; i++)
        if (!chrome_frames_stack(&timeline->frames, timeline->items[i].frame, &timeline->stacks, timeline->limits,
                                 &timeline->items[i].stack))
            timeline->no_memory = true;
    chrome_frames_free(&timeline->frames);
    timeline->document_items = 0;
    return any;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static int compare_threads(const void *a, const void *b) {
    const struct thread *left = a, *right = b;
    if (left->process != right->process)
        return left->process < right->process ? -1 : 1;
    return left->thread < right->thread ? -1 : left->thread > right->thread;
}

static const struct thread *thread_of(const struct imported_timeline *timeline, const struct item *item) {
    struct thread key = {.process = item->process, .thread = item->thread};
    return bsearch(&key, timeline->threads, timeline->thread_count, sizeof key, compare_threads);
}

static int32_t rank_at(const struct imported_timeline *timeline, int32_t data, int32_t pipeline, int32_t tensor) {
    return (pipeline * timeline->data + data) * timeline->tensor + tensor;
}

static const char *find_degrees(struct imported_timeline *timeline) {
    qsort(timeline->threads, timeline->thread_count, sizeof *timeline->threads, compare_threads);
    timeline->data = timeline->pipeline = timeline->tensor = 1;
    for (size_t i = 0; i < timeline->item_count; i++) {
        const struct item *item = &timeline->items[i];
        const struct thread *thread = thread_of(timeline, item);
        if (!thread)
            continue;
        if ((int32_t)item->process >= timeline->data)
            timeline->data = (int32_t)item->process + 1;
        if (thread->pipeline >= timeline->pipeline)
            timeline->pipeline = thread->pipeline + 1;
        if (thread->tensor >= timeline->tensor)
            timeline->tensor = thread->tensor + 1;
    }
    int64_t world = (int64_t)timeline->data * timeline->pipeline * timeline->tensor;
    return world <= TRACE_RANKS_MOST ? NULL : "more ranks than can be imported";
}

static bool place_items(struct imported_timeline *timeline, struct trace *trace) {
    if (!trace_set_world(trace, timeline->data * timeline->pipeline * timeline->tensor))
        return false;
    for (size_t i = 0; i < timeline->item_count; i++) {
        struct item *item = &timeline->items[i];
        const struct thread *thread = thread_of(timeline, item);
        bool unknown = thread && item->call >= LOCAL_WORK && thread->communication;
        if (!thread || unknown)
            timeline->dropped++; /* a communication that is not in the table is no local work either */
        if (!thread)
            continue;
        item->known = !unknown;
        item->rank = rank_at(timeline, (int32_t)item->process, thread->pipeline, thread->tensor);
        struct trace_rank *rank = &trace->ranks[item->rank];
        if (!trace_see_rank(trace, item->rank))
            return false;
        snprintf(rank->where, sizeof rank->where, "data-parallel rank %d, pipeline rank %d, tensor rank %d",
                 (int)item->process, (int)thread->pipeline, (int)thread->tensor);
    }
    return true;
}

/* ---- times ----------------------------------------------------------------------------------- */

static int compare_steps(const void *a, const void *b) {
    const struct item *left = a, *right = b;
    if (left->step != right->step)
        return left->step < right->step ? -1 : 1;
    return left->start_ns < right->start_ns ? -1 : left->start_ns > right->start_ns;
}

/* Lays the steps end to end. Returns false where they are too long together. */
static bool close_gaps(struct item *items, size_t count) {
    qsort(items, count, sizeof *items, compare_steps);
    int64_t shift = 0, last_ns = 0;
    for (size_t i = 0; i < count;) {
        size_t next = i;
        int64_t end_ns = items[i].end_ns;
        shift = i == 0 ? 0 : items[i].start_ns - last_ns;
        for (; next < count && items[next].step == items[i].step; next++) {
            end_ns = items[next].end_ns > end_ns ? items[next].end_ns : end_ns;
            items[next].start_ns -= shift;
            items[next].end_ns -= shift;
        }
        last_ns = end_ns - shift;
        i = next;
        if (last_ns > INT64_MAX / 2)
            return false;
    }
    return true;
}

static int compare_ranks(const void *a, const void *b) {
    const struct item *left = a, *right = b;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    return compare_steps(a, b);
}

/* How many of these ends, in order, lie at or before `at`. */
static size_t ended_by(const int64_t *ends, size_t count, int64_t at) {
    size_t low = 0;
    while (low < count) {
        size_t middle = (low + count) / 2;
        if (ends[middle] <= at)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* The ends of one rank and step, in order: of everything, and of work alone. */
struct ends {
    int64_t *all, *work;
    size_t count, work_count;
};

/* Work that ends within SLACK_NS after the start of what follows it had really ended by then; so had the communication
 * that work follows. Before that, entry is the last end of anything; of work, which nothing was trimmed from, only its
 * start. */
static int64_t entry_time(const struct ends *ends, const struct item *item) {
    bool work = item->call >= LOCAL_WORK;
    int64_t latest = item->start_ns + SLACK_NS < item->end_ns ? item->start_ns + SLACK_NS : item->end_ns - 1;
    const int64_t *near = work ? ends->all : ends->work;
    size_t last = ended_by(near, work ? ends->count : ends->work_count, latest);
    if (last > 0 && near[last - 1] >= item->start_ns)
        return near[last - 1];
    last = ended_by(ends->all, ends->count, item->start_ns);
    return !work && last > 0 ? ends->all[last - 1] : item->start_ns;
}

/* `room` is for twice the items. */
static void rebuild_entries(struct item *items, size_t count, int64_t *room) {
    struct ends ends = {.all = room, .work = room + count};
    for (size_t i = 0; i < count; i++) {
        ends.all[ends.count++] = items[i].end_ns;
        if (items[i].call >= LOCAL_WORK && items[i].known)
            ends.work[ends.work_count++] = items[i].end_ns;
    }
    sort_int64(ends.all, ends.count);
    sort_int64(ends.work, ends.work_count);
    for (size_t i = 0; i < count; i++)
        items[i].enter_ns = entry_time(&ends, &items[i]);
}

static const char *rebuild(struct imported_timeline *timeline) {
    if (!close_gaps(timeline->items, timeline->item_count))
        return "steps that are years long";
    int64_t *ends = malloc((2 * timeline->item_count + 1) * sizeof *ends);
    if (!ends)
        return strerror(ENOMEM);
    qsort(timeline->items, timeline->item_count, sizeof *timeline->items, compare_ranks);
    for (size_t i = 0; i < timeline->item_count;) {
        size_t next = i;
        while (next < timeline->item_count && timeline->items[next].rank == timeline->items[i].rank &&
               timeline->items[next].step == timeline->items[i].step)
            next++;
        rebuild_entries(timeline->items + i, next - i, ends);
        i = next;
    }
    free(ends);
    return NULL;
}

/* ---- operations ------------------------------------------------------------------------------ */

struct grid {
    int32_t data, pipeline, tensor;
};

static struct grid grid_of(const struct imported_timeline *timeline, int32_t rank) {
    return (struct grid){.tensor = rank % timeline->tensor,
                         .data = rank / timeline->tensor % timeline->data,
                         .pipeline = rank / timeline->tensor / timeline->data};
}

/* The communicator of an operation, SIZE_MAX where memory is short. `members` has room for the world. */
static size_t make_communicator(const struct imported_timeline *timeline, struct trace *trace,
                                enum operation_scope scope, struct grid at, int32_t *members) {
    char name[96];
    uint32_t count = 0;
    switch (scope) {
    case SCOPE_TENSOR:
        for (int32_t t = 0; t < timeline->tensor; t++)
            members[count++] = rank_at(timeline, at.data, at.pipeline, t);
        snprintf(name, sizeof name, "tensor-parallel, dp %d pp %d", (int)at.data, (int)at.pipeline);
        break;
    case SCOPE_DATA:
        for (int32_t d = 0; d < timeline->data; d++)
            members[count++] = rank_at(timeline, d, at.pipeline, at.tensor);
        snprintf(name, sizeof name, "data-parallel, pp %d tp %d", (int)at.pipeline, (int)at.tensor);
        break;
    case SCOPE_ENDS:
        members[count++] = rank_at(timeline, at.data, 0, at.tensor);
        if (timeline->pipeline > 1)
            members[count++] = rank_at(timeline, at.data, timeline->pipeline - 1, at.tensor);
        snprintf(name, sizeof name, "embedding, dp %d tp %d", (int)at.data, (int)at.tensor);
        break;
    case SCOPE_WORLD:
        for (int32_t rank = 0; rank < trace->world_size; rank++)
            members[count++] = rank;
        snprintf(name, sizeof name, "world");
        break;
    default:
        for (int32_t p = 0; p < timeline->pipeline; p++)
            members[count++] = rank_at(timeline, at.data, p, at.tensor);
        snprintf(name, sizeof name, "pipeline, dp %d tp %d", (int)at.data, (int)at.tensor);
    }
    return trace_communicator(trace, name, members, count);
}

/* Tells operations of one communicator apart: 2^16 of a kind in a step. Both ends of a message have the same. */
static uint64_t item_order(const struct item *item, bool message) {
    return ((uint64_t)item->step << 24 | (message ? 0 : item->call)) << 16 | (item->seq & 0xffff);
}

static bool make_work(struct trace *trace, const struct item *item) {
    struct trace_event event = {.enter_ns = item->enter_ns,
                                .leave_ns = item->end_ns,
                                .bytes = BYTES_UNKNOWN,
                                .communicator = COMM_NONE,
                                .seq = SEQ_NONE,
                                .rank = item->rank,
                                .peer = PEER_NONE,
                                .tag = TAG_NONE,
                                .call = (uint16_t)item->call,
                                .state = TRACE_FINISHED,
                                .timed = true};
    trace->work_count++;
    return trace_add(trace, &event);
}

/* The same, remembered per rank and scope: `known` has room for SCOPES of each rank, index + 1. */
static size_t communicator_of(const struct imported_timeline *timeline, struct trace *trace, enum operation_scope scope,
                              int32_t rank, int32_t *members, uint32_t *known) {
    uint32_t *index = &known[(size_t)rank * SCOPES + scope];
    if (*index == 0) {
        size_t made = make_communicator(timeline, trace, scope, grid_of(timeline, rank), members);
        if (made == SIZE_MAX || !limits_ranks(trace->limits, trace->seen_count, trace->communicator_count))
            return SIZE_MAX;
        *index = (uint32_t)made + 1;
    }
    return *index - 1;
}

static bool make_events(struct imported_timeline *timeline, struct trace *trace) {
    int32_t *members = malloc((size_t)trace->world_size * sizeof *members);
    uint32_t *known = calloc((size_t)trace->world_size * SCOPES, sizeof *known);
    bool done = members && known;
    for (size_t i = 0; done && i < timeline->item_count; i++) {
        const struct item *item = &timeline->items[i];
        if (item->rank < 0 || !item->known)
            continue;
        if (item->call >= LOCAL_WORK) {
            done = make_work(trace, item);
            continue;
        }
        struct grid at = grid_of(timeline, item->rank);
        enum operation_scope scope = places[item->call].scope;
        size_t communicator = communicator_of(timeline, trace, scope, item->rank, members, known);
        struct trace_event event = {.enter_ns = item->enter_ns,
                                    .leave_ns = item->end_ns,
                                    .order = item_order(item, scope == SCOPE_NEXT || scope == SCOPE_PREVIOUS),
                                    .bytes = BYTES_UNKNOWN,
                                    .communicator = (uint32_t)communicator,
                                    .rank = item->rank,
                                    .peer = PEER_NONE,
                                    .tag = places[item->call].tag,
                                    .stack = item->stack,
                                    .call = (uint16_t)item->call,
                                    .state = TRACE_FINISHED,
                                    .timed = true};
        if (scope == SCOPE_NEXT)
            event.peer = (at.pipeline + 1) % timeline->pipeline;
        else if (scope == SCOPE_PREVIOUS)
            event.peer = (at.pipeline + timeline->pipeline - 1) % timeline->pipeline;
        done = communicator != SIZE_MAX && trace_add(trace, &event);
    }
    free(members);
    free(known);
    return done;
}

static const char *finish(void *state, struct trace *trace, size_t *dropped) {
    struct imported_timeline *timeline = state;
    const char *refused = find_degrees(timeline);
    if (refused)
        return refused;
    *trace = (struct trace){.limits = timeline->limits,
                            .format = import_timeline.name,
                            .calls = calls,
                            .call_count = CALLS,
                            .order_by_time = true};
    if (timeline->no_memory || !place_items(timeline, trace))
        return strerror(ENOMEM);
    refused = rebuild(timeline);
    if (!refused && !make_events(timeline, trace))
        refused = strerror(ENOMEM);
    *dropped = timeline->dropped;
    trace->stacks = timeline->stacks;
    timeline->stacks = (struct trace_stacks){0};
    return refused;
}

const struct import_format import_timeline = {
    .name = "pipeline time line",
    .begin = begin,
    .piece = piece,
    .document = document,
    .finish = finish,
    .end = end,
};
