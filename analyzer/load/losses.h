/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recording lost, by its own count.
 * Lives here: the kinds of loss with their names and words, their sums over dumps.
 * Must not live here: overwritten events (dump_lane_lost), when to speak of a loss, printing.
 */
#ifndef COMMTAP_LOAD_LOSSES_H
#define COMMTAP_LOAD_LOSSES_H

#include "analyzer/load/dump.h"

enum loss {
    LOSS_OPERATIONS = 0, /* missing from totals, like what LOSS_TABLES held */
    LOSS_TABLES,
    LOSS_PROVIDERS,
    LOSS_COMMUNICATORS,
    LOSS_PENDING,
    LOSS_ORDINALS,
    LOSS_THREADS,
    LOSS_WINDOWS,
    LOSS_SITES,
    LOSS_PEERS,
    LOSS_DEFINITIONS,
    LOSS_EPOCHS,
    LOSS_GPU_EVENTS,
    LOSS_GPU_UNFINISHED,
    LOSS_GPU_FAILED,
    LOSS_GPU_OVERLAPPING,
    LOSS_REPLAYS,
    LOSS_UNFOLLOWED,
    LOSS_STACKS_CUT,
    LOSS_CHILDREN,
    LOSS_QUOTA,
    LOSS_GPU_SHED,
    LOSS_STACKS_SHED,
    LOSS_RECORDS_SHED,
    LOSS_KINDS
};

enum loss_place { LOSS_OF_PROCESS, LOSS_OF_LANE, LOSS_OF_OWN_COST };

struct loss_kind {
    const char *key;  /* the counter's name in shim/format.h */
    const char *text; /* follows the number: what was lost, and what that means for the reader */
    size_t offset;    /* of the counter, in struct lane_state or struct own_cost, or from the header's losses */
    enum loss_place place;
};

extern const struct loss_kind loss_kinds[LOSS_KINDS];

/* Counters by enum loss; none exceeds INT64_MAX, whatever the files say. */
struct loss_counts {
    uint64_t of[LOSS_KINDS];
};

/* Adds what one usable dump says it lost. */
void losses_add(struct loss_counts *counts, const struct dump *dump);

#endif
