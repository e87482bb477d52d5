/* SPDX-License-Identifier: Apache-2.0
 *
 * Which replay of its graph a captured launch was (RECORD_REPLAY in shim/format.h).
 * Lives here: what one lane's records, read in the order of their tickets, tell of it.
 * Must not live here: who else replayed the same.
 */
#ifndef COMMTAP_LOAD_REPLAYS_H
#define COMMTAP_LOAD_REPLAYS_H

#include "analyzer/load/dump.h"

/* Of which replay a launch was. */
struct record_replay {
    uint32_t number;      /* from 1; 0: none, or not known */
    uint64_t launched_ns; /* when its graph was launched, CLOCK_MONOTONIC; 0: not known */
};

/* A lane as it is read; all zero at its beginning. */
struct replay_reader {
    uint64_t ticket; /* that the next record must have to belong to the same replay */
    struct record_replay replay;
};

/* True for a launch that a graph replayed, as the device saw it. */
static inline bool record_is_replayed(const struct record *record) {
    return (record->kind == RECORD_GPU || record->kind == RECORD_KERNEL) && record->flags & FLAG_CAPTURED;
}

/* Of which replay the lane's next record is. */
static inline struct record_replay replay_of_record(struct replay_reader *reader, const struct record *record) {
    const struct record_replay none = {0};
    bool follows = record->commit - 1 == reader->ticket;
    reader->ticket = record->commit;
    if (record->kind == RECORD_REPLAY && record->seq != SEQ_NONE)
        reader->replay = (struct record_replay){record->seq, record->t0 < record->t1 ? record->t0 : 0};
    else if (!record_is_replayed(record) || !follows)
        reader->replay = none;
    return record_is_replayed(record) ? reader->replay : none;
}

#endif
