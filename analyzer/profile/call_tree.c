/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging call sites of all ranks into one tree.
 * Lives here: nodes, entries, sums, the walk over tables and records.
 * Must not live here: pairing (forward_backward_pairs.c), names of addresses, printing.
 */
#include "analyzer/profile/call_tree.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash_table.h"
#include "analyzer/base/statistics.h"
#include "analyzer/profile/forward_backward_pairs.h"
#include "analyzer/profile/recorded_calls.h"
#include "analyzer/waits/site_waits.h"
#include "analyzer/profile/summary.h"
#include "analyzer/load/rows.h"

#define RECORDS_SHOWN_MAX (UINT64_C(1) << 20)
/* Members of communicators that are listed, in all entries together: a definition of 80 bytes may stand for 16 million,
 * and every call site has its own list. As JSON this many take 200 MB. */
#define RANKS_LISTED_MAX (UINT64_C(1) << 22)

/* Where the calls of one (stack, communicator, call) of the dump at hand went. */
struct destination_key {
    uint32_t stack, comm, call;
};

struct destination {
    struct destination_key key;
    struct call_node *node; /* NULL: filtered out */
    size_t entry;
};

HASH_TABLE_OF(destinations, struct destination, struct destination_key);

struct tree_build {
    struct call_tree *tree;
    const struct call_tree_request *request;
    uint64_t records;
    /* of the dump at hand */
    size_t d;
    const struct dump *dump;
    bool from_records;
    struct forward_backward_pairs *pairs;
    struct hash_table destinations;
    struct frames frames;
};

/* ---- nodes ----------------------------------------------------------------------------------- */

static int compare_texts(const char *a, const char *b) {
    if (!a || !b)
        return (a != NULL) - (b != NULL);
    return a == b ? 0 : strcmp(a, b);
}

static int compare_frames(const struct frame *a, const struct frame *b) {
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    int order = compare_texts(a->name, b->name);
    order = order ? order : compare_texts(a->file, b->file);
    return order ? order : compare_texts(a->module, b->module);
}

static struct call_node *new_node(struct call_node *parent, const struct frame *frame) {
    struct call_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->frame = *frame;
    node->parent = parent;
    return node;
}

static struct call_node *child_of(struct call_node *parent, const struct frame *frame) {
    for (size_t i = 0; i < parent->child_count; i++)
        if (compare_frames(&parent->children[i]->frame, frame) == 0)
            return parent->children[i];
    if (!grow_list(parent->children, parent->child_count))
        return NULL;
    struct call_node *node = new_node(parent, frame);
    if (node)
        parent->children[parent->child_count++] = node;
    return node;
}

