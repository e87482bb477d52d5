/* SPDX-License-Identifier: Apache-2.0
 *
 * Two generations of one hash table: what was in the old one when it is thrown away is given up.
 */
#include "analyzer/match/messages.h"

HASH_TABLE_OF(halves, struct message_half, struct message_key);

void messages_init(struct messages *messages, uint64_t interval) {
    *messages = (struct messages){.turn_at = interval, .interval = interval};
}

void messages_free(struct messages *messages, struct match_totals *totals) {
    totals->halves_alone += messages->young.count + messages->old.count;
    hash_table_free(&messages->young);
    hash_table_free(&messages->old);
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

static void hand_out_message(const struct message_half *a, const struct message_half *b, const struct match_sink *sink,
                             void *state, struct match_totals *totals) {
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
                                    .bytes = receive->bytes != BYTES_UNKNOWN ? receive->bytes : send->bytes,
                                    .send = send->member,
                                    .receive = receive->member};
    sink->message(state, &message);
}

/* 1 handed out, 0 not there, -1 the same half twice: damage, or a dump that is not what it says. */
static int meet(struct hash_table *table, const struct message_half *half, const struct match_sink *sink, void *state,
                struct match_totals *totals) {
    const struct message_half *other = halves_find(table, &half->key);
    if (!other)
        return 0;
    if (other->send == half->send)
        return -1;
    hand_out_message(other, half, sink, state, totals);
    halves_remove(table, &half->key);
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
    struct message_half *kept = halves_add(&messages->young, &half->key);
    if (kept)
        *kept = *half;
    return kept != NULL;
}
