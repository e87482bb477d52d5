/* SPDX-License-Identifier: Apache-2.0
 *
 * Computation that no record tells of, by the waits for communication: of a GPU that is recorded live only
 * communication is on record. A stream that comes to its wait for an operation when that has begun did something else
 * meanwhile. Lives here: the last operations of a rank, and which part of them was hidden behind computation. Must not
 * live here: stretches, other ranks.
 */
#ifndef COMMTAP_STRAGGLERS_HIDDEN_WORK_H
#define COMMTAP_STRAGGLERS_HIDDEN_WORK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HIDDEN_WORK_OPERATIONS =
        64,                /* between an operation's begin and the wait for it: of more the earliest hide nothing */
    HIDDEN_WORK_WAITS = 8, /* for operations that have not begun */
};

struct hidden_operation {
    int64_t begin_ns, end_ns;
    uint32_t op, comm;
    bool ahead;   /* the host enqueued another one before this one had ended */
    bool awaited; /* a stream came to a wait for it, or for a later one of its communicator */
};

struct hidden_wait {
    int64_t at_ns;
    uint32_t op; /* 0: none */
};

/* Takes the overlap of one operation, which began at `begin_ns`, with computation. */
typedef void (*hidden_work_taker)(void *context, int64_t begin_ns, int64_t hidden_ns);

struct hidden_work {
    struct hidden_operation operations[HIDDEN_WORK_OPERATIONS]; /* op 0: none */
    struct hidden_wait waits[HIDDEN_WORK_WAITS];
    unsigned next, next_wait;
    uint32_t posted; /* the last operation that was enqueued so far */
};

/* All in the order in which records begin. `op`, `comm`: as in struct record. */
void hidden_work_posted(struct hidden_work *work, uint32_t op, int64_t at_ns);
void hidden_work_launched(struct hidden_work *work, const struct hidden_operation *operation, hidden_work_taker take,
                          void *context);
/* A stream came to a wait for `op`. Both tell `take` of what no wait told of before. */
void hidden_work_reached(struct hidden_work *work, uint32_t op, int64_t at_ns, hidden_work_taker take, void *context);

#endif
