/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/profile/recorded_calls.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"

static enum source record_source(const struct record *record) {
    return record->kind == RECORD_GPU      ? SOURCE_GPU_EVENT
           : record->kind == RECORD_KERNEL ? SOURCE_IN_KERNEL
                                           : SOURCE_HOST;
}

static bool is_nccl(const struct dump *dump, const struct record *record) {
    const struct call_name *call = dump_call(dump, record->call);
    return call && call->api == API_NCCL;
}

static bool record_is_timed_call(const struct dump *dump, const struct record *record) {
    if (record->flags & (FLAG_RECEIVE_HALF | FLAG_UNOBSERVED) || record->t1 < record->t0)
        return false;
    if (record->kind == RECORD_POST) /* NCCL's: the host's share of an operation */
        return is_nccl(dump, record);
    return record->kind == RECORD_CALL || record->kind == RECORD_DONE || record->kind == RECORD_GROUP ||
           record->kind == RECORD_GPU || record->kind == RECORD_KERNEL;
}

/* ---- posted operations ----------------------------------------------------------------------- */

struct posted {
    uint32_t op;
    bool done;
    struct recorded_call call;
};

struct call_taking {
    const struct dump *dump;
    struct posted *posted; /* by op */
    size_t count;
    uint64_t posted_t0, posted_t1; /* of the last posting call */
    struct recorded_call held;     /* told when it is known what it received */
    bool holds;
    uint32_t held_op;
    bool (*take)(void *context, const struct recorded_call *call);
    void *context;
};

static int compare_posted(const void *a, const void *b) {
    const struct posted *left = a, *right = b;
    return (left->op > right->op) - (left->op < right->op);
}

static bool note_posted(struct call_taking *taking, const struct record *record) {
    bool same_call = taking->count > 0 && record->t0 == taking->posted_t0 && record->t1 == taking->posted_t1;
    if (!grow_list(taking->posted, taking->count))
        return false;
    taking->posted_t0 = record->t0;
    taking->posted_t1 = record->t1;
    taking->posted[taking->count++] =
        (struct posted){.op = record->op,
                        .call = {.call = record->call,
                                 .count = 1,
                                 .comm = record->comm,
                                 .stack = record->stack,
                                 .bytes = record->bytes,
                                 .source = SOURCE_HOST,
                                 .started = (record->flags & FLAG_STARTED) != 0,
                                 .in_flight = true,
                                 .incomplete = true,
                                 .posting_known = true,
                                 .posting_ticks = same_call || record->t1 < record->t0 ? 0 : record->t1 - record->t0}};
    return true;
}

static bool find_posted(struct call_taking *taking, const struct scope *scope, size_t d) {
    struct scope_walk walk;
    bool enough_memory = true;
    scope_walk_begin(&walk, scope, taking->dump, d);
    for (const struct record *record; enough_memory && (record = scope_walk_next(&walk));)
        if (record->kind == RECORD_POST && !(record->flags & FLAG_RECEIVE_HALF) && !is_nccl(taking->dump, record))
            enough_memory = note_posted(taking, record);
    scope_walk_end(&walk);
    if (taking->count > 0)
        qsort(taking->posted, taking->count, sizeof *taking->posted, compare_posted);
    return enough_memory && !walk.no_memory;
}

/* Adds the ticks inside the call that posted what a record tells of. */
static void add_posting(const struct call_taking *taking, const struct record *record, struct recorded_call *call) {
    const struct posted key = {.op = record->op};
    struct posted *posted = record->kind == RECORD_DONE && taking->count > 0
                                ? bsearch(&key, taking->posted, taking->count, sizeof key, compare_posted)
                                : NULL;
    if (posted)
        posted->done = true;
    call->posting_known = posted || record->kind == RECORD_POST;
    call->posting_ticks = posted                        ? posted->call.posting_ticks
                          : record->kind == RECORD_POST ? record->t1 - record->t0
                                                        : 0;
}

/* ---- the walk -------------------------------------------------------------------------------- */

static bool tell_held(struct call_taking *taking) {
    bool holds = taking->holds;
    taking->holds = false;
    return !holds || taking->take(taking->context, &taking->held);
}

static bool is_call(const struct dump *dump, const struct record *record) {
    bool kind = record->kind == RECORD_CALL || record->kind == RECORD_DONE || record->kind == RECORD_GROUP ||
                record->kind == RECORD_GPU || record->kind == RECORD_KERNEL ||
                (record->kind == RECORD_POST && is_nccl(dump, record));
    return kind && record->t1 >= record->t0;
}

/* A send and a receive that belong together are one operation. */
static uint64_t operations_of(const struct dump *dump, const struct record *record) {
    const struct call_name *call = dump_call(dump, record->call);
    uint32_t parts = record_parts(record);
    return call && call->call_class == CLASS_GROUP && parts > 1 ? parts / 2 : parts;
}

static bool take_record(struct call_taking *taking, const struct record *record) {
    if (record->flags & FLAG_RECEIVE_HALF) {
        if (taking->holds && taking->held_op == record->op && record->bytes != BYTES_UNKNOWN)
            taking->held.received_bytes = record->bytes;
        return true;
    }
    if (!is_call(taking->dump, record))
        return true;
    if (!tell_held(taking))
        return false;
    bool timed = record_is_timed_call(taking->dump, record);
    uint32_t parts = record_parts(record);
    taking->held =
        (struct recorded_call){.call = record->call,
                               .comm = record->comm,
                               .stack = record->stack,
                               .count = operations_of(taking->dump, record),
                               .bytes = record->bytes == BYTES_UNKNOWN ? BYTES_UNKNOWN : record->bytes / parts,
                               .source = record_source(record),
                               .timed = timed,
                               .replay = record_is_device(record) && record->flags & FLAG_CAPTURED,
                               .failed = (record->flags & FLAG_FAILED) != 0,
                               .posted_size = (record->flags & FLAG_BYTES_POSTED) != 0,
                               .share = record_is_share(record),
                               .started = (record->flags & FLAG_STARTED) != 0,
                               .in_flight = record->kind == RECORD_DONE,
                               .ticks = timed ? record->t1 - record->t0 : 0};
    add_posting(taking, record, &taking->held);
    taking->held_op = record->op;
    taking->holds = true;
    return true;
}

bool recorded_calls(const struct scope *scope, const struct dump *dump, size_t d,
                    bool (*take)(void *context, const struct recorded_call *call), void *context) {
    struct call_taking taking = {.dump = dump, .take = take, .context = context};
    struct scope_walk walk;
    bool done = find_posted(&taking, scope, d);
    scope_walk_begin(&walk, scope, dump, d);
    for (const struct record *record; done && (record = scope_walk_next(&walk));)
        done = take_record(&taking, record);
    scope_walk_end(&walk);
    done = done && !walk.no_memory && tell_held(&taking);
    for (size_t i = 0; i < taking.count && done; i++)
        done = taking.posted[i].done || take(context, &taking.posted[i].call);
    free(taking.posted);
    return done;
}
