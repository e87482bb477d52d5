/* SPDX-License-Identifier: Apache-2.0
 *
 * From one rank's records to operations and stretches of communication.
 * Lives here: which records count as what, what a wait or a stream's wait was for, where launches ran.
 * Must not live here: where steps begin (steps_build.c), figures (steps_figures.c).
 */
#include "analyzer/steps/steps_build.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash.h"
#include "analyzer/match/stream.h"

#define BYTES_ORDERED ((UINT64_C(1) << 47) - 1)
enum { OPERATIONS_MAX = 1 << 22 }; /* of one rank; later ones are left out */

#define GROW(w, items, count, room) (grow_by_one((w)->items, (w)->count, (w)->room) || !((w)->no_memory = true))

/* ---- records --------------------------------------------------------------------------------- */

/* Partners count by their distance: the same place in a step has the same symbol on every rank of a pipeline. */
static uint64_t symbol_of(const struct record *record, uint64_t uid) {
    uint64_t h = hash_mix(UINT64_C(0x9e3779b97f4a7c15), record->call);
    h = hash_mix(h, uid);
    h = hash_mix(h, record->bytes);
    h = hash_mix(h, (uint64_t)record->dtype << 8 | record->redop);
    h = hash_mix(h, (uint32_t)record->peer);
    return hash_mix(h, record->stack);
}

/* Small ones first: a step tends to end in a loss or a norm of a few bytes. Nothing in it is a rank's own. */
static uint64_t wanted_order(const struct record *record, const struct call_name *call, uint64_t uid) {
    uint64_t h = hash_mix(hash_mix(UINT64_C(0x9e3779b97f4a7c15), uid), record->redop), bytes = record->bytes;
    for (const char *c = call->name; *c; c++)
        h = hash_mix(h, (unsigned char)*c);
    return (bytes < BYTES_ORDERED ? bytes : BYTES_ORDERED) << 16 | (h >> 48);
}

/* True when the figures are about it: steps are found from all operations. */
static bool is_counted(const struct step_walk *w, const struct record *record, const struct call_name *call) {
    const struct filter *counted = w->counted;
    const struct dump_communicator *c =
        counted && counted->comm ? dump_communicator(w->clock->dumps[w->dump], record->comm) : NULL;
    return !counted || (filter_op(counted, call->name) && filter_bytes(counted, record->bytes) &&
                        (!counted->comm || (c && filter_comm(counted, c->definition->uid, c->name))));
}

static void add_operation(struct step_walk *w, const struct record *record, const struct call_name *call, int64_t enter,
                          int64_t leave, bool counted) {
    const struct dump_communicator *c = dump_communicator(w->clock->dumps[w->dump], record->comm);
    if (w->operation_count == OPERATIONS_MAX || !GROW(w, operations, operation_count, operation_room))
        return;
    w->operations[w->operation_count++] = (struct step_operation){
        .symbol = symbol_of(record, c ? c->definition->uid : 0),
        .order = wanted_order(record, call, c ? c->definition->uid : 0),
        .enter = enter,
        .leave = leave,
        .before = record_is_device(record) ? STEP_UNKNOWN : w->called_ns,
        .enqueued = STEP_UNKNOWN,
        .bytes = record->bytes == BYTES_UNKNOWN ? 0 : record->bytes,
        .comm = c ? c->definition->uid : 0,
        .seq = c && record->flags & FLAG_COLLECTIVE && !(record->flags & FLAG_STARTED) ? record->seq : SEQ_NONE,
        .number = record->flags & FLAG_COLLECTIVE && record->seq != SEQ_NONE ? record->seq : 0,
        .op = call->api == API_NCCL && record->kind == RECORD_POST && record->tag > 0 ? (uint32_t)record->tag
                                                                                      : record->op,
        .stack = record->stack,
        .call = record->call,
        .counted = counted,
        .receive = call->call_class == CLASS_RECV,
        .reduction = call->call_class == CLASS_COLLECTIVE && call->flow == FLOW_ALL && record->redop != REDOP_NONE,
    };
}

static void add_part(struct step_walk *w, int64_t from, int64_t to, enum part_kind kind) {
    if (to > from && GROW(w, parts, part_count, part_room))
        w->parts[w->part_count++] = (struct step_part){.from = from, .to = to, .kind = kind};
}

void step_walk_add_start(struct step_walk *w, int64_t at, const struct step_operation *anchor) {
    if (GROW(w, starts, start_count, start_room))
        w->starts[w->start_count++] = anchor ? (struct step_start){at, anchor->comm, anchor->seq}
                                             : (struct step_start){.at = at, .seq = SEQ_NONE};
}