/* The node that the build's frames lead to. NULL when memory is short. */
static struct call_node *node_of_frames(struct tree_build *build) {
    struct call_node *node = build->tree->root;
    const struct frames *frames = &build->frames;
    const struct frame *nearest = frames_nearest(frames);
    for (size_t i = 0; node && i < frames->count; i++)
        if (build->request->noise >= 2 || !frames->items[i].plumbing || &frames->items[i] == nearest)
            node = child_of(node, &frames->items[i]);
    return node;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* What a call is told by. */
struct call_subject {
    const struct call_name *call;
    const struct dump_communicator *communicator; /* NULL = unknown */
    bool has_comm;
    uint64_t uid;
};

static bool call_subject_of(const struct tree_build *build, uint16_t call, uint32_t comm,
                            struct call_subject *subject) {
    const struct filter *filter = build->request->filter;
    *subject = (struct call_subject){.call = dump_call(build->dump, call)};
    const struct dump_communicator *own = dump_communicator(build->dump, comm);
    if (own) {
        subject->has_comm = true;
        subject->communicator = summary_communicator(build->dump, own, &subject->uid);
    }
    if (!subject->call || !filter_op(filter, subject->call->name))
        return false;
    return !filter->comm ||
           (subject->has_comm &&
            filter_comm(filter, subject->uid, subject->communicator ? subject->communicator->name : ""));
}

static bool same_entry(const struct call_entry *entry, const struct call_subject *subject, enum pass pass,
                       bool inferred) {
    return entry->pass == pass && entry->inferred == inferred && entry->has_comm == subject->has_comm &&
           entry->comm == subject->uid && entry->api == subject->call->api &&
           strcmp(entry->op, subject->call->name) == 0;
}

/* Members of an intercommunicator are those of both groups. 0 = not all of them are in this dump. */
static size_t list_ranks_of(const struct dump_communicator *communicator, int32_t *ranks, size_t capacity) {
    size_t count = dump_communicator_members(communicator, ranks, capacity);
    if (communicator->definition->kind != COMMUNICATOR_INTER)
        return count;
    size_t more = dump_communicator_remote_members(communicator, ranks + count, capacity - count);
    qsort(ranks, count + more, sizeof *ranks, compare_int32);
    return count + more;
}

/* What is told of a communicator comes from the first dump that knows it; of dumps that contradict each other, how
 * many members there are and which ones comes from the same. */
static bool describe_entry(struct tree_build *build, struct call_entry *entry,
                           const struct dump_communicator *communicator) {
    struct call_tree *tree = build->tree;
    if (!communicator)
        return true;
    if (!entry->comm_name[0])
        entry->comm_name = communicator->name;
    uint32_t size = dump_communicator_size(communicator);
    if (entry->comm_size == 0)
        entry->comm_size = size;
    if (entry->ranks || entry->comm_size != size || !dump_communicator_knows_members(communicator))
        return true;
    if (size > RANKS_LISTED_MAX - tree->ranks_listed) {
        tree->ranks_left_out = true;
        return true;
    }
    entry->ranks = malloc(size * sizeof *entry->ranks);
    if (!entry->ranks)
        return false;
    entry->rank_count = (uint32_t)list_ranks_of(communicator, entry->ranks, size);
    tree->ranks_listed += entry->rank_count;
    return true;
}

/* Calls that set things up are of no pass, wherever a framework makes them: only what moves data is, or waits for it.
 */
static bool is_setup(const struct call_name *call) {
    return call->call_class == CLASS_SETUP || call->call_class == CLASS_COMMUNICATOR ||
           call->call_class == CLASS_FILE || call->call_class == CLASS_OTHER;
}

/* An all-to-all of sends and receives is one, too, and so are several that were launched together; a batch of messages
 * is not. */
static bool is_collective(const struct call_name *call) {
    return call->call_class == CLASS_COLLECTIVE ||
           (call->call_class == CLASS_GROUP && call->torch[0] && strcmp(call->torch, "batch_isend_irecv") != 0);
}

/* Index of the entry in node->entries, SIZE_MAX when memory is short. */
static size_t entry_index(struct tree_build *build, struct call_node *node, const struct call_subject *subject,
                          enum pass pass, bool inferred) {
    size_t i = 0;
    while (i < node->entry_count && !same_entry(&node->entries[i], subject, pass, inferred))
        i++;
    if (i == node->entry_count) {
        if (!grow_list(node->entries, node->entry_count))
            return SIZE_MAX;
        node->entries[node->entry_count++] = (struct call_entry){.op = subject->call->name,
                                                                 .api = subject->call->api,
                                                                 .pass = pass,
                                                                 .inferred = inferred,
                                                                 .setup = is_setup(subject->call),
                                                                 .collective = is_collective(subject->call),
                                                                 .has_comm = subject->has_comm,
                                                                 .comm = subject->uid,
                                                                 .comm_name = ""};
    }
    return describe_entry(build, &node->entries[i], subject->communicator) ? i : SIZE_MAX;
}

/* ---- destinations ---------------------------------------------------------------------------- */

/* Finds the node and entry of calls that pass the filter. */
static bool settle_destination(struct tree_build *build, struct destination *destination) {
    struct call_subject subject;
    const struct call_tree_request *request = build->request;
    if (!call_subject_of(build, (uint16_t)destination->key.call, destination->key.comm, &subject))
        return true;
    uint32_t stack = destination->key.stack;
    if (!frames_of(&build->frames, request->symbols, request->skip, build->d, stack))
        return false;
    enum pass pass = is_setup(subject.call) ? PASS_NONE : build->frames.pass;
    uint32_t forward = pass == PASS_BACKWARD && !build->frames.has_python
                           ? forward_backward_pairs_forward(build->pairs, stack, destination->key.comm)
                           : STACK_NONE;
    if (forward != STACK_NONE && !frames_of(&build->frames, request->symbols, request->skip, build->d, forward))
        return false;
    destination->node = node_of_frames(build);
    destination->entry =
        destination->node ? entry_index(build, destination->node, &subject, pass, forward != STACK_NONE) : SIZE_MAX;
    build->tree->passes |= pass != PASS_NONE;
    build->tree->enqueued |= subject.call->api == API_NCCL && subject.call->nonblocking;
    return destination->entry != SIZE_MAX;
}

/* NULL when memory is short. */
static struct destination *destination_of(struct tree_build *build, uint32_t stack, uint32_t comm, uint16_t call) {
    size_t known = build->destinations.count;
    struct destination_key key = {stack, comm, call};
    struct destination *destination = destinations_add(&build->destinations, &key);
    if (!destination || build->destinations.count == known)
        return destination;
    return settle_destination(build, destination) ? destination : NULL;
}

static uint32_t local_comm(uint32_t comm_epoch) {
    uint32_t comm = comm_epoch & ROW_COMM_NONE;
    return comm == ROW_COMM_NONE ? COMM_NONE : comm;
}

static struct call_entry *entry_at(const struct destination *destination) {
    return &destination->node->entries[destination->entry];
}

void call_sums_add(struct call_sums *sum, const struct call_sums *part) {
    sum->count += part->count;
    sum->bytes += part->bytes;
    sum->time_ns += part->time_ns;
    sum->in_flight_ns += part->in_flight_ns;
    sum->gpu_ns += part->gpu_ns;
    sum->gpu_count += part->gpu_count;
    sum->replay_ns += part->replay_ns;
    sum->replay_count += part->replay_count;
    sum->enqueue_ns += part->enqueue_ns;
    sum->wait_ns += part->wait_ns;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static bool add_calls(struct tree_build *build, uint32_t stack, uint32_t comm, uint16_t call, struct call_sums sums) {
    struct destination *destination = destination_of(build, stack, comm, call);
    if (!destination)
        return false;
    if (!destination->node)
        return true;
    struct call_sums *sum = &entry_at(destination)->sums;
    call_sums_add(sum, &sums);
    if (!dump_stack(build->dump, stack))
        build->tree->without_stack += sums.count;
    return true;
}

static struct call_sums sums_of_site(struct tree_build *build, const struct site_row *row, bool device) {
    struct call_sums sums = {.count = row->count, .bytes = row->bytes_total};
    uint64_t ns = device ? row->time_total : (uint64_t)dump_duration_ns(build->dump, row->time_total);
    enum row_time time = device ? ROW_TIME_INSIDE : site_row_time(build->dump, row);
    if (time == ROW_TIME_INSIDE) {
        sums.time_ns = ns;
    } else {
        sums.in_flight_ns = ns;
        sums.time_ns = (uint64_t)dump_duration_ns(build->dump, row->posting_total);
    }
    build->tree->posting_unknown |= time == ROW_TIME_IN_FLIGHT_ALONE;
    return sums;
}

static bool add_lane_sites(struct tree_build *build, const struct dump_lane *lane) {
    bool device = dump_lane_is_device(lane); /* its times are ns */
    if (lane->sites)
        build->tree->sites_lost += lane->state->sites_lost;
    for (uint32_t i = 0; i < lane->site_count; i++) {
        struct site_row row;
        enum row_state state = site_row_read(build->dump, &lane->sites[i], &row);
        if (state == ROW_UNUSED || state == ROW_DAMAGED)
            continue;
        if (!add_calls(build, row.stack, local_comm(row.comm_epoch), row.call, sums_of_site(build, &row, device)))
            return false;
    }
    return true;
}

/* Operations that were posted and not seen complete are calls all the same; those without a stack are in no table of
 * sites either. */
static bool add_pending_sites(struct tree_build *build) {
    for (uint32_t i = 0; i < build->dump->pending_count; i++) {
        struct pending pending;
        if (!pending_read(build->dump, &build->dump->pending[i], &pending) || pending.stack == STACK_NONE)
            continue;
        const struct call_sums sums = {.count = 1,
                                       .bytes = pending.bytes == BYTES_UNKNOWN ? 0 : pending.bytes,
                                       .time_ns = (uint64_t)dump_duration_ns(build->dump, pending.posting_ticks)};
        if (!add_calls(build, pending.stack, pending.comm, pending.call, sums))
            return false;
    }
    return true;
}

/* By stack, the one with the most time first. */
static int compare_destinations(const void *a, const void *b) {
    const struct destination *left = *(struct destination *const *)a, *right = *(struct destination *const *)b;
    if (left->key.stack != right->key.stack)
        return left->key.stack < right->key.stack ? -1 : 1;
    uint64_t left_ns = entry_at(left)->sums.time_ns, right_ns = entry_at(right)->sums.time_ns;
    if (left_ns != right_ns)
        return left_ns > right_ns ? -1 : 1;
    if (left->key.comm != right->key.comm)
        return left->key.comm < right->key.comm ? -1 : 1;
    return (int)left->key.call - (int)right->key.call;
}

/* The waits of a site are known for all its calls together: its entry with the most time has them. */
/* Waits at a call site of the process, on all of its GPUs. */
static uint64_t waits_at(const struct tree_build *build, uint32_t stack) {
    const struct job *job = build->request->job;
    uint64_t sum = 0;
    for (size_t d = build->d; d < job->count && dump_of_process(job->dumps[d]) == build->dump; d++)
        sum += (uint64_t)site_waits_of(build->request->waits, d, stack).wait_ns;
    return sum;
}

static bool add_wait_sums(struct tree_build *build) {
    const struct destination **sorted = malloc((build->destinations.count + 1) * sizeof *sorted);
    size_t count = 0;
    for (size_t i = 0; sorted && i < build->destinations.count; i++)
        if (destinations_items(&build->destinations)[i].node)
            sorted[count++] = &destinations_items(&build->destinations)[i];
    if (count > 0)
        qsort(sorted, count, sizeof *sorted, compare_destinations);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || sorted[i]->key.stack != sorted[i - 1]->key.stack)
            entry_at(sorted[i])->sums.wait_ns += waits_at(build, sorted[i]->key.stack);
    bool enough_memory = sorted != NULL;
    free(sorted);
    return enough_memory;
}

/* ---- records --------------------------------------------------------------------------------- */

static bool add_size(struct call_entry *entry, const struct record *record) {
    for (size_t i = 0; i < entry->size_count; i++)
        if (entry->sizes[i].bytes == record->bytes && entry->sizes[i].dtype == record->dtype) {
            entry->sizes[i].count++;
            return true;
        }
    if (!grow_list(entry->sizes, entry->size_count))
        return false;
    entry->sizes[entry->size_count++] = (struct call_size){record->bytes, record->dtype, 1};
    return true;
}

static bool count_record(struct tree_build *build, const struct destination *destination, const struct record *record) {
    struct call_node *node = destination->node;
    if (build->records >= RECORDS_SHOWN_MAX) {
        build->tree->records_left_out++;
        return true;
    }
    if (!grow_list(node->records, node->record_count))
        return false;
    uint64_t length = record->t1 > record->t0 ? record->t1 - record->t0 : 0;
    node->records[node->record_count++] = (struct call_record){
        .realtime_ns = dump_realtime_ns(build->dump, record->t0),
        .ns = record_is_device(record) ? length : (uint64_t)dump_duration_ns(build->dump, length),
        .bytes = record->bytes,
        .rank = build->dump->header->rank,
        .seq = record->seq,
        .entry = (uint32_t)destination->entry,
        .kind = record->kind,
    };
    build->records++;
    return true;
}

static bool place_record(struct tree_build *build, const struct record *record) {
    bool one_call =
        (record->kind == RECORD_CALL && !(record->flags & FLAG_RECEIVE_HALF)) || record->kind == RECORD_POST;
    bool shown = build->request->noise >= 3 && (one_call || record->kind == RECORD_DONE);
    if ((!one_call && !shown) || record->stack == STACK_NONE || !filter_bytes(build->request->filter, record->bytes))
        return true;
    struct destination *destination = destination_of(build, record->stack, record->comm, record->call);
    if (!destination)
        return false;
    if (!destination->node)
        return true;
    if (one_call && !add_size(entry_at(destination), record))
        return false;
    return !shown || count_record(build, destination, record);
}

static bool add_records(struct tree_build *build) {
    struct scope_walk walk;
    bool enough_memory = true;
    scope_walk_begin(&walk, build->request->scope, build->dump, build->d);
    for (const struct record *record; enough_memory && (record = scope_walk_next(&walk));)
        enough_memory = place_record(build, record);
    scope_walk_end(&walk);
    return enough_memory && !walk.no_memory;
}

/* Whether the calls are counted from records: of a part of the time, and where the tables of call sites are empty and
 * all records are there, as in imported traces. */
static bool counts_records(const struct tree_build *build) {
    const struct dump *dump = build->dump;
    bool sites = false;
    for (uint32_t i = 0; i < dump->lane_count; i++)
        sites |= dump->lanes[i].site_count > 0 && dump->lanes[i].sites[0].version > 0;
    return scope_is_limited(build->request->scope) || (!sites && dump_records_complete(dump));
}

/* A call of a part of the time: counted here, where the tables tell of all of it. A launch is its call's time on the
 * GPU, not a call of its own. */
static bool take_recorded_call(void *context, const struct recorded_call *call) {
    struct tree_build *build = context;
    bool host = call->source == SOURCE_HOST;
    if (!filter_bytes(build->request->filter, call->bytes))
        return true;
    if (call->incomplete && call->stack == STACK_NONE)
        return true;
    if (host && !build->from_records)
        return true;
    uint64_t inside = call->in_flight ? call->posting_ticks : call->ticks;
    struct call_sums sums = {.gpu_count = call->count, .gpu_ns = call->ticks};
    if (call->replay)
        sums = (struct call_sums){.replay_count = call->count, .replay_ns = call->ticks};
    if (host)
        sums = (struct call_sums){.count = 1,
                                  .bytes = call->bytes == BYTES_UNKNOWN ? 0 : call->bytes,
                                  .time_ns = (uint64_t)dump_duration_ns(build->dump, inside)};
    if (host && call->in_flight) {
        sums.in_flight_ns = (uint64_t)dump_duration_ns(build->dump, call->ticks);
        build->tree->posting_unknown |= !call->posting_known;
    }
    return add_calls(build, call->stack, call->comm, call->call, sums);
}

/* ---- one dump -------------------------------------------------------------------------------- */

static bool add_tables(struct tree_build *build) {
    for (uint32_t i = 0; i < build->dump->lane_count; i++)
        if (build->dump->lanes[i].state && !add_lane_sites(build, &build->dump->lanes[i]))
            return false;
    return add_pending_sites(build);
}

static void note_missing_launches(struct tree_build *build) {
    for (uint32_t i = 0; i < build->dump->lane_count; i++)
        if (dump_lane_is_device(&build->dump->lanes[i]))
            build->tree->gpu_partial |= dump_lane_lost(build->dump, i) > 0;
}

static bool add_dump_sites(struct tree_build *build, size_t d) {
    const struct call_tree_request *request = build->request;
    build->d = d;
    build->dump = dump_of_process(request->job->dumps[d]);
    hash_table_clear(&build->destinations);
    build->pairs = forward_backward_pairs_new(request->symbols, request->skip, d);
    bool gpu = dump_has_device_times(build->dump);
    build->from_records = counts_records(build);
    bool enough_memory = build->pairs && (build->from_records || add_tables(build));
    if (enough_memory && (build->from_records || gpu))
        enough_memory = recorded_calls(request->scope, build->dump, d, take_recorded_call, build);
    if (enough_memory && request->waits)
        enough_memory = add_wait_sums(build);
    if (enough_memory && request->noise >= 1)
        enough_memory = add_records(build);
    note_missing_launches(build);
    forward_backward_pairs_free(build->pairs);
    return enough_memory;
}

/* ---- sums and order -------------------------------------------------------------------------- */

/* In the order of the types. */
static bool add_type(struct call_op *op, uint8_t dtype, uint64_t count) {
    size_t at = 0;
    while (at < op->type_count && op->types[at].dtype < dtype)
        at++;
    if (at == op->type_count || op->types[at].dtype != dtype) {
        if (!grow_list(op->types, op->type_count))
            return false;
        memmove(op->types + at + 1, op->types + at, (op->type_count - at) * sizeof *op->types);
        op->types[at] = (struct call_type){dtype, 0};
        op->type_count++;
    }
    op->types[at].count += count;
    return true;
}

static bool add_types_of_sizes(struct call_op *op, const struct call_entry *entry) {
    bool enough_memory = true;
    for (size_t i = 0; enough_memory && i < entry->size_count; i++)
        enough_memory = add_type(op, entry->sizes[i].dtype, entry->sizes[i].count);
    return enough_memory;
}

static bool add_types(struct call_op *op, const struct call_op *part) {
    bool enough_memory = true;
    for (size_t i = 0; enough_memory && i < part->type_count; i++)
        enough_memory = add_type(op, part->types[i].dtype, part->types[i].count);
    return enough_memory;
}

/* The node's sums of the operation that `part` is of, with it. NULL when memory is short. */
static struct call_op *add_op(struct call_node *node, const struct call_op *part) {
    size_t i = 0;
    while (i < node->op_count && (node->ops[i].pass != part->pass || strcmp(node->ops[i].op, part->op) != 0))
        i++;
    if (i == node->op_count) {
        if (!grow_list(node->ops, node->op_count))
            return NULL;
        node->ops[node->op_count++] =
            (struct call_op){.op = part->op, .pass = part->pass, .setup = part->setup, .collective = part->collective};
    }
    node->ops[i].inferred |= part->inferred;
    call_sums_add(&node->ops[i].sums, &part->sums);
    return add_types(&node->ops[i], part) ? &node->ops[i] : NULL;
}

uint64_t call_times(const struct call_sums *sums) {
    return sums->count ? sums->count : sums->gpu_count + sums->replay_count;
}

uint64_t call_time_ns(const struct call_sums *sums) {
    return sums->time_ns - sums->enqueue_ns + sums->gpu_ns;
}

static int compare_nodes(const void *a, const void *b) {
    const struct call_node *left = *(struct call_node *const *)a, *right = *(struct call_node *const *)b;
    uint64_t left_ns = call_time_ns(&left->sums) + left->sums.replay_ns;
    uint64_t right_ns = call_time_ns(&right->sums) + right->sums.replay_ns;
    if (left_ns != right_ns)
        return left_ns > right_ns ? -1 : 1;
    return compare_frames(&left->frame, &right->frame);
}

static int compare_ops(const void *a, const void *b) {
    const struct call_op *left = a, *right = b;
    int order = strcmp(left->op, right->op);
    return order ? order : (int)left->pass - (int)right->pass;
}

static int compare_sizes(const void *a, const void *b) {
    const struct call_size *left = a, *right = b;
    if (left->bytes != right->bytes)
        return left->bytes < right->bytes ? -1 : 1;
    return (int)left->dtype - (int)right->dtype;
}

static int compare_records(const void *a, const void *b) {
    const struct call_record *left = a, *right = b;
    if (left->realtime_ns != right->realtime_ns)
        return left->realtime_ns < right->realtime_ns ? -1 : 1;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->seq != right->seq)
        return left->seq < right->seq ? -1 : 1;
    return (int)left->kind - (int)right->kind;
}

