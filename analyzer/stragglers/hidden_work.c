/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/hidden_work.h"

#include <stddef.h>

void hidden_work_posted(struct hidden_work *work, uint32_t op, int64_t at_ns) {
    work->posted = op;
    for (size_t i = 0; i < HIDDEN_WORK_OPERATIONS; i++) {
        struct hidden_operation *operation = &work->operations[i];
        if (op > operation->op && at_ns < operation->end_ns)
            operation->ahead = true;
    }
}

static const struct hidden_operation *find(const struct hidden_work *work, uint32_t op) {
    for (size_t i = 0; i < HIDDEN_WORK_OPERATIONS; i++)
        if (work->operations[i].op == op && op)
            return &work->operations[i];
    return NULL;
}

/* From `at` on: the end of an operation of another communicator that runs then, which may be what held the stream up,
 * else `at`. */
static int64_t past_others(const struct hidden_work *work, uint32_t comm, int64_t at) {
    for (size_t i = 0; i < HIDDEN_WORK_OPERATIONS; i++) {
        const struct hidden_operation *other = &work->operations[i];
        if (other->op && other->comm != comm && other->begin_ns <= at && other->end_ns > at)
            return other->end_ns;
    }
    return at;
}

/* When the next operation of another communicator begins, at most `to`. */
static int64_t next_other(const struct hidden_work *work, uint32_t comm, int64_t at, int64_t to) {
    for (size_t i = 0; i < HIDDEN_WORK_OPERATIONS; i++) {
        const struct hidden_operation *other = &work->operations[i];
        if (other->op && other->comm != comm && other->begin_ns > at && other->begin_ns < to)
            to = other->begin_ns;
    }
    return to;
}

/* What of an operation's time before `to` no operation of another communicator shares. */
static int64_t alone_ns(const struct hidden_work *work, const struct hidden_operation *operation, int64_t to) {
    int64_t at = operation->begin_ns, sum = 0;
    while (at < to) {
        int64_t free = past_others(work, operation->comm, at);
        if (free > at) {
            at = free;
            continue;
        }
        int64_t until = next_other(work, operation->comm, at, to);
        sum += until - at;
        at = until;
    }
    return sum;
}

/* The waits for an operation are enqueued later than it, and may come to a stream long after its end, which then says
 * nothing of what the stream did: not where the host had nothing else to enqueue until the operation had ended. */
static void settle(struct hidden_work *work, const struct hidden_operation *awaited, int64_t at_ns,
                   hidden_work_taker take, void *context) {
    uint32_t op = awaited->op, comm = awaited->comm;
    for (size_t i = 0; i < HIDDEN_WORK_OPERATIONS; i++) {
        struct hidden_operation *operation = &work->operations[i];
        if (!operation->op || operation->comm != comm || operation->op > op || operation->awaited)
            continue;
        operation->awaited = true;
        bool over = at_ns >= operation->end_ns;
        int64_t hidden = over && !operation->ahead ? 0 : alone_ns(work, operation, over ? operation->end_ns : at_ns);
        if (hidden > 0)
            take(context, operation->begin_ns, hidden);
    }
}

void hidden_work_launched(struct hidden_work *work, const struct hidden_operation *operation, hidden_work_taker take,
                          void *context) {
    struct hidden_operation *kept = &work->operations[work->next];
    *kept = *operation;
    kept->ahead = work->posted > operation->op;
    work->next = (work->next + 1) % HIDDEN_WORK_OPERATIONS;
    for (size_t i = 0; i < HIDDEN_WORK_WAITS; i++)
        if (work->waits[i].op == operation->op && operation->op) {
            work->waits[i].op = 0;
            settle(work, kept, work->waits[i].at_ns, take, context);
        }
}

void hidden_work_reached(struct hidden_work *work, uint32_t op, int64_t at_ns, hidden_work_taker take, void *context) {
    const struct hidden_operation *awaited = find(work, op);
    if (!awaited) {
        work->waits[work->next_wait] = (struct hidden_wait){at_ns, op};
        work->next_wait = (work->next_wait + 1) % HIDDEN_WORK_WAITS;
    } else if (!awaited->awaited) {
        settle(work, awaited, at_ns, take, context);
    }
}
