/* SPDX-License-Identifier: Apache-2.0
 *
 * A running job in a few facts: who came on, whether it stands, whom most wait for.
 * Lives here: counting rows, when a job is to be judged. Must not live here: sentences, the judgement (diagnose/).
 */
#ifndef COMMTAP_LIVE_SUMMARY_H
#define COMMTAP_LIVE_SUMMARY_H

#include "analyzer/live/rows.h"

/* A hang is judged from two looks that are at least so far apart, as commtap diagnose does. */
#define LIVE_STANDS_NS INT64_C(1000000000)

enum { LIVE_CULPRITS_MOST = 64 };

struct live_culprit {
    int32_t rank;
    enum culprit_state state;
    bool stopped; /* by a signal */
};

struct live_summary {
    size_t alive, with_dump, reachable; /* ranks; reachable: whose dumps are read */
    size_t paused;                      /* of those alive: their recording is paused by an order */
    size_t moved;                       /* of those alive: came on since the reading before */
    int64_t interval_ns;                /* between the readings; 0: there was one alone */
    int64_t standing_ns;                /* for so long nobody has come on; -1: somebody has, or that is not known */
    const struct live_row *awaited;     /* whom most others wait for, NULL nobody */
    bool judged;
    enum verdict verdict;
    bool may_come_back; /* a hang that may be a long pause */
    bool untold;        /* a hang, unless it was killed at work */
    struct live_culprit culprits[LIVE_CULPRITS_MOST];
    size_t culprit_count;
};

void live_summary_make(struct live_summary *summary, const struct live_rows *rows, const struct live_request *request);
/* Takes the verdict over. */
void live_summary_judge(struct live_summary *summary, const struct diagnosis *diagnosis);

/* World ranks of processes that came on within the last LIVE_STANDS_NS, into ranks[now->count]. Returns how many. */
size_t live_moving(const struct live_sample *now, int32_t *ranks);
/* When anybody was last seen to come on, by CLOCK_MONOTONIC of its host; INT64_MIN of no dumps. */
int64_t live_last_move_ns(const struct live_sample *now);

#endif
