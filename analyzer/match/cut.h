/* SPDX-License-Identifier: Apache-2.0
 *
 * What cuts a rank's run into stretches that can be compared with those of other ranks.
 * Lives here: telling by one record which stretch it ends. Must not live here: choosing cuts
 * (stragglers/comparison_groups.h), times.
 *
 * A stretch ends at a collective of one communicator, at a message of one channel (or an epoch that a partner was let
 * into), which has its number in the dump, at a replay of one of these that a graph holds, or at a start of a
 * persistent one: stretches of equal number are then the same part of the job on all ranks of a comparison group,
 * however late each of them came to it. Where neither occurs equally often on all ranks, time itself is cut into equal
 * slices.
 */
#ifndef COMMTAP_MATCH_CUT_H
#define COMMTAP_MATCH_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/match/instances.h"

enum cut_kind {
    CUT_NONE = 0,
    CUT_COLLECTIVE, /* on `comm` */
    CUT_MESSAGE,    /* in the channel (comm, peer, tag, direction) */
    CUT_TIME,       /* each `slice_ns` from `from_ns` on, common clock */
};

struct cut {
    enum cut_kind kind;
    uint32_t comm; /* local index; COMM_NONE where there is none */
    bool replays;  /* at the replays of the captured collective or message with the number `captured`, or at the starts
                      of the persistent collective with that number */
    uint32_t captured;
    int32_t peer, tag;  /* TAG_ANY: messages without tags, as NCCL's are */
    bool device;        /* it is their launches on the GPU that tell when */
    uint16_t direction; /* FLAG_SEND or FLAG_RECV */
    uint32_t messages;  /* of the channel, on record */
    int64_t from_ns, slice_ns;
};

/* Whether the record is about a message that has a number in its channel: of one that a graph holds, at its capture. */
static inline bool has_message_number(const struct record *record) {
    return (record->flags & (FLAG_SEND | FLAG_RECV)) &&
           !(record->flags & (FLAG_ORDINAL_UNKNOWN | FLAG_CANCELLED | FLAG_FAILED | FLAG_WILDCARD)) &&
           record->seq != SEQ_NONE && record->peer >= 0;
}

/* The same, counted once for each call. */
static inline bool is_numbered_message(const struct record *record) {
    return (record->kind == RECORD_CALL || record->kind == RECORD_POST || record->kind == RECORD_PARTNER) &&
           has_message_number(record);
}

static inline uint16_t message_direction(const struct record *record) {
    return record->flags & FLAG_RECV && !(record->flags & FLAG_SEND) ? FLAG_RECV : FLAG_SEND;
}

static inline bool cut_is_of_channel(const struct cut *cut, const struct record *record) {
    return record->comm == cut->comm && record->peer == cut->peer && (record->tag == cut->tag || cut->tag == TAG_ANY) &&
           has_message_number(record) && message_direction(record) == cut->direction &&
           (!cut->replays || record->seq == cut->captured);
}

/* The last of the item's messages that is of the cut's channel; NULL: none. */
static inline const struct record *cut_message_of(const struct cut *cut, const struct match_record *item) {
    const struct record *record = item->record;
    bool launch = record->kind == RECORD_GPU || record->kind == RECORD_KERNEL;
    if (launch != cut->device ||
        (!launch && record->kind != RECORD_CALL && record->kind != RECORD_POST && record->kind != RECORD_PARTNER) ||
        cut->replays != (item->replay > 0) || (!cut->replays && record->flags & FLAG_CAPTURED))
        return NULL;
    for (uint32_t i = item->message_count; i-- > 0;)
        if (cut_is_of_channel(cut, &item->messages[i]))
            return &item->messages[i];
    return item->message_count == 0 && cut_is_of_channel(cut, record) ? record : NULL;
}

/* Whether the item ends a stretch: the stretch's number, SEQ_NONE where it ends none. Never so of CUT_TIME. */
static inline uint32_t cut_ends_at(const struct cut *cut, const struct match_record *item) {
    const struct record *record = item->record;
    bool collective = cut->kind == CUT_COLLECTIVE && record->comm == cut->comm && record->comm != COMM_NONE &&
                      (record->flags & FLAG_COLLECTIVE);
    if (collective && record->flags & FLAG_STARTED)
        return cut->replays && record->seq == cut->captured ? (uint32_t)record->tag : SEQ_NONE;
    if (collective && cut->replays)
        return item->replay > 0 && record->seq == cut->captured ? item->replay : SEQ_NONE;
    if (collective && !(record->flags & FLAG_CAPTURED))
        return record->seq;
    const struct record *message = cut->kind == CUT_MESSAGE ? cut_message_of(cut, item) : NULL;
    if (!message)
        return SEQ_NONE;
    return cut->replays ? item->replay : message->seq;
}

/* CUT_TIME: the slice that a moment lies in. */
static inline uint32_t cut_slice_at(const struct cut *cut, int64_t at) {
    int64_t slice = cut->slice_ns > 0 && at > cut->from_ns ? (at - cut->from_ns) / cut->slice_ns : 0;
    return slice < UINT32_MAX ? (uint32_t)slice : UINT32_MAX;
}

#endif
