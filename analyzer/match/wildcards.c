/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/wildcards.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/load/rows.h"

struct receive {
    uint32_t comm;
    int32_t peer, tag;
    uint32_t op;
    bool unknown; /* its ordinal is to be found */
    bool probed;  /* taken by a matched probe */
};

struct receives {
    struct receive *items;
    size_t count;
    bool unknown;  /* any */
    uint32_t lane; /* of the last of them, posted or complete; LANE_NONE: none yet */
    bool threads;  /* that several threads posted them is possible */
    bool unseen;   /* one took a message that nobody can tell: its request was freed */
};

#define LANE_NONE UINT32_MAX

static bool can_be_numbered(const struct dump *dump) {
    if (!dump_records_complete(dump))
        return false;
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        struct pending pending;
        if (pending_read(dump, &dump->pending[i], &pending) && pending.flags & FLAG_RECV)
            return false;
    }
    for (uint32_t l = 0; l < dump->lane_count; l++) /* cheap to know: most jobs receive nothing at all */
        for (uint32_t i = 0; i < dump->lanes[l].operation_count; i++) {
            const struct call_name *call = dump_call(dump, dump->lanes[l].operations[i].call);
            if (call && (call->call_class == CLASS_RECV || call->call_class == CLASS_SENDRECV))
                return true;
        }
    return false;
}

static bool add_receive(struct receives *receives, const struct dump *dump, const struct record *record) {
    if (!grow_list(receives->items, receives->count))
        return false;
    const struct call_name *call = dump_call(dump, record->call);
    bool unknown = (record->flags & FLAG_ORDINAL_UNKNOWN) != 0;
    receives->items[receives->count++] =
        (struct receive){.comm = record->comm,
                         .peer = record->peer,
                         .tag = record->tag,
                         .op = record->op,
                         .unknown = unknown,
                         .probed = call && (strstr(call->name, "Mrecv") || strstr(call->name, "Imrecv"))};
    receives->unknown |= unknown;
    return true;
}

/* Two threads that post at the same moment get their numbers in another order than MPI takes their receives. One whose
 * records lie in one lane, which no other wrote at the same time, posted one after the other. */
static void note_thread(struct receives *receives, const struct dump *dump, uint32_t lane) {
    const struct lane_state *state = dump->lanes[lane].state;
    receives->threads |= !state || state->shared || (receives->lane != LANE_NONE && receives->lane != lane);
    receives->lane = lane;
}

/* A probe, and a call that prepares a persistent receive, is no operation: it has no number and takes nothing. */
static bool took_a_message(const struct record *record) {
    return (record->kind == RECORD_CALL || record->kind == RECORD_DONE) && record->flags & FLAG_RECV &&
           !(record->flags & (FLAG_CANCELLED | FLAG_FAILED)) && record->op != 0;
}

static bool list_receives(struct receives *receives, const struct dump *dump) {
    bool done = true;
    receives->lane = LANE_NONE;
    for (uint32_t lane = 0; done && lane < dump->lane_count; lane++) {
        struct record_cursor cursor;
        if (!record_cursor_begin(&cursor, dump, lane))
            return false;
        for (const struct record *record; done && (record = record_cursor_next(&cursor)) != NULL;) {
            if (record->flags & FLAG_RECV)
                note_thread(receives, dump, lane);
            if (!took_a_message(record))
                continue;
            receives->unseen |= record->peer == PEER_ANY || (record->peer >= 0 && record->tag == TAG_ANY);
            if (record->peer >= 0)
                done = add_receive(receives, dump, record);
        }
        record_cursor_end(&cursor);
    }
    return done;
}

/* By channel, then in the order of posting. */
static int compare_receives(const void *a, const void *b) {
    const struct receive *left = a, *right = b;
    if (left->comm != right->comm)
        return left->comm < right->comm ? -1 : 1;
    if (left->peer != right->peer)
        return left->peer < right->peer ? -1 : 1;
    if (left->tag != right->tag)
        return left->tag < right->tag ? -1 : 1;
    return left->op < right->op ? -1 : left->op > right->op;
}

static bool same_channel(const struct receive *a, const struct receive *b) {
    return a->comm == b->comm && a->peer == b->peer && a->tag == b->tag;
}

static int compare_ops(const void *a, const void *b) {
    const struct wildcard_ordinal *left = a, *right = b;
    return left->op < right->op ? -1 : left->op > right->op;
}

static void number_channel(struct wildcards *wildcards, const struct receive *receives, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (receives[i].probed || (i > 0 && receives[i].op == receives[i - 1].op))
            return;
    for (size_t i = 0; i < count; i++)
        if (receives[i].unknown)
            wildcards->items[wildcards->count++] = (struct wildcard_ordinal){receives[i].op, (uint32_t)i};
}

bool wildcards_number(struct wildcards *wildcards, const struct dump *dump) {
    struct receives receives = {0};
    *wildcards = (struct wildcards){0};
    if (!can_be_numbered(dump))
        return true;
    bool done = list_receives(&receives, dump);
    bool ordered = !receives.unseen && (!(dump->header->state & STATE_THREAD_MULTIPLE) || !receives.threads);
    if (done && receives.unknown && ordered) {
        qsort(receives.items, receives.count, sizeof *receives.items, compare_receives);
        wildcards->items = malloc(receives.count * sizeof *wildcards->items);
        done = wildcards->items != NULL;
        for (size_t first = 0, end; done && first < receives.count; first = end) {
            for (end = first + 1; end < receives.count && same_channel(&receives.items[first], &receives.items[end]);)
                end++;
            number_channel(wildcards, &receives.items[first], end - first);
        }
        if (wildcards->count > 1)
            qsort(wildcards->items, wildcards->count, sizeof *wildcards->items, compare_ops);
    }
    free(receives.items);
    return done;
}

void wildcards_free(struct wildcards *wildcards) {
    free(wildcards->items);
    *wildcards = (struct wildcards){0};
}

uint32_t wildcards_ordinal(const struct wildcards *wildcards, uint32_t op) {
    size_t low = 0, high = wildcards->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (wildcards->items[middle].op == op)
            return wildcards->items[middle].ordinal;
        if (wildcards->items[middle].op < op)
            low = middle + 1;
        else
            high = middle;
    }
    return SEQ_NONE;
}
