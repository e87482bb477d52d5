/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of messages.h: two generations of one hash table.
 */
#include "analyzer/match/messages.h"

#include <stdlib.h>

enum { CAPACITY_FIRST = 256 };

uint64_t message_hash(const struct message_half *half) {
    uint64_t h = half->communicator * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ ((uint64_t)half->from << 32 | half->to)) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 29;
    h = (h ^ ((uint64_t)(uint32_t)half->tag << 32 | half->ordinal)) * UINT64_C(0x94d049bb133111eb);
    return h ^ h >> 31;
}

static bool same_message(const struct message_half *a, const struct message_half *b) {
    return a->communicator == b->communicator && a->from == b->from && a->to == b->to && a->tag == b->tag &&
           a->ordinal == b->ordinal;
}

/* Place of the half with that key, or the free place where it would be. */
static size_t find(const struct message_table *table, const struct message_half *half) {
    size_t at = message_hash(half) >> 20 & (table->capacity - 1);
    while (table->used[at] && !same_message(&table->items[at], half))
        at = (at + 1) & (table->capacity - 1);
    return at;
}

static void clear(struct message_table *table) {
    free(table->items);
    free(table->used);
    *table = (struct message_table){0};
}

static bool grow(struct message_table *table) {
    struct message_table larger = {.capacity = table->capacity ? table->capacity * 2 : CAPACITY_FIRST,
                                   .count = table->count};
    larger.items = malloc(larger.capacity * sizeof *larger.items);
    larger.used = calloc(larger.capacity, sizeof *larger.used);
    if (!larger.items || !larger.used) {
        clear(&larger);
        return false;
    }
    for (size_t i = 0; i < table->capacity; i++)
        if (table->used[i]) {
            size_t at = find(&larger, &table->items[i]);
            larger.items[at] = table->items[i];
            larger.used[at] = true;
        }
    clear(table);
    *table = larger;
    return true;
}

/* Frees a place; what was pushed on behind it moves up. */
static void take_out(struct message_table *table, size_t at) {
    size_t mask = table->capacity - 1, hole = at;
    for (size_t i = (at + 1) & mask; table->used[i]; i = (i + 1) & mask) {
        size_t home = message_hash(&table->items[i]) >> 20 & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            table->items[hole] = table->items[i];
            hole = i;
        }
    }
    table->used[hole] = false;
    table->count--;
}

void messages_init(struct messages *messages, uint64_t interval) {
    *messages = (struct messages){.turn_at = interval, .interval = interval};
}

void messages_free(struct messages *messages, struct match_totals *totals) {
    totals->halves_alone += messages->young.count + messages->old.count;
    clear(&messages->young);
    clear(&messages->old);
}

void messages_walked(struct messages *messages, uint64_t records, struct match_totals *totals) {
    if (records < messages->turn_at)
        return;
    totals->halves_alone += messages->old.count;
    clear(&messages->old);
    messages->old = messages->young;
    messages->young = (struct message_table){0};
    messages->turn_at = records + messages->interval;
}

static void hand_out(const struct message_half *a, const struct message_half *b, const struct match_sink *sink,
                     void *state, struct match_totals *totals) {
    const struct message_half *send = a->send ? a : b, *receive = a->send ? b : a;
    totals->messages++;
    if (!sink->message)
        return;
    struct match_message message = {.communicator = a->communicator,
                                    .from = a->from,
                                    .to = a->to,
                                    .tag = a->tag,
                                    .ordinal = a->ordinal,
                                    .from_dump = send->dump,
                                    .to_dump = receive->dump,
                                    .synchronous = send->synchronous,
                                    .bytes = receive->bytes != BYTES_UNKNOWN ? receive->bytes : send->bytes,
                                    .send = send->member,
                                    .receive = receive->member};
    sink->message(state, &message);
}

/* 1 handed out, 0 not there, -1 the same half twice: damage, or a dump that is not what it says. */
static int meet(struct message_table *table, const struct message_half *half, const struct match_sink *sink,
                void *state, struct match_totals *totals) {
    if (table->count == 0)
        return 0;
    size_t at = find(table, half);
    if (!table->used[at])
        return 0;
    if (table->items[at].send == half->send)
        return -1;
    hand_out(&table->items[at], half, sink, state, totals);
    take_out(table, at);
    return 1;
}

bool messages_arrive(struct messages *messages, const struct message_half *half, const struct match_sink *sink,
                     void *state, struct match_totals *totals) {
    int met = meet(&messages->young, half, sink, state, totals);
    if (met == 0)
        met = meet(&messages->old, half, sink, state, totals);
    totals->halves_alone += met < 0;
    if (met != 0)
        return true;
    if (messages->young.count * 2 >= messages->young.capacity && !grow(&messages->young))
        return false;
    size_t at = find(&messages->young, half);
    messages->young.items[at] = *half;
    messages->young.used[at] = true;
    messages->young.count++;
    return true;
}
