/* SPDX-License-Identifier: Apache-2.0
 *
 * Two generations of one hash table: what was in the old one when it is thrown away is given up.
 */
#include "analyzer/match/messages.h"

HASH_TABLE_OF(halves, struct message_half, struct message_key);

struct taken_key {
    uint32_t communicator, from, to;
};

/* When the receiver began its last receives of a channel. */
struct taken {
    struct taken_key key;
    uint32_t count;
    int64_t enter[TAKEN_KEPT]; /* a ring */
};

HASH_TABLE_OF(taken_table, struct taken, struct taken_key);

void messages_init(struct messages *messages, uint64_t interval) {
    *messages = (struct messages){.turn_at = interval, .interval = interval};
}

void messages_free(struct messages *messages, struct match_totals *totals) {
    totals->halves_alone += messages->young.count + messages->old.count;
    hash_table_free(&messages->young);
    hash_table_free(&messages->old);
    hash_table_free(&messages->taken);
}

void messages_walked(struct messages *messages, uint64_t records, struct match_totals *totals) {
    if (records < messages->turn_at)
        return;
    totals->halves_alone += messages->old.count;
    hash_table_free(&messages->old);
    messages->old = messages->young;
    messages->young = (struct hash_table){0};
    messages->turn_at = records + messages->interval;
}

static struct taken_key channel_of(const struct message_half *half) {
    return (struct taken_key){half->key.communicator, half->key.from, half->key.to};
}

static bool note_taken(struct messages *messages, const struct message_half *half) {
    if (!half->device || half->send)
        return true;
    struct taken_key key = channel_of(half);
    struct taken *taken = taken_table_add(&messages->taken, &key);
    if (taken)
        taken->enter[taken->count++ % TAKEN_KEPT] = half->member.enter;
    return taken != NULL;
}

/* The receive whose beginning the send's end followed: the last one before it, as far as the clocks can tell. */
static int64_t find_release(const struct messages *messages, const struct message_half *send,
                            const struct message_half *receive) {
    const struct match_member *sent = &send->member;
    struct taken_key key = channel_of(send);
    const struct taken *taken = send->device && receive->device && sent->leave < receive->member.enter
                                    ? taken_table_find(&messages->taken, &key)
                                    : NULL;
    int64_t released = MATCH_ABSENT, until = add_ns(sent->leave, add_ns(send->error, receive->error));
    for (uint32_t i = 0; taken && i < TAKEN_KEPT && i < taken->count; i++)
        if (taken->enter[i] <= until && taken->enter[i] > released)
            released = taken->enter[i];
    int64_t back = released < sent->leave ? released : sent->leave;
    return released > sent->enter && message_over_soon(sent->enter, back, sent->leave) ? released : MATCH_ABSENT;
}

static void hand_out_message(const struct messages *messages, const struct message_half *a,
                             const struct message_half *b, const struct match_sink *sink, void *state,
                             struct match_totals *totals) {
    const struct message_half *send = a->send ? a : b, *receive = a->send ? b : a;
    totals->messages++;
    if (!sink->message)
        return;
    struct match_message message = {.communicator = a->key.communicator,
                                    .from = a->key.from,
                                    .to = a->key.to,
                                    .tag = a->key.tag,
                                    .ordinal = a->key.ordinal,
                                    .from_dump = send->dump,
                                    .to_dump = receive->dump,
                                    .synchronous = send->synchronous,
                                    .device = send->device && receive->device,
                                    .bytes = send->bytes != BYTES_UNKNOWN ? send->bytes : receive->bytes,
                                    .send = send->member,
                                    .receive = receive->member,
                                    .released = find_release(messages, send, receive)};
    sink->message(state, &message);
}

/* 1 handed out, 0 not there, -1 the same half twice: damage, or a dump that is not what it says. */
static int meet(const struct messages *messages, struct hash_table *table, const struct message_half *half,
                const struct match_sink *sink, void *state, struct match_totals *totals) {
    const struct message_half *other = halves_find(table, &half->key);
    if (!other)
        return 0;
    if (other->send == half->send)
        return -1;
    hand_out_message(messages, other, half, sink, state, totals);
    halves_remove(table, &half->key);
    return 1;
}

bool messages_arrive(struct messages *messages, const struct message_half *half, const struct match_sink *sink,
                     void *state, struct match_totals *totals) {
    if (!note_taken(messages, half))
        return false;
    int met = meet(messages, &messages->young, half, sink, state, totals);
    if (met == 0)
        met = meet(messages, &messages->old, half, sink, state, totals);
    totals->halves_alone += met < 0;
    if (met != 0)
        return true;
    struct message_half *kept = halves_add(&messages->young, &half->key);
    if (kept)
        *kept = *half;
    return kept != NULL;
}
