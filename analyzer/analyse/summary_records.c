/* SPDX-License-Identifier: Apache-2.0
 *
 * A summary of a part of the job's time, from the records that are still there.
 * Lives here: which records make a call, as the shim counts them in its tables.
 * Must not live here: sums (summary.c), which records lie in the time asked for (scope.h).
 *
 * One call is: a CALL record (the second half of a Sendrecv is what the call before it received); a DONE record, with
 * the posting time of its POST; a POST without one: never seen complete; a POST of NCCL's: the host's share, without a
 * time inside a group; a GPU or KERNEL record: the same operation on the device, an entry of its own.
 */
#include <stdlib.h>

#include "analyzer/analyse/summary_build.h"

enum source summary_source(const struct record *record) {
    return record->kind == RECORD_GPU      ? SOURCE_GPU_EVENT
           : record->kind == RECORD_KERNEL ? SOURCE_IN_KERNEL
                                           : SOURCE_HOST;
}

static bool is_nccl(const struct dump *dump, const struct record *record) {
    const struct call_name *call = dump_call(dump, record->call);
    return call && call->api == API_NCCL;
}

bool summary_is_timed(const struct dump *dump, const struct record *record) {
    if (record->flags & (FLAG_RECEIVE_HALF | FLAG_UNOBSERVED) || record->t1 < record->t0)
        return false;
    if (record->kind == RECORD_POST) /* NCCL's: the host's share of an operation; of a group only the group has it */
        return is_nccl(dump, record) && record->tag == TAG_NONE;
    return record->kind == RECORD_CALL || record->kind == RECORD_DONE || record->kind == RECORD_GROUP ||
           record->kind == RECORD_GPU || record->kind == RECORD_KERNEL;
}

/* A posted operation whose completion is looked for. */
struct posted {
    uint32_t op, comm, stack;
    uint16_t call;
    bool done;
    uint64_t bytes, ticks; /* inside the posting call */
};

struct taking {
    struct summary_build *build;
    const struct dump *dump;
    struct posted *posted; /* by op */
    size_t count;
    struct summary_group *before; /* of the CALL record before, NULL = left out */
    uint32_t before_op;
};

static int compare_posted(const void *a, const void *b) {
    const struct posted *left = a, *right = b;
    return (left->op > right->op) - (left->op < right->op);
}

static struct posted *find_posted(const struct taking *taking, uint32_t op) {
    const struct posted key = {.op = op};
    return taking->count ? bsearch(&key, taking->posted, taking->count, sizeof key, compare_posted) : NULL;
}

static bool note_posted(struct taking *taking, const struct record *record) {
    if ((taking->count & (taking->count - 1)) == 0) {
        struct posted *larger = realloc(taking->posted, (taking->count ? 2 * taking->count : 1) * sizeof *larger);
        if (!larger)
            return false;
        taking->posted = larger;
    }
    taking->posted[taking->count++] = (struct posted){.op = record->op,
                                                      .comm = record->comm,
                                                      .stack = record->stack,
                                                      .call = record->call,
                                                      .bytes = record->bytes,
                                                      .ticks = record->t1 - record->t0};
    return true;
}

static bool is_posted(const struct dump *dump, const struct record *record) {
    return record->kind == RECORD_POST && !is_nccl(dump, record) && record->t1 >= record->t0;
}

static bool find_all_posted(struct taking *taking, const struct scope *scope, size_t d) {
    struct scope_walk walk;
    bool enough_memory = true;
    scope_walk_begin(&walk, scope, taking->dump, d);
    for (const struct record *record; enough_memory && (record = scope_walk_next(&walk));)
        enough_memory = !is_posted(taking->dump, record) || note_posted(taking, record);
    scope_walk_end(&walk);
    if (taking->count > 0)
        qsort(taking->posted, taking->count, sizeof *taking->posted, compare_posted);
    return enough_memory && !walk.no_memory;
}

/* The ticks inside the call that posted what a record tells of. */
static uint64_t posting_ticks(const struct taking *taking, const struct record *record) {
    if (record->kind == RECORD_POST)
        return record->t1 - record->t0;
    struct posted *posted = record->kind == RECORD_DONE ? find_posted(taking, record->op) : NULL;
    if (!posted)
        return 0;
    posted->done = true;
    return posted->ticks;
}

/* A record as the row of a table with one call. */
static bool add_call(struct taking *taking, const struct record *record) {
    bool timed = summary_is_timed(taking->dump, record);
    uint64_t time = timed ? record->t1 - record->t0 : 0;
    struct operation_row row = {.call = record->call,
                                .source = summary_source(record),
                                .comm_epoch = record->comm < ROW_COMM_NONE ? record->comm : ROW_COMM_NONE,
                                .bytes = record->bytes,
                                .count = 1,
                                .bytes_total = record->bytes == BYTES_UNKNOWN ? 0 : record->bytes,
                                .time_total = time,
                                .time_min = time,
                                .time_max = time,
                                .untimed = !timed,
                                .posting_total = posting_ticks(taking, record),
                                .failed = (record->flags & FLAG_FAILED) != 0,
                                .posted_size = (record->flags & FLAG_BYTES_POSTED) != 0};
    struct summary_group *group;
    if (!summary_add_row(taking->build, taking->dump, NULL, &row, record->stack, &group))
        return false;
    taking->before = group;
    taking->before_op = record->op;
    if (!group || !timed || taking->build->samples >= SUMMARY_SAMPLES_MAX)
        return true;
    taking->build->samples++;
    return summary_add_sample(group, summary_ns(taking->dump, row.source, time), 1);
}

static bool take(struct taking *taking, const struct record *record) {
    if (record->flags & FLAG_RECEIVE_HALF) {
        if (taking->before && taking->before_op == record->op && record->bytes != BYTES_UNKNOWN)
            taking->before->entry.received_bytes += record->bytes;
        return true;
    }
    bool call = record->kind == RECORD_CALL || record->kind == RECORD_DONE || record->kind == RECORD_GROUP ||
                record->kind == RECORD_GPU || record->kind == RECORD_KERNEL ||
                (record->kind == RECORD_POST && is_nccl(taking->dump, record));
    return !call || record->t1 < record->t0 || add_call(taking, record);
}

static bool take_dump(struct summary_build *build, const struct scope *scope, const struct dump *dump, size_t d) {
    struct taking taking = {.build = build, .dump = dump};
    struct scope_walk walk;
    bool enough_memory = summary_enter(build, dump, d) && find_all_posted(&taking, scope, d);
    scope_walk_begin(&walk, scope, dump, d);
    for (const struct record *record; enough_memory && (record = scope_walk_next(&walk));)
        enough_memory = take(&taking, record);
    scope_walk_end(&walk);
    for (size_t i = 0; i < taking.count && enough_memory; i++)
        if (!taking.posted[i].done)
            enough_memory = summary_add_incomplete(build, dump, taking.posted[i].call, taking.posted[i].comm,
                                                   taking.posted[i].bytes, taking.posted[i].stack);
    free(taking.posted);
    return enough_memory && !walk.no_memory;
}

bool summary_take_records(struct summary_build *build, const struct dump_set *set, const struct scope *scope) {
    bool enough_memory = true;
    for (size_t d = 0; d < set->count && enough_memory; d++)
        if (summary_counts(build, set, d))
            enough_memory = take_dump(build, scope, set->dumps[d], d);
    return enough_memory;
}
