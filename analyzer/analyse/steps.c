/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of steps.h. One rank's records are in memory at a time.
 */
#include "analyzer/analyse/steps.h"

#include <stdlib.h>

#include "analyzer/analyse/grow.h"
#include "analyzer/match/stream.h"

#define BYTES_ORDERED ((UINT64_C(1) << 47) - 1)
enum { OPERATIONS_MAX = 1 << 22 }; /* of one rank; later ones are left out */
enum { MARK_LEVEL = 100 };         /* MPI_Pcontrol from here on marks steps (README) */

enum part_kind {
    PART_OTHER = 0, /* collectives, sends */
    PART_RECEIVE,
    PART_WAIT,            /* becomes one of the above by what it completed */
    PART_EXPOSED,         /* a stream waited: the part of device communication that nothing hid */
    PART_EXPOSED_RECEIVE, /* ... for receives alone */
    PART_WORK,            /* no communication: work that an imported time line names */
};

/* One stretch of communication. */
struct part {
    int64_t from, to;
    enum part_kind kind;
    uint32_t op; /* PART_EXPOSED: what was waited for */
};

struct operation {
    uint64_t symbol;
    uint64_t order; /* how much it is wanted as an anchor; the same for its counterparts on other ranks */
    int64_t enter, leave;
    uint64_t bytes, comm;
    uint32_t seq;    /* on its communicator, SEQ_NONE where it is no collective */
    uint32_t number; /* of a collective on its communicator, 0 = none */
    uint32_t op;     /* of the launch, where it ran on a GPU */
    uint16_t call;
    bool counted; /* the figures are about it */
    bool receive;
    bool reduction; /* of all members, by all members */
};

struct completion {
    int64_t at;
    bool receive;
    size_t receives; /* of the completions up to this one, once they are sorted */
};

/* Where a launch ran. */
struct launch {
    uint32_t op;
    int64_t from, to;
};

/* Where a step begins. */
struct start {
    int64_t at;
    uint64_t comm; /* of the collective that begins it */
    uint32_t seq;  /* its number there, the same on all members; SEQ_NONE: it is no collective */
};

struct walk {
    const struct common_clock *clock;
    const struct step_marker *marker;
    const struct filter *counted; /* what the figures are about, NULL = all */
    struct filter anchor;         /* of the marker */
    size_t dump;
    struct operation *operations;
    size_t operation_count, operation_room;
    struct part *parts;
    size_t part_count, part_room;
    struct completion *completions;
    size_t completion_count, completion_room;
    struct launch *launches;
    size_t launch_count, launch_room;
    struct start *starts; /* of steps, by a marker or an anchor */
    size_t start_count, start_room;
    int64_t last_ns;
    bool device, no_memory;
    bool stream_waits; /* recorded on this rank: what nothing hides is known */
    bool own_work;     /* likewise: what is neither work nor communication is idle */
};

#define GROW(w, items, count, room)                                                                                    \
    (grow_for_one((void **)&(w)->items, (w)->count, &(w)->room, sizeof *(w)->items) || !((w)->no_memory = true))

static uint64_t combine(uint64_t h, uint64_t value) {
    h = (h ^ value) * UINT64_C(0xbf58476d1ce4e5b9);
    return h ^ (h >> 29);
}

/* ---- records --------------------------------------------------------------------------------- */

/* Partners count by their distance: the same place in a step has the same symbol on every rank of a pipeline. */
static uint64_t symbol_of(const struct record *record, uint64_t uid) {
    uint64_t h = combine(UINT64_C(0x9e3779b97f4a7c15), record->call);
    h = combine(h, uid);
    h = combine(h, record->bytes);
    h = combine(h, (uint64_t)record->dtype << 8 | record->redop);
    h = combine(h, (uint32_t)record->peer);
    return combine(h, record->stack);
}

