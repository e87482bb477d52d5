/* SPDX-License-Identifier: Apache-2.0
 *
 * What cuts a rank's run into stretches that can be compared with those of other ranks.
 * Lives here: telling by one record which stretch it ends. Must not live here: choosing cuts
 * (stragglers/comparison_groups.h), times.
 *
 * A stretch ends at a collective of one communicator, or at a message of one channel, which has its number in the
 * dump: stretches of equal number are then the same part of the job on all ranks of a comparison group, however late
 * each of them came to it. Where neither occurs equally often on all ranks, time itself is cut into equal slices.
 */
#ifndef COMMTAP_MATCH_CUT_H
#define COMMTAP_MATCH_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/format.h"

enum cut_kind {
    CUT_NONE = 0,
    CUT_COLLECTIVE, /* on `comm` */
    CUT_MESSAGE,    /* in the channel (comm, peer, tag, direction) */
    CUT_TIME,       /* each `slice_ns` from `from_ns` on, common clock */
};

struct cut {
    enum cut_kind kind;
    uint32_t comm; /* local index; COMM_NONE where there is none */
    int32_t peer, tag;
    uint16_t direction; /* FLAG_SEND or FLAG_RECV */
    uint32_t messages;  /* of the channel, on record */
    int64_t from_ns, slice_ns;
};

/* Whether the record is a message with a number in its channel, counted once for each operation. */
static inline bool is_numbered_message(const struct record *record) {
    return (record->kind == RECORD_CALL || record->kind == RECORD_POST) && (record->flags & (FLAG_SEND | FLAG_RECV)) &&
           !(record->flags & (FLAG_ORDINAL_UNKNOWN | FLAG_CANCELLED | FLAG_FAILED | FLAG_WILDCARD)) &&
           record->seq != SEQ_NONE && record->peer >= 0;
}

static inline uint16_t message_direction(const struct record *record) {
    return record->flags & FLAG_RECV && !(record->flags & FLAG_SEND) ? FLAG_RECV : FLAG_SEND;
}

/* Whether the record ends a stretch; its `seq` is then the stretch's number. Never so of CUT_TIME. */
static inline bool cut_ends_at(const struct cut *cut, const struct record *record) {
    if (cut->kind == CUT_COLLECTIVE)
        return record->comm == cut->comm && record->comm != COMM_NONE && (record->flags & FLAG_COLLECTIVE) &&
               !(record->flags & (FLAG_STARTED | FLAG_CAPTURED)) && record->seq != SEQ_NONE;
    return cut->kind == CUT_MESSAGE && record->comm == cut->comm && record->peer == cut->peer &&
           record->tag == cut->tag && is_numbered_message(record) && message_direction(record) == cut->direction;
}

/* CUT_TIME: the slice that a moment lies in. */
static inline uint32_t cut_slice_at(const struct cut *cut, int64_t at) {
    int64_t slice = cut->slice_ns > 0 && at > cut->from_ns ? (at - cut->from_ns) / cut->slice_ns : 0;
    return slice < UINT32_MAX ? (uint32_t)slice : UINT32_MAX;
}

#endif
