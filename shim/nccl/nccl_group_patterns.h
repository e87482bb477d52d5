/* SPDX-License-Identifier: Apache-2.0
 *
 * What the operations of a group's launch are together: alike, an exchange, an all-to-all, or a mixture.
 * Lives here: what is noted of each operation, and the name that the launch is counted under.
 * Must not live here: gathering the operations (nccl_groups.h), timing the launch.
 */
#ifndef COMMTAP_NCCL_GROUP_PATTERNS_H
#define COMMTAP_NCCL_GROUP_PATTERNS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/launch.h"
#include "shim/intercept/call_frame.h"

/* Noted while the group gathers. Sets of partners are kept as sums of hashes: equal sums of equally many are equal
 * sets. */
struct group_pattern {
    uint32_t sends, receives;
    uint64_t sent_to, received_from;
    bool self;          /* this rank is among those that it sends to */
    uint64_t roots;     /* those of collectives */
    bool other_call;    /* not all are the first one's function or reduction */
    bool other_peer;    /* ... root or partner */
    bool other_size;    /* ... bytes or type */
    bool other_place;   /* ... call site */
    uint64_t one_bytes; /* of the first one */
    uint32_t one_stack;
    int32_t one_peer;
    int32_t own_rank; /* on the communicator */
    uint16_t one_call;
    uint8_t one_dtype, one_redop;
};

/* The group's `number`th operation on the communicator, from 0. */
void group_pattern_note(struct group_pattern *pattern, uint32_t number, const struct call_frame *f);

/* Names a launch of several operations whose sums and stack (the end of the group) are in `launch`; a mixture stays
 * what it is. */
void group_pattern_settle(const struct group_pattern *pattern, uint32_t operations, struct gpu_launch *launch);

#endif