/* Small ones first: a step tends to end in a loss or a norm of a few bytes. Nothing in it is a rank's own. */
static uint64_t order_of(const struct record *record, const struct call_name *call, uint64_t uid) {
    uint64_t h = combine(combine(UINT64_C(0x9e3779b97f4a7c15), uid), record->redop), bytes = record->bytes;
    for (const char *c = call->name; *c; c++)
        h = combine(h, (unsigned char)*c);
    return (bytes < BYTES_ORDERED ? bytes : BYTES_ORDERED) << 16 | (h >> 48);
}

/* True when the figures are about it: steps are found from all operations. */
static bool is_counted(const struct walk *w, const struct record *record, const struct call_name *call) {
    const struct filter *counted = w->counted;
    const struct dump_communicator *c =
        counted && counted->comm ? dump_communicator(w->clock->dumps[w->dump], record->comm) : NULL;
    return !counted || (filter_op(counted, call->name) &&
                        (!counted->comm || (c && filter_comm(counted, c->definition->uid, c->name))));
}

static void add_operation(struct walk *w, const struct record *record, const struct call_name *call, int64_t enter,
                          int64_t leave, bool counted) {
    const struct dump_communicator *c = dump_communicator(w->clock->dumps[w->dump], record->comm);
    if (w->operation_count == OPERATIONS_MAX || !GROW(w, operations, operation_count, operation_room))
        return;
    w->operations[w->operation_count++] = (struct operation){
        .symbol = symbol_of(record, c ? c->definition->uid : 0),
        .order = order_of(record, call, c ? c->definition->uid : 0),
        .enter = enter,
        .leave = leave,
        .bytes = record->bytes == BYTES_UNKNOWN ? 0 : record->bytes,
        .comm = c ? c->definition->uid : 0,
        .seq = c && record->flags & FLAG_COLLECTIVE && !(record->flags & FLAG_STARTED) ? record->seq : SEQ_NONE,
        .number = record->flags & FLAG_COLLECTIVE && record->seq != SEQ_NONE ? record->seq : 0,
        .op = call->api == API_NCCL && record->tag > 0 ? (uint32_t)record->tag : record->op,
        .call = record->call,
        .counted = counted,
        .receive = call->call_class == CLASS_RECV,
        .reduction = call->call_class == CLASS_COLLECTIVE && call->flow == FLOW_ALL && record->redop != REDOP_NONE,
    };
}

static void add_part(struct walk *w, int64_t from, int64_t to, enum part_kind kind) {
    if (to > from && GROW(w, parts, part_count, part_room))
        w->parts[w->part_count++] = (struct part){.from = from, .to = to, .kind = kind};
}

static void add_start(struct walk *w, int64_t at, const struct operation *anchor) {
    if (GROW(w, starts, start_count, start_room))
        w->starts[w->start_count++] =
            anchor ? (struct start){at, anchor->comm, anchor->seq} : (struct start){.at = at, .seq = SEQ_NONE};
}

static enum part_kind kind_of(const struct call_name *call) {
    if (call->call_class == CLASS_RECV || call->call_class == CLASS_PROBE)
        return PART_RECEIVE;
    return call->call_class == CLASS_WAIT || call->call_class == CLASS_TEST ? PART_WAIT : PART_OTHER;
}

