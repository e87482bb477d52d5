/* SPDX-License-Identifier: Apache-2.0
 *
 * Why one rank came later than another: where it took longer since both were last together.
 * Lives here: comparing two ranks' time, way by way (timeline.h).
 * Must not live here: waits, who is charged.
 *
 * Compared is once per wait, millions of times in a large job: the table of ways is therefore of a fixed size, and only
 * the slots that were used are cleared, where base/hash.h would allocate and clear all of it each time.
 *
 * d_a = max(0, t_B(a) - t_A(a)) over the ways a of the rank B that came late: its own work before a call, and what it
 * spent in the call without waiting for others. A is the rank that waited.
 */
#ifndef COMMTAP_WAITS_DELAYS_H
#define COMMTAP_WAITS_DELAYS_H

#include "analyzer/waits/timeline.h"

enum {
    DELAYS_BACK = 64, /* stretches of either rank that are told apart; what lies before them is one delay at no site */
    DELAYS_MOST = 2 * DELAYS_BACK + 3,
    DELAYS_SLOTS = 512
};

struct delay {
    uint64_t way;
    uint32_t site;  /* of the late rank's timeline */
    bool inside;    /* in the call, not on the way to it */
    int64_t longer; /* > 0 after delays_compare, ns */
};

struct delays {
    struct delay items[DELAYS_MOST]; /* in no order that depends on anything but the two ranks' times */
    size_t count;
    int64_t total;
    uint16_t slots[DELAYS_SLOTS]; /* private: hash table, item number + 1 */
    uint16_t used[DELAYS_MOST];   /* private: the items' slots */
};

/* A rank between two moments; `cursor` as of timeline_back_to for the later one. */
struct delays_side {
    const struct timeline *timeline;
    size_t cursor;
};

/* Compares between the common times `from` and `to`. `delays` starts zeroed and can be used again. */
void delays_compare(struct delays *delays, struct delays_side late, struct delays_side waiting, int64_t from,
                    int64_t to);

#endif