static int compare_entries(const struct call_entry *left, const struct call_entry *right) {
    int order = strcmp(left->op, right->op);
    if (order == 0)
        order = (int)left->pass - (int)right->pass;
    if (order == 0)
        order = left->inferred - right->inferred;
    if (order == 0)
        order = left->has_comm - right->has_comm;
    return order ? order : (left->comm > right->comm) - (left->comm < right->comm);
}

/* Sorts the entries; the records that point to them follow. Few entries: by insertion. */
static bool sort_entries(struct call_node *node) {
    uint32_t *place = malloc((node->entry_count + 1) * sizeof *place),
             *order = malloc((node->entry_count + 1) * sizeof *order);
    if (place && order) {
        for (size_t i = 0; i < node->entry_count; i++)
            order[i] = (uint32_t)i;
        for (size_t i = 1; i < node->entry_count; i++) {
            struct call_entry moving = node->entries[i];
            uint32_t number = order[i];
            size_t at = i;
            for (; at > 0 && compare_entries(&node->entries[at - 1], &moving) > 0; at--) {
                node->entries[at] = node->entries[at - 1];
                order[at] = order[at - 1];
            }
            node->entries[at] = moving;
            order[at] = number;
        }
        for (size_t i = 0; i < node->entry_count; i++)
            place[order[i]] = (uint32_t)i;
        for (size_t i = 0; i < node->record_count; i++)
            node->records[i].entry = place[node->records[i].entry];
    }
    bool enough_memory = place && order;
    free(place);
    free(order);
    return enough_memory;
}

