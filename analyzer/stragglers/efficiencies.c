/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/efficiencies.h"

static void find_useful(struct efficiencies *e, const struct rank_times *times, size_t count) {
    double sum = 0, most = 0;
    size_t ranks = 0;
    for (size_t i = 0; i < count; i++) {
        if (times[i].window_ns > e->runtime_ns)
            e->runtime_ns = times[i].window_ns;
    }
    for (size_t i = 0; i < count; i++) {
        if (times[i].window_ns <= 0)
            continue;
        int64_t work = add_ns(times[i].self_ns, times[i].left_out_ns);
        double useful = (double)(work < times[i].window_ns ? work : times[i].window_ns);
        sum += useful;
        most = useful > most ? useful : most;
        ranks++;
    }
    e->useful_most_ns = (int64_t)most;
    e->useful_mean_ns = ranks > 0 ? (int64_t)(sum / (double)ranks) : 0;
}

void efficiencies_find(struct efficiencies *efficiencies, const struct rank_times *times, size_t count,
                       const struct ideal_replay *replay) {
    struct efficiencies *e = efficiencies;
    *e = (struct efficiencies){.parallel = EFFICIENCY_UNKNOWN,
                               .load_balance = EFFICIENCY_UNKNOWN,
                               .communication = EFFICIENCY_UNKNOWN,
                               .serialization = EFFICIENCY_UNKNOWN,
                               .transfer = EFFICIENCY_UNKNOWN,
                               .missing = EFFICIENCIES_NO_TIME};
    find_useful(e, times, count);
    if (e->useful_mean_ns <= 0)
        return;
    e->load_balance = (double)e->useful_mean_ns / (double)e->useful_most_ns;
    e->communication = (double)e->useful_most_ns / (double)e->runtime_ns;
    e->parallel = (double)e->useful_mean_ns / (double)e->runtime_ns;
    e->missing = !replay->linked    ? EFFICIENCIES_NOT_LINKED
                 : replay->end_only ? EFFICIENCIES_PARTIAL
                                    : EFFICIENCIES_ALL_KNOWN;
    if (e->missing != EFFICIENCIES_ALL_KNOWN)
        return;
    int64_t ideal = e->runtime_ns - (replay->saved_ns > 0 ? replay->saved_ns : 0);
    e->ideal_runtime_ns = ideal > e->useful_most_ns ? ideal : e->useful_most_ns;
    e->serialization = (double)e->useful_most_ns / (double)e->ideal_runtime_ns;
    e->transfer = (double)e->ideal_runtime_ns / (double)e->runtime_ns;
}
