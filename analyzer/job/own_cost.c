/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/job/own_cost.h"

#include "analyzer/base/ns.h"

const char *const shed_step_names[SHED_STEPS] = {
    [SHED_GPU_TIMING] = "gpu_timing", [SHED_STACKS] = "stacks", [SHED_RECORDS] = "records"};

/* Of a process's time, in ticks: the last moment that its dump tells of. */
static uint64_t last_ticks(const struct dump *dump) {
    uint64_t last = dump->header->exited_ticks;
    for (uint32_t i = 0; i < dump->in_flight_count; i++)
        if (dump->in_flight[i].last_leave > last)
            last = dump->in_flight[i].last_leave;
    for (size_t i = 0; i < dump->anchor_count; i++)
        if (dump->anchors[i].ticks > last)
            last = dump->anchors[i].ticks;
    return last;
}

static void add_shed(struct own_cost_sums *sums, const struct dump *dump, uint64_t last) {
    for (int step = 0; step < SHED_STEPS; step++) {
        const struct shed *shed = &dump->own_cost.shed[step];
        uint64_t ticks = shed->ticks + (shed->since && shed->since < last ? last - shed->since : 0);
        if (shed->times == 0)
            continue;
        sums->shed[step].ranks++;
        sums->shed[step].times += shed->times < UINT32_MAX ? shed->times : UINT32_MAX;
        sums->shed[step].ns = add_ns(sums->shed[step].ns, dump_duration_ns(dump, ticks));
    }
}

static void judge_budget(struct own_cost_sums *sums, const struct dump *dump, double share) {
    double budget = dump->own_cost.budget_millionths / 1e6;
    sums->budget = budget > sums->budget ? budget : sums->budget;
    if (budget <= 0 || share <= budget * (1 + OWN_COST_OVER / 100.0))
        return;
    sums->over++;
    if (share > sums->over_share) {
        sums->over_share = share;
        sums->over_budget = budget;
        sums->over_rank = dump->header->rank;
    }
}

/* A process that took longer than all its threads lived has not told the truth. */
static bool is_credible(const struct dump *dump, int64_t ns, int64_t wall_ns) {
    double threads = 0;
    for (uint32_t i = 0; i < dump->lane_count; i++)
        threads += dump->lanes[i].state ? dump->lanes[i].state->threads : 0;
    return wall_ns > 0 && dump->own_cost.calls >= dump->own_cost.samples &&
           (double)ns <= (double)wall_ns * (threads > 1 ? threads : 1);
}

struct own_cost_sums own_cost_sum(const struct job *job) {
    struct own_cost_sums sums = {.most_rank = RANK_UNKNOWN, .over_rank = RANK_UNKNOWN};
    double wall = 0;
    for (size_t d = 0; d < job->process_count; d++) {
        const struct dump *dump = job->processes[d];
        const struct own_cost *cost = &dump->own_cost;
        uint64_t first = dump->header->activated_ticks, last = last_ticks(dump);
        int64_t wall_ns = last > first ? dump_duration_ns(dump, last - first) : 0;
        int64_t ns = dump_duration_ns(dump, cost->ticks);
        if (cost->samples == 0 || !is_credible(dump, ns, wall_ns))
            continue;
        double share = (double)ns / (double)wall_ns;
        if (sums.ranks++ == 0 || share > sums.most_share) {
            sums.most_share = share;
            sums.most_rank = dump->header->rank;
        }
        sums.samples += cost->samples < UINT32_MAX ? cost->samples : UINT32_MAX;
        sums.calls += cost->calls < (uint64_t)INT64_MAX - sums.calls ? cost->calls : 0;
        sums.ns = add_ns(sums.ns, ns);
        wall += (double)wall_ns;
        add_shed(&sums, dump, last);
        judge_budget(&sums, dump, share);
    }
    sums.share = sums.ranks > 0 ? (double)sums.ns / wall : 0;
    return sums;
}

double own_cost_of_call(const struct own_cost_sums *sums) {
    return sums->calls > 0 ? (double)sums->ns / (double)sums->calls : 0;
}