static bool is_communication(const struct call_name *call) {
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

static void add_device_record(struct walk *w, const struct record *record, const struct call_name *call) {
    int64_t from = record_begin(w->clock, w->dump, record), to = record_end(w->clock, w->dump, record);
    if (record->kind == RECORD_EXPOSED) {
        w->stream_waits = true; /* also where it was over at once */
        if (to > from && GROW(w, parts, part_count, part_room))
            w->parts[w->part_count++] = (struct part){from, to, PART_EXPOSED, record->op};
    } else if ((record->kind == RECORD_GPU || record->kind == RECORD_KERNEL) && call) {
        w->device = true;
        if (!(record->flags & FLAG_CAPTURED) && GROW(w, launches, launch_count, launch_room))
            w->launches[w->launch_count++] = (struct launch){record->op, from, to};
        if (is_counted(w, record, call))
            add_part(w, from, to, call->call_class == CLASS_RECV ? PART_RECEIVE : PART_OTHER);
    }
    w->last_ns = to > w->last_ns ? to : w->last_ns;
}

static void add_host_record(struct walk *w, const struct record *record, const struct call_name *call) {
    int64_t t0 = to_common(w->clock, w->dump, record->t0), t1 = to_common(w->clock, w->dump, record->t1);
    w->last_ns = t1 > w->last_ns ? t1 : w->last_ns;
    if (record->kind == RECORD_MARK && w->marker->pcontrol &&
        (w->marker->any_level ? record->tag >= MARK_LEVEL : w->marker->level == record->tag))
        add_start(w, t0, NULL);
    if (!call)
        return;
    if (record->kind == RECORD_DONE) {
        if (is_counted(w, record, call) && GROW(w, completions, completion_count, completion_room))
            w->completions[w->completion_count++] = (struct completion){t1, (record->flags & FLAG_RECV) != 0, 0};
        return;
    }
    if ((record->kind != RECORD_CALL && record->kind != RECORD_POST) || (record->flags & FLAG_RECEIVE_HALF))
        return;
    bool counted = is_counted(w, record, call);
    if (record->kind == RECORD_CALL && call->api == API_TRACE && call->call_class == CLASS_OTHER) {
        w->own_work = true;
        add_part(w, t0, t1, PART_WORK);
    }
    if (is_operation(call))
        add_operation(w, record, call, t0, t1, counted);
    if (counted && is_communication(call) && call->api != API_NCCL) /* NCCL's calls only enqueue: the device tells */
        add_part(w, t0, t1, kind_of(call));
}

static bool read_records(struct walk *w) {
    const struct dump *dump = w->clock->dumps[w->dump];
    struct record_stream stream;
    bool done = record_stream_begin(&stream, dump);
    for (const struct record *record; done && !w->no_memory && (record = record_stream_next(&stream)) != NULL;) {
        const struct call_name *call = dump_call(dump, record->call);
        if (record_is_device(record))
            add_device_record(w, record, call);
        else if (record->kind != RECORD_PROXY && record->kind != RECORD_THREAD)
            add_host_record(w, record, call);
    }
    record_stream_end(&stream);
    return done && !w->no_memory;
}

static int compare_parts(const void *a, const void *b) {
    const struct part *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return (left->to > right->to) - (left->to < right->to);
}

static int compare_completions(const void *a, const void *b) {
    const struct completion *left = a, *right = b;
    return (left->at > right->at) - (left->at < right->at);
}

static int compare_operations(const void *a, const void *b) {
    const struct operation *left = a, *right = b;
    return (left->enter > right->enter) - (left->enter < right->enter);
}

static int compare_launches(const void *a, const void *b) {
    const struct launch *left = a, *right = b;
    return left->op < right->op ? -1 : left->op > right->op;
}

static int compare_starts(const void *a, const void *b) {
    int64_t left = ((const struct start *)a)->at, right = ((const struct start *)b)->at;
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

/* GPU operations happened where they ran, not where they were enqueued. */
static void move_to_device(struct walk *w) {
    sort(w->launches, w->launch_count, sizeof *w->launches, compare_launches);
    for (size_t i = 0; w->launch_count > 0 && i < w->operation_count; i++) {
        struct operation *operation = &w->operations[i];
        const struct launch key = {.op = operation->op};
        const struct launch *launch =
            bsearch(&key, w->launches, w->launch_count, sizeof *w->launches, compare_launches);
        const struct call_name *call = dump_call(w->clock->dumps[w->dump], operation->call);
        if (!launch || !call || call->api != API_NCCL)
            continue;
        operation->enter = launch->from;
        operation->leave = launch->to;
    }
}

/* How many completions were seen until then. */
static size_t completed_until(const struct walk *w, int64_t at) {
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
static void name_waits(struct walk *w) {
    for (size_t i = 0, receives = 0; i < w->completion_count; i++)
        w->completions[i].receives = receives += w->completions[i].receive;
    for (size_t i = 0; i < w->part_count; i++) {
        struct part *part = &w->parts[i];
        if (part->kind != PART_WAIT)
            continue;
        size_t first = completed_until(w, part->from), last = completed_until(w, part->to);
        size_t before = first > 0 ? w->completions[first - 1].receives : 0;
        bool receive = last > first && w->completions[last - 1].receives - before == last - first;
        part->kind = receive ? PART_RECEIVE : PART_OTHER;
    }
}

static int compare_ops(const void *a, const void *b) {
    const struct operation *left = *(struct operation *const *)a, *right = *(struct operation *const *)b;
    return (left->op > right->op) - (left->op < right->op);
}

/* A stream that waited for a launch of receives alone was receiving. */
static bool name_exposed(struct walk *w) {
    const struct operation **by_op = malloc((w->operation_count + 1) * sizeof *by_op);
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

/* ---- steps ----------------------------------------------------------------------------------- */

/* A step begins where the function that the user names begins. */
static void find_anchors(struct walk *w) {
    for (size_t i = 0; w->marker->anchor && i < w->operation_count; i++)
        if (filter_op(&w->anchor, dump_call(w->clock->dumps[w->dump], w->operations[i].call)->name))
            add_start(w, w->operations[i].enter, &w->operations[i]);
}

/* Where all members leave the anchor together, whoever came late. On a GPU the next launch may seem to begin before
 * that by as much as two readings of its clock are off: it belongs to the new step all the same. */
static int64_t step_start(const struct walk *w, size_t anchor) {
    const struct operation *at = &w->operations[anchor], *next = at + 1;
    int64_t off = w->device ? 2 * w->clock->device_error[w->dump] : 0;
    bool early = anchor + 1 < w->operation_count && next->enter > at->enter && next->enter < at->leave &&
                 at->leave - next->enter <= off;
    return early ? next->enter : at->leave;
}

/* Periods are those of the order of the calls; steps go by where the operations ran. */
static bool find_starts(struct walk *w, struct rank_steps *rank) {
    if (w->marker->pcontrol || w->marker->anchor) {
        move_to_device(w);
        find_anchors(w);
        return !w->no_memory;
    }
    uint64_t *symbols = malloc((2 * w->operation_count + 1) * sizeof *symbols), *order = symbols + w->operation_count;
    uint32_t *numbers = malloc((w->operation_count + 1) * sizeof *numbers);
    if (!symbols || !numbers) {
        free(symbols);
        free(numbers);
        return false;
    }
    for (size_t i = 0; i < w->operation_count; i++) {
        symbols[i] = w->operations[i].symbol;
        order[i] = w->operations[i].order;
        numbers[i] = w->operations[i].number;
    }
    bool done = periods_find(&rank->periods, symbols, order, numbers, w->operation_count);
    free(symbols);
    free(numbers);
    move_to_device(w);
    if (!done || rank->periods.step == rank->periods.count)
        return done;
    const struct period *step = &rank->periods.levels[rank->periods.step];
    for (size_t i = 0; i < w->operation_count; i++)
        if (w->operations[i].symbol == step->anchor) {
            rank->anchor = dump_call(w->clock->dumps[w->dump], w->operations[i].call);
            add_start(w, step_start(w, i), &w->operations[i]);
        }
    return !w->no_memory;
}

/* The reduction that moves most bytes in all. */
static uint64_t gradient_symbol(const struct walk *w) {
    uint64_t best = 0, best_bytes = 0;
    enum { TRACKED = 64 };
    struct {
        uint64_t symbol, bytes;
    } sums[TRACKED];
    size_t count = 0;
    for (size_t i = 0; i < w->operation_count; i++) {
        const struct operation *o = &w->operations[i];
        size_t k = 0;
        if (!o->reduction || !o->counted)
            continue;
        while (k < count && sums[k].symbol != o->symbol)
            k++;
        if (k == TRACKED)
            continue;
        if (k == count) {
            sums[k].symbol = o->symbol;
            sums[k].bytes = 0;
            count++;
        }
        sums[k].bytes += o->bytes;
        if (sums[k].bytes > best_bytes) {
            best_bytes = sums[k].bytes;
            best = o->symbol;
        }
    }
    return best;
}

/* What the time of a step is compared with. */
enum cover_kind {
    COVER_COMMUNICATION,
    COVER_NOT_RECEIVING, /* of that, all but receives */
    COVER_EXPOSED,
    COVER_EXPOSED_COLLECTIVE,    /* of that, all but receives */
    COVER_EXPOSED_RECEIVE_OTHER, /* what streams waited for receives, and all other communication */
    COVER_BUSY,                  /* communication, and work that has a name */
    COVERS,
};

/* The union of some parts, as disjoint stretches in their order. */
struct cover {
    struct stretch {
        int64_t from, to;
    } * items;
    size_t count, at; /* stretches before `at` end before any step that is still asked for */
};

static bool is_covered(enum cover_kind cover, enum part_kind part) {
    bool exposed = part == PART_EXPOSED || part == PART_EXPOSED_RECEIVE;
    bool communication = !exposed && part != PART_WORK;
    switch (cover) {
    case COVER_COMMUNICATION:
        return communication;
    case COVER_NOT_RECEIVING:
        return communication && part != PART_RECEIVE;
    case COVER_EXPOSED:
        return exposed;
    case COVER_EXPOSED_COLLECTIVE:
        return part == PART_EXPOSED;
    case COVER_EXPOSED_RECEIVE_OTHER:
        return part == PART_EXPOSED_RECEIVE || (communication && part != PART_RECEIVE);
    default:
        return communication || part == PART_WORK;
    }
}

static bool make_cover(struct cover *cover, const struct walk *w, enum cover_kind kind) {
    *cover = (struct cover){.items = malloc((w->part_count + 1) * sizeof *cover->items)};
    for (size_t i = 0; cover->items && i < w->part_count; i++) {
        const struct part *part = &w->parts[i];
        struct stretch *last = cover->count > 0 ? &cover->items[cover->count - 1] : NULL;
        if (!is_covered(kind, part->kind))
            continue;
        if (!last || part->from > last->to)
            cover->items[cover->count++] = (struct stretch){part->from, part->to};
        else if (part->to > last->to)
            last->to = part->to;
    }
    return cover->items != NULL;
}

/* How much of [from, to) is covered. Asked for one step after the other. */
static int64_t covered(struct cover *cover, int64_t from, int64_t to) {
    int64_t length = 0;
    while (cover->at < cover->count && cover->items[cover->at].to <= from)
        cover->at++;
    for (size_t i = cover->at; i < cover->count && cover->items[i].from < to; i++) {
        const struct stretch *item = &cover->items[i];
        length += (item->to < to ? item->to : to) - (item->from > from ? item->from : from);
    }
    return length;
}

/* What is alone on a GPU is what streams waited for: unknown where no waits are on record, and where only some
 * functions count, by which waits are not told apart. What other communication covers was received by the way in any
 * case. */
static void fill_alone_on_device(const struct walk *w, struct step *step, const int64_t parts[COVERS]) {
    bool known = w->stream_waits && !w->counted;
    int64_t receiving = parts[COVER_COMMUNICATION] - parts[COVER_NOT_RECEIVING];
    step->communication_alone_ns = known ? parts[COVER_EXPOSED] : STEP_UNKNOWN;
    step->collective_alone_ns = known ? parts[COVER_EXPOSED_COLLECTIVE] : STEP_UNKNOWN;
    step->receive_alone_ns = known            ? parts[COVER_EXPOSED_RECEIVE_OTHER] - parts[COVER_NOT_RECEIVING]
                             : receiving == 0 ? 0
                                              : STEP_UNKNOWN;
}

static void fill_alone(const struct walk *w, struct step *step, struct cover *covers) {
    int64_t parts[COVERS];
    for (size_t i = 0; i < COVERS; i++)
        parts[i] = covered(&covers[i], step->start_ns, step->end_ns);
    step->comm_ns = parts[COVER_COMMUNICATION];
    step->communication_alone_ns = parts[COVER_COMMUNICATION];
    step->collective_alone_ns = parts[COVER_NOT_RECEIVING];
    step->receive_alone_ns = parts[COVER_COMMUNICATION] - parts[COVER_NOT_RECEIVING];
    if (w->device)
        fill_alone_on_device(w, step, parts);
    bool idle_known = w->own_work && !w->counted;
    step->idle_ns = idle_known ? step->end_ns - step->start_ns - parts[COVER_BUSY] : STEP_UNKNOWN;
}

static void fill_step(const struct walk *w, struct step *step, struct cover *covers, size_t *operation,
                      uint64_t gradient) {
    fill_alone(w, step, covers);
    int64_t first = STEP_UNKNOWN, sync = STEP_UNKNOWN;
    while (*operation < w->operation_count && w->operations[*operation].enter < step->start_ns)
        ++*operation;
    for (; *operation < w->operation_count && w->operations[*operation].enter < step->end_ns; ++*operation) {
        const struct operation *o = &w->operations[*operation];
        if (!o->counted)
            continue;
        step->operations++;
        if (first == STEP_UNKNOWN)
            first = o->enter;
        if (gradient && o->symbol == gradient)
            sync = o->enter;
    }
    step->first_ns = first != STEP_UNKNOWN ? first - step->start_ns
                     : w->counted          ? STEP_UNKNOWN
                                           : step->end_ns - step->start_ns;
    step->sync_ns = sync == STEP_UNKNOWN || first == STEP_UNKNOWN || sync < first ? STEP_UNKNOWN : sync - first;
    step->tail_ns = sync == STEP_UNKNOWN ? STEP_UNKNOWN : step->end_ns - sync;
}

static bool make_steps(struct walk *w, struct rank_steps *rank) {
    if (w->start_count < 2)
        return true;
    struct cover covers[COVERS] = {0};
    rank->steps = calloc(w->start_count - 1, sizeof *rank->steps);
    bool done = rank->steps != NULL;
    for (int i = 0; done && i < COVERS; i++)
        done = make_cover(&covers[i], w, (enum cover_kind)i);
    uint64_t gradient = gradient_symbol(w);
    size_t operation = 0;
    for (size_t i = 0; done && i + 1 < w->start_count; i++) {
        if (w->starts[i + 1].at <= w->starts[i].at)
            continue;
        struct step *step = &rank->steps[rank->count++];
        *step = (struct step){.number = NO_STEP,
                              .start_ns = w->starts[i].at,
                              .end_ns = w->starts[i + 1].at,
                              .comm = w->starts[i].comm,
                              .seq = w->starts[i].seq,
                              .wait_ns = STEP_UNKNOWN};
        fill_step(w, step, covers, &operation, gradient);
    }
    for (size_t i = 0; i < COVERS; i++)
        free(covers[i].items);
    return done;
}

static bool find_rank(struct walk *w, struct rank_steps *rank) {
    bool done = read_records(w);
    if (done) {
        sort(w->operations, w->operation_count, sizeof *w->operations, compare_operations);
        sort(w->parts, w->part_count, sizeof *w->parts, compare_parts);
        sort(w->completions, w->completion_count, sizeof *w->completions, compare_completions);
        name_waits(w);
        done = name_exposed(w) && find_starts(w, rank);
        sort(w->operations, w->operation_count, sizeof *w->operations, compare_operations);
        sort(w->starts, w->start_count, sizeof *w->starts, compare_starts);
        done = done && make_steps(w, rank);
        rank->operations = w->operation_count;
        rank->device = w->device;
    }
    free(w->operations);
    free(w->parts);
    free(w->completions);
    free(w->launches);
    free(w->starts);
    return done;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int64_t middle_of(const struct step *step) {
    return step->start_ns + (step->end_ns - step->start_ns) / 2;
}

static int compare_collectives(const void *a, const void *b) {
    const struct step *left = *(struct step *const *)a, *right = *(struct step *const *)b;
    if (left->comm != right->comm)
        return left->comm < right->comm ? -1 : 1;
    return (left->seq > right->seq) - (left->seq < right->seq);
}

/* The reference's steps that collectives begin, by those. Returns how many. */
static size_t sort_by_collective(const struct rank_steps *reference, struct step **sorted) {
    size_t count = 0;
    for (size_t i = 0; i < reference->count; i++)
        if (reference->steps[i].seq != SEQ_NONE)
            sorted[count++] = &reference->steps[i];
    if (count > 0)
        qsort(sorted, count, sizeof *sorted, compare_collectives);
    return count;
}

static void number_rank(struct rank_steps *rank, const struct rank_steps *reference, struct step *const *sorted,
                        size_t sorted_count) {
    size_t at = 0;
    for (size_t i = 0; i < rank->count; i++) {
        struct step *step = &rank->steps[i];
        struct step *const *same = step->seq != SEQ_NONE && sorted_count > 0
                                       ? bsearch(&step, sorted, sorted_count, sizeof *sorted, compare_collectives)
                                       : NULL;
        if (same) {
            step->number = (uint32_t)(*same - reference->steps);
            continue;
        }
        int64_t middle = middle_of(step);
        while (at + 1 < reference->count &&
               llabs(middle_of(&reference->steps[at + 1]) - middle) < llabs(middle_of(&reference->steps[at]) - middle))
            at++;
        int64_t length = reference->steps[at].end_ns - reference->steps[at].start_ns;
        if (llabs(middle_of(&reference->steps[at]) - middle) <= length / 2)
            step->number = (uint32_t)at;
    }
}

/* The rank with most steps gives the numbers. Another's step has the number of the one that the same collective begins;
 * where there is none such, of the one its middle lies nearest to, at most half a step away. */
static bool number_steps(struct steps *steps) {
    steps->reference = steps->rank_count;
    for (size_t r = 0; r < steps->rank_count; r++)
        if (steps->ranks[r].count > 0 &&
            (steps->reference == steps->rank_count || steps->ranks[r].count > steps->ranks[steps->reference].count))
            steps->reference = r;
    if (steps->reference == steps->rank_count)
        return true;
    const struct rank_steps *reference = &steps->ranks[steps->reference];
    struct step **sorted = malloc(reference->count * sizeof *sorted);
    if (!sorted)
        return false;
    size_t count = sort_by_collective(reference, sorted);
    steps->count = (uint32_t)reference->count;
    for (size_t r = 0; r < steps->rank_count; r++)
        number_rank(&steps->ranks[r], reference, sorted, count);
    free(sorted);
    return true;
}

bool steps_find_counting(struct steps *steps, const struct common_clock *clock, const struct step_marker *marker,
                         const struct filter *counted) {
    *steps = (struct steps){.ranks = calloc(clock->dump_count, sizeof *steps->ranks), .rank_count = clock->dump_count};
    if (!steps->ranks)
        return false;
    struct filter anchor = {0};
    bool done = !marker->anchor || filter_set_op(&anchor, marker->anchor) == 0;
    bool all = !counted || (!counted->op && !counted->comm);
    for (size_t d = 0; done && d < clock->dump_count; d++) {
        struct walk walk = {.clock = clock,
                            .marker = marker,
                            .counted = all ? NULL : counted,
                            .anchor = anchor,
                            .dump = d,
                            .last_ns = INT64_MIN};
        steps->ranks[d].dump = d;
        done = find_rank(&walk, &steps->ranks[d]);
    }
    filter_free(&anchor);
    return done && number_steps(steps);
}

bool steps_find(struct steps *steps, const struct common_clock *clock, const struct step_marker *marker) {
    return steps_find_counting(steps, clock, marker, NULL);
}

void steps_free(struct steps *steps) {
    for (size_t r = 0; steps->ranks && r < steps->rank_count; r++)
        free(steps->ranks[r].steps);
    free(steps->ranks);
    *steps = (struct steps){0};
}
