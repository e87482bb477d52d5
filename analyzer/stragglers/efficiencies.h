/* SPDX-License-Identifier: Apache-2.0
 *
 * What share of the run was useful work, and what the rest was lost to: the efficiencies of the POP Centre of
 * Excellence. Lives here: the five ratios, from the ranks' times and from a replay on an ideal network. Must not live
 * here: the replay (replay.h), words.
 *
 * "POP Standard Metrics for Parallel Performance Analysis" (https://co-design.pop-coe.eu/metrics). Useful is a rank's
 * time outside of everything that may wait for others (ranks.h), runtime the longest time of a rank, Init and Finalize
 * left out: load balance             = mean useful / largest useful communication efficiency = largest useful / runtime
 *   parallel efficiency      = mean useful / runtime = load balance * communication efficiency
 *   serialization efficiency = largest useful / runtime on an ideal network
 *   transfer efficiency      = runtime on an ideal network / runtime; communication = serialization * transfer
 * The runtime on an ideal network is the runtime less what the replay saves when transfers take no time, and at least
 * the largest useful time: nobody is done earlier. So every ratio lies in (0, 1].
 *
 * Where records are missing the ranks' times cover different parts of the run: each counts by its useful share then.
 */
#ifndef COMMTAP_STRAGGLERS_EFFICIENCIES_H
#define COMMTAP_STRAGGLERS_EFFICIENCIES_H

#include "analyzer/stragglers/ranks.h"

#define EFFICIENCY_UNKNOWN (-1.0)

/* Why some are unknown. */
enum efficiencies_missing {
    EFFICIENCIES_ALL_KNOWN = 0,
    EFFICIENCIES_NO_TIME,    /* none is known: no rank has useful time on record */
    EFFICIENCIES_NOT_LINKED, /* no serialization and transfer: no call of one rank was matched with another's */
    EFFICIENCIES_PARTIAL,    /* likewise: only the end of the run was replayed */
};

struct efficiencies {
    double parallel, load_balance, communication, serialization, transfer; /* in (0, 1], or EFFICIENCY_UNKNOWN */
    int64_t runtime_ns;                                                    /* 0: unknown, as below */
    int64_t useful_mean_ns, useful_most_ns;
    int64_t ideal_runtime_ns;
    enum efficiencies_missing missing;
};

/* What a replay says of it. */
struct ideal_replay {
    bool linked;      /* ranks wait for each other in it */
    bool end_only;    /* only the end of the run was replayed */
    int64_t saved_ns; /* that an ideal network saves */
};

/* From the times of the ranks, those without any left out. */
void efficiencies_find(struct efficiencies *efficiencies, const struct rank_times *times, size_t count,
                       const struct ideal_replay *replay);

#endif