static enum part_kind part_kind_of(const struct call_name *call) {
    if (call->call_class == CLASS_RECV || call->call_class == CLASS_PROBE)
        return PART_RECEIVE;
    return call->call_class == CLASS_WAIT || call->call_class == CLASS_TEST ? PART_WAIT : PART_OTHER;
}

static bool is_communication_call(const struct call_name *call) {
    switch (call->call_class) {
    case CLASS_COLLECTIVE:
    case CLASS_SEND:
    case CLASS_RECV:
    case CLASS_SENDRECV:
    case CLASS_WAIT:
    case CLASS_TEST:
    case CLASS_PROBE:
    case CLASS_START:
    case CLASS_RMA:
    case CLASS_RMA_SYNC:
    case CLASS_GROUP:
        return true;
    default:
        return false;
    }
}

static bool is_operation(const struct call_name *call) {
    return call->call_class == CLASS_COLLECTIVE || call->call_class == CLASS_SEND || call->call_class == CLASS_RECV ||
           call->call_class == CLASS_SENDRECV || call->call_class == CLASS_START || call->call_class == CLASS_RMA;
}

/* What a step makes is made again in the next one; what it frees is another communicator in each. */
static bool makes_communicator(const struct record *record, const struct call_name *call) {
    return record_makes_communicator(record, call) && strcmp(call->name, "MPI_Comm_free") != 0 &&
           strcmp(call->name, "MPI_Comm_disconnect") != 0;
}

/* What is captured does not run yet: it does in the replays, which have records of their own. */
static bool is_called_operation(const struct step_walk *w, const struct record *record, const struct call_name *call) {
    return (is_operation(call) || record_is_barrier(record, call) || makes_communicator(record, call)) &&
           !(record->flags & FLAG_CAPTURED && dump_has_device_times(w->clock->dumps[w->dump]));
}

/* Something ran on the GPU. */
static void add_gpu_span(struct step_walk *w, int64_t from, int64_t to, int64_t launched, enum gpu_span_kind kind) {
    if (!w->counted && to > from && GROW(w, gpu_spans, gpu_span_count, gpu_span_room))
        w->gpu_spans[w->gpu_span_count++] = (struct gpu_span){from, to, launched, GPU_NO_STEP, 0, kind};
}

/* When the launch with that number was made: imported traces have its call, or its group's end, right before it. */
static int64_t launch_time(const struct step_walk *w, uint32_t op, int64_t from) {
    bool known = w->posted.op == op && (w->posted.to > w->posted.from || w->posted.from < from);
    return known ? w->posted.from : GPU_LAUNCH_UNKNOWN;
}

/* An operation that a graph replayed was called when it was captured: here it ran. Replays of a captured collective are
 * numbered apart from the communicator's other collectives. */
static void add_replayed(struct step_walk *w, const struct record *record, const struct call_name *call,
                         const struct record_replay *replay) {
    size_t before = w->operation_count;
    if (!record_is_replayed(record) || !is_operation(call))
        return;
    add_operation(w, record, call, record_begin(w->clock, w->dump, record), record_end(w->clock, w->dump, record),
                  is_counted(w, record, call));
    if (w->operation_count == before)
        return;
    struct step_operation *operation = &w->operations[before];
    operation->number = operation->seq == SEQ_NONE ? 0 : replay->number;
    operation->comm = hash_mix(operation->comm, operation->seq);
    operation->seq = operation->number > 0 ? operation->number : SEQ_NONE;
    if (replay->launched_ns > 0)
        operation->enqueued = device_to_common(w->clock, w->dump, replay->launched_ns);
}

static void add_device_record(struct step_walk *w, const struct record *record, const struct call_name *call,
                              const struct record_replay *replay) {
    int64_t from = record_begin(w->clock, w->dump, record), to = record_end(w->clock, w->dump, record);
    if (record->kind == RECORD_EXPOSED) {
        w->stream_waits = true; /* also where it was over at once */
        if (to > from && GROW(w, parts, part_count, part_room))
            w->parts[w->part_count++] = (struct step_part){from, to, PART_EXPOSED, record->op};
    } else if ((record->kind == RECORD_GPU || record->kind == RECORD_KERNEL) && call) {
        w->device = true;
        if (!(record->flags & FLAG_CAPTURED) && GROW(w, launches, launch_count, launch_room))
            w->launches[w->launch_count++] = (struct step_launch){record->op, from, to};
        add_replayed(w, record, call, replay);
        add_gpu_span(w, from, to, launch_time(w, record->op, from), GPU_SPAN_COMMUNICATION);
        if (is_counted(w, record, call))
            add_part(w, from, to, call->call_class == CLASS_RECV ? PART_RECEIVE : PART_OTHER);
    }
    w->last_ns = to > w->last_ns ? to : w->last_ns;
}