/* Sums and sorts a node whose children are finished: frames.h bounds how deep stacks are. */
static bool finish_node(struct call_node *node) {
    if (!sort_entries(node))
        return false;
    for (size_t i = 0; i < node->entry_count; i++) {
        struct call_entry *entry = &node->entries[i];
        entry->sums.enqueue_ns = entry->sums.gpu_count > 0 ? entry->sums.time_ns : 0;
        if (entry->size_count > 0)
            qsort(entry->sizes, entry->size_count, sizeof *entry->sizes, compare_sizes);
        call_sums_add(&node->sums, &entry->sums);
        struct call_op *op = add_op(node, &(struct call_op){.op = entry->op,
                                                            .pass = entry->pass,
                                                            .inferred = entry->inferred,
                                                            .setup = entry->setup,
                                                            .collective = entry->collective,
                                                            .sums = entry->sums});
        if (!op || !add_types_of_sizes(op, entry))
            return false;
    }
    for (size_t i = 0; i < node->child_count; i++) {
        if (!finish_node(node->children[i]))
            return false;
        call_sums_add(&node->sums, &node->children[i]->sums);
        for (size_t op = 0; op < node->children[i]->op_count; op++)
            if (!add_op(node, &node->children[i]->ops[op]))
                return false;
    }
    if (node->record_count > 0)
        qsort(node->records, node->record_count, sizeof *node->records, compare_records);
    if (node->op_count > 0)
        qsort(node->ops, node->op_count, sizeof *node->ops, compare_ops);
    if (node->child_count > 0)
        qsort(node->children, node->child_count, sizeof *node->children, compare_nodes);
    return true;
}

