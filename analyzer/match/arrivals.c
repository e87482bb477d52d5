/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/arrivals.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"

void arrivals_free(struct arrivals *arrivals) {
    free(arrivals->bytes);
    *arrivals = (struct arrivals){0};
}

/* Where so many more bytes go, NULL when memory is short. */
static void *extend(struct arrivals *arrivals, size_t bytes) {
    if (arrivals->no_memory || !grow_to(arrivals->bytes, arrivals->room, arrivals->end + bytes)) {
        arrivals->no_memory = true;
        return NULL;
    }
    arrivals->end += bytes;
    return arrivals->bytes + arrivals->end - bytes;
}

static void make_room(struct arrivals *arrivals) {
    size_t left = arrivals->end - arrivals->begin;
    if (arrivals->begin < left) /* not worth moving it */
        return;
    if (left > 0)
        memcpy(arrivals->bytes, arrivals->bytes + arrivals->begin, left);
    arrivals->begin = 0;
    arrivals->end = left;
}

void arrivals_begin_batch(struct arrivals *arrivals, const struct arrival_turn *turn) {
    make_room(arrivals);
    arrivals->batch = arrivals->end;
    struct arrival_batch *batch = extend(arrivals, sizeof *batch);
    if (batch)
        *batch = (struct arrival_batch){.turn = *turn};
}

void arrivals_add(struct arrivals *arrivals, enum arrival_kind kind, const void *item, size_t bytes) {
    size_t padded = (bytes + 7) & ~(size_t)7;
    struct arrival *arrival = extend(arrivals, sizeof *arrival + padded);
    if (!arrival)
        return;
    *arrival = (struct arrival){.kind = kind, .bytes = (uint32_t)padded};
    memcpy(arrival + 1, item, bytes);
}

void arrivals_end_batch(struct arrivals *arrivals, uint32_t taken) {
    if (arrivals->no_memory)
        return;
    struct arrival_batch *batch = (void *)(arrivals->bytes + arrivals->batch);
    batch->taken = taken;
    batch->bytes = arrivals->end - arrivals->batch - sizeof *batch;
    arrivals->batches++;
}

void arrivals_pop(struct arrivals *arrivals) {
    arrivals->begin += sizeof(struct arrival_batch) + arrivals_front(arrivals)->bytes;
    arrivals->batches--;
}

bool arrivals_append(struct arrivals *arrivals, const char *bytes, size_t count, size_t batches) {
    make_room(arrivals);
    char *at = count > 0 ? extend(arrivals, count) : NULL;
    if (at)
        memcpy(at, bytes, count);
    arrivals->batches += batches;
    return !arrivals->no_memory;
}

void arrivals_clear(struct arrivals *arrivals) {
    arrivals->begin = arrivals->end = arrivals->batches = 0;
}

void arrivals_move(struct arrivals *to, struct arrivals *from) {
    if (to->batches == 0) { /* the usual case: nothing need be copied */
        struct arrivals emptied = *to;
        arrivals_clear(&emptied);
        *to = *from;
        *from = emptied;
        return;
    }
    if (from->batches > 0)
        arrivals_append(to, from->bytes + from->begin, arrivals_bytes(from), from->batches);
    arrivals_clear(from);
}