static void add_polls(struct step_walk *w, const struct record *record, const struct call_name *call) {
    int64_t from = to_common(w->clock, w->dump, record_polls_since(record)), to = record_end(w->clock, w->dump, record);
    w->last_ns = to > w->last_ns ? to : w->last_ns;
    w->called_ns = to > w->called_ns ? to : w->called_ns;
    if (call && is_counted(w, record, call))
        add_part(w, from, to, part_kind_of(call));
}

/* What a trace names beside operations. Copies hide no communication, and communication of which nobody knows the
 * partners is communication all the same. */
static void add_trace_work(struct step_walk *w, const struct record *record, enum trace_work work, int64_t t0,
                           int64_t t1) {
    int64_t launched = record->seq == SEQ_NONE ? GPU_LAUNCH_UNKNOWN : add_ns(t0, -(int64_t)record->seq * 1000);
    w->own_work |= work == TRACE_WORK_OWN || work == TRACE_WORK_KERNELS;
    w->gpu_work |= work != TRACE_WORK_OWN;
    if (work == TRACE_WORK_COPIES) {
        add_part(w, t0, t1, PART_COPY);
        add_gpu_span(w, t0, t1, launched, GPU_SPAN_COPY);
    } else if (work == TRACE_WORK_NCCL) {
        if (!w->counted)
            add_part(w, t0, t1, PART_OTHER);
        add_gpu_span(w, t0, t1, launched, GPU_SPAN_COMMUNICATION);
    } else {
        add_part(w, t0, t1, PART_WORK);
        if (work == TRACE_WORK_KERNELS)
            add_gpu_span(w, t0, t1, launched, GPU_SPAN_COMPUTE);
    }
}

/* NCCL's calls only enqueue: the device tells what they take. */
static void add_communication(struct step_walk *w, const struct call_name *call, int64_t t0, int64_t t1, bool counted) {
    w->called_ns = t1 > w->called_ns ? t1 : w->called_ns;
    if (counted && call->api != API_NCCL)
        add_part(w, t0, t1, part_kind_of(call));
}

static void add_host_record(struct step_walk *w, const struct record *record, const struct call_name *call) {
    int64_t t0 = to_common(w->clock, w->dump, record->t0), t1 = to_common(w->clock, w->dump, record->t1);
    w->last_ns = t1 > w->last_ns ? t1 : w->last_ns;
    if (record->kind == RECORD_MARK && w->marker->pcontrol &&
        (w->marker->any_level ? record->tag >= STEP_MARK_LEVEL : w->marker->level == record->tag))
        step_walk_add_start(w, t0, NULL);
    if (!call)
        return;
    if (record->kind == RECORD_POST || record->kind == RECORD_GROUP)
        w->posted = (struct step_posted){record->op, t0, t1};
    if (record->kind == RECORD_DONE) {
        if (is_counted(w, record, call) && GROW(w, completions, completion_count, completion_room))
            w->completions[w->completion_count++] = (struct step_completion){t1, (record->flags & FLAG_RECV) != 0, 0};
        return;
    }
    if ((record->kind != RECORD_CALL && record->kind != RECORD_POST) || (record->flags & FLAG_RECEIVE_HALF))
        return;
    bool counted = is_counted(w, record, call);
    if (record->kind == RECORD_CALL && trace_work_of(call) != TRACE_WORK_NONE)
        add_trace_work(w, record, trace_work_of(call), t0, t1);
    if (is_called_operation(w, record, call))
        add_operation(w, record, call, t0, t1, counted);
    if (is_communication_call(call) || record_makes_communicator(record, call))
        add_communication(w, call, t0, t1, counted);
}

static bool read_records(struct step_walk *w) {
    const struct dump *dump = w->clock->dumps[w->dump];
    struct record_stream stream;
    bool done = record_stream_begin(&stream, dump);
    for (const struct record *record; done && !w->no_memory && (record = record_stream_next(&stream)) != NULL;) {
        const struct call_name *call = dump_call(dump, record->call);
        if (record_is_device(record))
            add_device_record(w, record, call, &stream.current->replay);
        else if (record->kind == RECORD_POLL)
            add_polls(w, record, call);
        else if (record->kind != RECORD_PROXY && record->kind != RECORD_THREAD)
            add_host_record(w, record, call);
    }
    record_stream_end(&stream);
    return done && !w->no_memory;
}

static int compare_parts(const void *a, const void *b) {
    const struct step_part *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return (left->to > right->to) - (left->to < right->to);
}

static int compare_completions(const void *a, const void *b) {
    const struct step_completion *left = a, *right = b;
    return (left->at > right->at) - (left->at < right->at);
}

