/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/histories.h"

#include <stdlib.h>

#include "analyzer/base/hash.h"

/* A collective of one rank. */
struct numbered {
    uint32_t communicator, seq;
    uint64_t signature;
};

static bool is_collective(const struct trace *trace, const struct trace_event *event) {
    /* what is left over of operations that had ended has gaps, and parts of a launch may be lost */
    bool tells = event->state != TRACE_FINISHED || (event->signature != 0 && !trace->only_open);
    return event->communicator < trace->communicator_count && tells &&
           trace->calls[event->call].call_class == CLASS_COLLECTIVE;
}

/* One rank's first numbers raise those of all; `own` is room for them. */
static void take_rank(const struct trace *trace, size_t from, size_t to, uint32_t *own, uint32_t *first) {
    for (size_t i = from; i < to; i++)
        own[trace->events[i].communicator < trace->communicator_count ? trace->events[i].communicator : 0] = UINT32_MAX;
    for (size_t i = from; i < to; i++) {
        const struct trace_event *event = &trace->events[i];
        if (is_collective(trace, event) && event->seq < own[event->communicator])
            own[event->communicator] = event->seq;
    }
    for (size_t i = from; i < to; i++) {
        uint32_t communicator = trace->events[i].communicator;
        if (is_collective(trace, &trace->events[i]) && own[communicator] > first[communicator])
            first[communicator] = own[communicator];
    }
}

uint32_t *histories_begin(const struct trace *trace) {
    uint32_t *first = calloc(trace->communicator_count + 1, sizeof *first);
    uint32_t *own = calloc(trace->communicator_count + 1, sizeof *own);
    for (size_t from = 0, to; first && own && from < trace->event_count; from = to) {
        for (to = from + 1; to < trace->event_count && trace->events[to].rank == trace->events[from].rank; to++)
            ;
        take_rank(trace, from, to, own, first);
    }
    if (!own) {
        free(first);
        first = NULL;
    }
    free(own);
    return first;
}

static int compare_numbers(const void *a, const void *b) {
    const struct numbered *left = a, *right = b;
    if (left->communicator != right->communicator)
        return left->communicator < right->communicator ? -1 : 1;
    return left->seq < right->seq ? -1 : left->seq > right->seq;
}

/* h_k is that of the first k collectives, numbers 0 .. k - 1. */
static void note_hash(struct progress *row, uint64_t k, uint64_t hash) {
    row->hashed = k;
    row->prefix_hash = hash;
    row->recent[k % PROGRESS_RECENT] = hash;
    if (k % 64 == 0)
        row->every[k / 64 % PROGRESS_EVERY] = hash;
    if (k > 0 && (k & (k - 1)) == 0 && k >> PROGRESS_POWERS == 0)
        row->powers[63 - __builtin_clzll(k)] = hash;
}

static void chain(struct progress *row, uint64_t uid, uint32_t first, const struct numbered *items, size_t count) {
    uint64_t hash = uid ? uid : 1; /* 0 is that of an unknown history */
    for (size_t i = 0; i < count; i++) {
        if (items[i].seq < first)
            continue;
        if (items[i].signature == 0 || (row->hashed > 0 ? items[i].seq != row->hashed : items[i].seq != first))
            return;
        if (row->hashed == 0)
            note_hash(row, first, hash);
        hash = hash_mix(hash, items[i].signature);
        note_hash(row, items[i].seq + UINT64_C(1), hash ? hash : 1);
    }
}

bool histories_fill(const struct trace *trace, const uint32_t *first, const struct trace_event *events, size_t count,
                    struct progress *rows) {
    size_t collectives = 0;
    struct numbered *items = malloc((count + 1) * sizeof *items);
    if (!items)
        return false;
    for (size_t i = 0; i < count; i++)
        if (is_collective(trace, &events[i]))
            items[collectives++] = (struct numbered){events[i].communicator, events[i].seq, events[i].signature};
    qsort(items, collectives, sizeof *items, compare_numbers);
    for (size_t i = 0, end; i < collectives; i = end) {
        uint32_t communicator = items[i].communicator;
        for (end = i + 1; end < collectives && items[end].communicator == communicator; end++)
            ;
        chain(&rows[communicator], trace->communicators[communicator].uid, first[communicator], &items[i], end - i);
    }
    free(items);
    return true;
}
