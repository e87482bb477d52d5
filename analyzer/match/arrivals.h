/* SPDX-License-Identifier: Apache-2.0
 *
 * What the worker that reads a dump tells the workers that pair.
 * Lives here: queues of parts of collectives and halves of messages, in batches as they were read. They hold no
 * pointers: a queue can be copied as it is to wherever it is wanted.
 * Must not live here: reading records (match.c), what belongs together (pairing.h).
 *
 * Batches have one order among all dumps: by the moment at which each begins, then by dump. Whoever pairs takes them in
 * that order, from all queues that lead to it, and so comes to the same result whichever worker read what.
 */
#ifndef COMMTAP_MATCH_ARRIVALS_H
#define COMMTAP_MATCH_ARRIVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/base/cache_lines.h"

enum arrival_kind {
    ARRIVAL_PART,   /* struct channel_arrival */
    ARRIVAL_PASSED, /* struct channel_passed */
    ARRIVAL_HALF,   /* struct message_half, of a message */
    ARRIVAL_SENT,   /* the same, of one between GPUs: to the worker of its sender's dump */
    ARRIVAL_NEED,   /* the same, of what is needed in an epoch among groups */
};

struct arrival {
    uint32_t kind;  /* enum arrival_kind */
    uint32_t bytes; /* of what follows, a multiple of 8 */
};

/* When a batch's turn is. */
struct arrival_turn {
    int64_t front; /* common ns; INT64_MAX: never */
    uint32_t dump;
};

struct arrival_batch {
    struct arrival_turn turn;
    uint32_t taken; /* records that were read */
    uint64_t bytes; /* of the arrivals that follow */
};

/* All zero is an empty queue. */
struct arrivals {
    ON_OWN_LINES char *bytes;
    size_t begin, end, room; /* what is there: bytes[begin] to bytes[end] */
    size_t batch;            /* where the batch begins that is being added */
    size_t batches;          /* that are there */
    bool no_memory;          /* something that was added is missing */
};

static inline bool arrival_turn_before(const struct arrival_turn *a, const struct arrival_turn *b) {
    return a->front != b->front ? a->front < b->front : a->dump < b->dump;
}

void arrivals_free(struct arrivals *arrivals);

/* Adds a batch: between these two calls its arrivals. Memory that is short shows in `no_memory`. */
void arrivals_begin_batch(struct arrivals *arrivals, const struct arrival_turn *turn);
void arrivals_add(struct arrivals *arrivals, enum arrival_kind kind, const void *item, size_t bytes);
void arrivals_end_batch(struct arrivals *arrivals, uint32_t taken);

/* What is there, from the oldest batch on: `batches` of them, so many bytes from bytes[begin] on. To be added behind
 * another queue's, or all to be dropped. Returns false when memory is short. */
static inline size_t arrivals_bytes(const struct arrivals *arrivals) {
    return arrivals->end - arrivals->begin;
}
bool arrivals_append(struct arrivals *arrivals, const char *bytes, size_t count, size_t batches);
void arrivals_clear(struct arrivals *arrivals);

/* Takes all batches out of `from` and adds them behind those of `to`. Memory that is short shows in `to`. */
void arrivals_move(struct arrivals *to, struct arrivals *from);

/* The oldest batch, NULL where there is none; and taking it out, which keeps it readable until one is added. */
static inline const struct arrival_batch *arrivals_front(const struct arrivals *arrivals) {
    return arrivals->begin < arrivals->end ? (const void *)(arrivals->bytes + arrivals->begin) : NULL;
}
void arrivals_pop(struct arrivals *arrivals);

/* The batch's arrivals, one after the other: the first after NULL, and NULL after the last. */
static inline const struct arrival *arrival_next(const struct arrival_batch *batch, const struct arrival *last) {
    const char *first = (const char *)(batch + 1), *at = last ? (const char *)(last + 1) + last->bytes : first;
    return at < first + batch->bytes ? (const void *)at : NULL;
}

#endif