static int compare_operations(const void *a, const void *b) {
    const struct step_operation *left = a, *right = b;
    return (left->enter > right->enter) - (left->enter < right->enter);
}

static int compare_launches(const void *a, const void *b) {
    const struct step_launch *left = a, *right = b;
    return left->op < right->op ? -1 : left->op > right->op;
}

static int compare_starts(const void *a, const void *b) {
    int64_t left = ((const struct step_start *)a)->at, right = ((const struct step_start *)b)->at;
    return (left > right) - (left < right);
}

/* Records come nearly always in their order. */
static void sort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *)) {
    const char *item = items;
    for (size_t i = 1; i < count; i++, item += size)
        if (compare(item, item + size) > 0) {
            qsort(items, count, size, compare);
            return;
        }
}

void step_walk_move_to_device(struct step_walk *w) {
    sort(w->launches, w->launch_count, sizeof *w->launches, compare_launches);
    for (size_t i = 0; w->launch_count > 0 && i < w->operation_count; i++) {
        struct step_operation *operation = &w->operations[i];
        const struct step_launch key = {.op = operation->op};
        const struct step_launch *launch =
            bsearch(&key, w->launches, w->launch_count, sizeof *w->launches, compare_launches);
        const struct call_name *call = dump_call(w->clock->dumps[w->dump], operation->call);
        if (!launch || !call || call->api != API_NCCL)
            continue;
        operation->enqueued = operation->leave;
        operation->enter = launch->from;
        operation->leave = launch->to;
    }
}

/* How many completions were seen until then. */
static size_t completed_until(const struct step_walk *w, int64_t at) {
    size_t low = 0, high = w->completion_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (w->completions[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A wait in which nothing but receives completed was receiving. */
static void name_waits(struct step_walk *w) {
    for (size_t i = 0, receives = 0; i < w->completion_count; i++)
        w->completions[i].receives = receives += w->completions[i].receive;
    for (size_t i = 0; i < w->part_count; i++) {
        struct step_part *part = &w->parts[i];
        if (part->kind != PART_WAIT)
            continue;
        size_t first = completed_until(w, part->from), last = completed_until(w, part->to);
        size_t before = first > 0 ? w->completions[first - 1].receives : 0;
        bool receive = last > first && w->completions[last - 1].receives - before == last - first;
        part->kind = receive ? PART_RECEIVE : PART_OTHER;
    }
}

static int compare_ops(const void *a, const void *b) {
    const struct step_operation *left = *(struct step_operation *const *)a, *right = *(struct step_operation *const *)b;
    return (left->op > right->op) - (left->op < right->op);
}

static bool any_exposed(const struct step_walk *w) {
    for (size_t i = 0; i < w->part_count; i++)
        if (w->parts[i].kind == PART_EXPOSED)
            return true;
    return false;
}

/* A stream that waited for a launch of receives alone was receiving. */
static bool name_exposed(struct step_walk *w) {
    if (!any_exposed(w))
        return true;
    const struct step_operation **by_op = malloc((w->operation_count + 1) * sizeof *by_op);
    for (size_t i = 0; by_op && i < w->operation_count; i++)
        by_op[i] = &w->operations[i];
    if (by_op && w->operation_count > 0)
        qsort(by_op, w->operation_count, sizeof *by_op, compare_ops);
    for (size_t i = 0; by_op && i < w->part_count; i++) {
        if (w->parts[i].kind != PART_EXPOSED)
            continue;
        size_t low = 0, high = w->operation_count;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (by_op[middle]->op < w->parts[i].op)
                low = middle + 1;
            else
                high = middle;
        }
        bool any = false, receives = true;
        for (; low < w->operation_count && by_op[low]->op == w->parts[i].op; low++, any = true)
            receives &= by_op[low]->receive;
        if (any && receives)
            w->parts[i].kind = PART_EXPOSED_RECEIVE;
    }
    free(by_op);
    return by_op != NULL;
}

bool step_walk_read(struct step_walk *w) {
    if (!read_records(w))
        return false;
    sort(w->operations, w->operation_count, sizeof *w->operations, compare_operations);
    sort(w->parts, w->part_count, sizeof *w->parts, compare_parts);
    sort(w->completions, w->completion_count, sizeof *w->completions, compare_completions);
    name_waits(w);
    return name_exposed(w);
}

void step_walk_sort(struct step_walk *w) {
    sort(w->operations, w->operation_count, sizeof *w->operations, compare_operations);
    sort(w->starts, w->start_count, sizeof *w->starts, compare_starts);
}

void step_walk_free(struct step_walk *w) {
    free(w->operations);
    free(w->parts);
    free(w->completions);
    free(w->launches);
    free(w->starts);
    free(w->gpu_spans);
}