bool call_tree_build(struct call_tree *tree, const struct call_tree_request *request) {
    *tree = (struct call_tree){.root = new_node(NULL, &(struct frame){.name = "Global", .module = ""})};
    struct tree_build build = {.tree = tree, .request = request};
    bool enough_memory = tree->root != NULL;
    for (size_t d = 0; enough_memory && d < request->job->count; d++)
        if (dump_stands_for_process(request->job->dumps[d]) &&
            filter_rank(request->filter, request->job->dumps[d]->header->rank))
            enough_memory = add_dump_sites(&build, d);
    hash_table_free(&build.destinations);
    frames_free(&build.frames);
    return enough_memory && finish_node(tree->root);
}

static void free_node(struct call_node *node) {
    for (size_t i = 0; i < node->child_count; i++)
        free_node(node->children[i]);
    for (size_t i = 0; i < node->entry_count; i++) {
        free(node->entries[i].ranks);
        free(node->entries[i].sizes);
    }
    for (size_t i = 0; i < node->op_count; i++)
        free(node->ops[i].types);
    free(node->entries);
    free(node->ops);
    free(node->records);
    free(node->children);
    free(node);
}

void call_tree_free(struct call_tree *tree) {
    if (tree->root)
        free_node(tree->root);
    tree->root = NULL;
}
