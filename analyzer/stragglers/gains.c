/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/gains.h"

#include <stdlib.h>

#include "analyzer/base/side_by_side.h"
#include "analyzer/stragglers/verdicts.h"

enum { WHAT_IFS_MOST = 12 }; /* replays for the costliest of those named */
#define GAIN_LEAST 0.005     /* shown as 1.01 times as fast */

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* ---- each alone ---------------------------------------------------------------------------------------------- */

static double mended(const struct straggler_analysis *analysis, const struct replay *replay,
                     const struct straggler *straggler) {
    const struct what_if_peers peers = {analysis->class_of, analysis->comparison_groups.group_of};
    if (straggler->kind == STRAGGLER_LINK) {
        const struct slow_link *link = &straggler->link;
        const struct what_if_ends ends = {.host_of = link->scope == LINK_RANKS ? NULL : analysis->clock->host_of,
                                          .from = link->from,
                                          .to = link->to,
                                          .both = link->both};
        return what_if_link(replay, &ends, straggler->slowdown_ratio);
    }
    struct what_if_mend mend = {.dumps = straggler->dumps, .count = straggler->dump_count};
    if (straggler->kind ==
        STRAGGLER_ROTATING) { /* noise stays: only what is nearer to the slow turns than to the rest */
        mend.now_and_then = 1 + (straggler->slowdown_ratio - 1) / 2;
        mend.collectives = straggler->part_collectives;
    }
    return what_if_mended(replay, &peers, &mend);
}

/* ---- together ------------------------------------------------------------------------------------------------ */

/* Whether it can be mended together with others: by its ranks' own work. */
static bool is_of_ranks(const struct straggler *straggler) {
    return straggler->kind == STRAGGLER_RANK || straggler->kind == STRAGGLER_HOST ||
           straggler->kind == STRAGGLER_RANK_CLASS;
}

/* The gain of mending all that are named but the one numbered `without`; `dumps` has room for all. Negative: no memory.
 */
static double mended_together(const struct straggler_analysis *analysis, const struct replay *replay, size_t without,
                              size_t *dumps) {
    const struct what_if_peers peers = {analysis->class_of, analysis->comparison_groups.group_of};
    struct what_if_mend mend = {.dumps = dumps};
    for (size_t i = 0; i < analysis->straggler_count; i++)
        for (size_t d = 0;
             i != without && is_of_ranks(&analysis->stragglers[i]) && d < analysis->stragglers[i].dump_count; d++)
            dumps[mend.count++] = analysis->stragglers[i].dumps[d];
    return mend.count > 0 ? what_if_mended(replay, &peers, &mend) : 1;
}

/* Time saved, as a share of the time, by a gain `more` beyond a gain `less`. */
static double saved(double more, double less) {
    return 1 / less - 1 / more;
}

/* Whether the others' waits that go back to its ranks come to a share that matters, per rank that could wait. */
static bool is_waited_for(const struct straggler_analysis *analysis, const struct straggler *straggler) {
    int64_t cost = 0, others = (int64_t)(analysis->directory->dump_count - straggler->dump_count);
    for (size_t d = 0; d < straggler->dump_count; d++)
        cost = add_ns(cost, analysis->delay_costs.ranks[straggler->dumps[d]].delay_cost_ns);
    return cost / (others > 0 ? others : 1) >= analysis->window_ns / VERDICT_SHARE;
}

/* Takes the named one off the list. */
static void hide(struct straggler_analysis *analysis, size_t named) {
    analysis->hidden[analysis->hidden_count++] = analysis->stragglers[named];
    analysis->straggler_count--;
    for (size_t i = named; i < analysis->straggler_count; i++)
        analysis->stragglers[i] = analysis->stragglers[i + 1];
}

/* The longest own work of those it is compared with, itself left out. */
static int64_t longest_other(const struct straggler_analysis *analysis, const struct straggler *straggler) {
    const uint32_t *groups = analysis->comparison_groups.group_of;
    int64_t longest = 0;
    for (size_t d = 0; d < analysis->directory->dump_count; d++)
        if (groups[d] == groups[straggler->dumps[0]] && !straggler_concerns(straggler, d) &&
            analysis->times[d].self_ns > longest)
            longest = analysis->times[d].self_ns;
    return longest;
}

static int64_t own_longest(const struct straggler_analysis *analysis, const struct straggler *straggler) {
    int64_t longest = 0;
    for (size_t i = 0; i < straggler->dump_count; i++)
        if (analysis->times[straggler->dumps[i]].self_ns > longest)
            longest = analysis->times[straggler->dumps[i]].self_ns;
    return longest;
}

/* What mending it gives by the estimate without a replay, which shortens the run no further than to the next longest,
 * and no time before or after what was looked at. */
static double unseen_speedup(const struct straggler_analysis *analysis, const struct replay *replay,
                             const struct straggler *straggler, int64_t lead_ns) {
    double gain = (double)analysis->window_ns * (1 - 1 / straggler->estimated_speedup);
    double time = replay->end_only ? (double)analysis->window_ns : (double)add_ns(replay->wall_ns, replay->missing_ns);
    gain = gain < (double)lead_ns ? gain : (double)lead_ns;
    return gain < time ? time / (time - gain) : 1;
}

/* `all`: the gain of mending all that are named. Returns that of those who are left, negative: no memory. */
static double hide_what_costs_nothing(struct straggler_analysis *analysis, const struct replay *replay, double all,
                                      size_t *dumps) {
    size_t looked_at = analysis->straggler_count < WHAT_IFS_MOST ? analysis->straggler_count : WHAT_IFS_MOST;
    for (size_t i = looked_at; i-- > 0 && all > 0;) { /* the least costly first */
        struct straggler *straggler = &analysis->stragglers[i];
        if (straggler->kind == STRAGGLER_LINK || saved(straggler->what_if_speedup, 1) >= 1.0 / VERDICT_SHARE)
            continue;
        int64_t own = own_longest(analysis, straggler), other = longest_other(analysis, straggler);
        /* as far as nobody works as long it is not hidden: the others wait for it in ways that no record tells */
        if (straggler->kind == STRAGGLER_RANK && own > other) {
            straggler->what_if_speedup =
                larger(straggler->what_if_speedup, unseen_speedup(analysis, replay, straggler, own - other));
            if (saved(straggler->what_if_speedup, 1) >= 1.0 / VERDICT_SHARE)
                continue;
        }
        double others = is_of_ranks(straggler) ? mended_together(analysis, replay, i, dumps) : all;
        if (others < 0)
            return others;
        bool alone = saved(straggler->what_if_speedup, 1) >= GAIN_LEAST;
        bool in_turn = (double)own * SLOW_RATIO >= (double)other && saved(all, others) >= 1.0 / VERDICT_SHARE;
        if ((alone || in_turn) && is_waited_for(analysis, straggler))
            continue;
        hide(analysis, i);
        all = others;
    }
    return all;
}

/* Never less than a part of it promises, that of whoever is not named included. */
static void find_even(struct straggler_analysis *analysis) {
    const struct what_if *what_if = &analysis->what_if;
    const struct straggler *const lists[] = {analysis->stragglers, analysis->suspects, analysis->uneven,
                                             analysis->hidden};
    const size_t counts[] = {analysis->straggler_count, analysis->suspect_count, analysis->uneven_count,
                             analysis->hidden_count};
    analysis->even_speedup = larger(what_if->slowdown, analysis->named_speedup);
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (size_t i = 0; i < counts[k]; i++)
            analysis->even_speedup = larger(analysis->even_speedup, lists[k][i].what_if_speedup);
    for (size_t i = 0; i < what_if->site_count; i++)
        analysis->even_speedup = larger(analysis->even_speedup, what_if->sites[i].speedup);
}

/* Init and Finalize happen once, and are as long in a mended job: holes are like the rest of what is known. */
static void project(const struct straggler_analysis *analysis, struct replay *replay) {
    if (analysis->covered.whole || replay->end_only || analysis->window_ns <= 0 || analysis->from_ns > analysis->to_ns)
        return;
    replay->missing_ns = add_ns(analysis->to_ns - analysis->from_ns, -analysis->covered_ns);
    replay->missing_ratio = (double)replay->missing_ns / (double)analysis->window_ns;
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

/* Replays that know nothing of each other. Beyond WHAT_IFS_MOST of those named the first estimate stands. */
struct gains {
    struct straggler_analysis *analysis;
    const struct replay *replay;
    unsigned threads;
    struct straggler *named[WHAT_IFS_MOST];
    size_t named_count;
    size_t *dumps; /* room for those of all that are named */
    double together;
    int64_t ideal_ns;
    bool alike, sites;
};

enum { GAIN_ALIKE, GAIN_SITES, GAIN_TOGETHER, GAIN_IDEAL, GAIN_NAMED };

static void find_gain(void *context, size_t number) {
    struct gains *gains = context;
    struct straggler_analysis *analysis = gains->analysis;
    const struct replay *replay = gains->replay;
    const struct what_if_peers peers = {analysis->class_of, analysis->comparison_groups.group_of};
    if (number == GAIN_ALIKE)
        gains->alike = what_if_measure_slowdown(&analysis->what_if, replay);
    else if (number == GAIN_SITES)
        gains->sites = what_if_measure_sites(&analysis->what_if, replay, &peers, (gains->threads + 1) / 2);
    else if (number == GAIN_TOGETHER)
        gains->together = mended_together(analysis, replay, analysis->straggler_count, gains->dumps);
    else if (number == GAIN_IDEAL)
        gains->ideal_ns = replay_on_ideal_network(replay);
    else
        gains->named[number - GAIN_NAMED]->what_if_speedup =
            mended(analysis, replay, gains->named[number - GAIN_NAMED]);
}

static void list_named(struct gains *gains) {
    struct straggler_analysis *analysis = gains->analysis;
    struct straggler *const lists[] = {analysis->stragglers, analysis->suspects, analysis->uneven};
    const size_t counts[] = {analysis->straggler_count, analysis->suspect_count, analysis->uneven_count};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < counts[k] && gains->named_count < WHAT_IFS_MOST; i++)
            gains->named[gains->named_count++] = &lists[k][i];
}

static bool replay_all(struct gains *gains) {
    list_named(gains);
    side_by_side(gains->threads, GAIN_NAMED + gains->named_count, find_gain, gains);
    bool done = gains->alike && gains->sites && gains->together > 0 && gains->ideal_ns >= 0;
    for (size_t i = 0; i < gains->named_count; i++)
        done = done && gains->named[i]->what_if_speedup >= 0;
    return done;
}

static bool name_who_matters(struct gains *gains) {
    struct straggler_analysis *analysis = gains->analysis;
    double together = hide_what_costs_nothing(analysis, gains->replay, gains->together, gains->dumps);
    if (together > 0 && analysis->straggler_count > 0) {
        analysis->named_speedup = together;
        for (size_t i = 0; i < analysis->straggler_count; i++)
            analysis->named_speedup = larger(analysis->named_speedup, analysis->stragglers[i].what_if_speedup);
    }
    find_even(analysis);
    return together > 0;
}

/* Of a rank alone there is nothing to mend, but there may be messages to itself. */
static bool replay_and_name(struct gains *gains) {
    struct straggler_analysis *analysis = gains->analysis;
    size_t room = analysis->directory->dump_count;
    for (size_t i = 0; i < analysis->straggler_count; i++)
        room += analysis->stragglers[i].dump_count;
    if (!analysis->what_if.known) {
        gains->ideal_ns = gains->replay->linked > 0 ? replay_on_ideal_network(gains->replay) : 0;
        return gains->ideal_ns >= 0;
    }
    gains->dumps = malloc((room + 1) * sizeof *gains->dumps);
    bool done = gains->dumps && replay_all(gains) && name_who_matters(gains);
    free(gains->dumps);
    return done;
}

bool gains_find(struct straggler_analysis *analysis, struct replay *replay, unsigned threads) {
    struct gains gains = {
        .analysis = analysis, .replay = replay, .threads = threads < GAINS_AT_ONCE ? threads : GAINS_AT_ONCE};
    project(analysis, replay);
    if (!what_if_prepare(replay))
        return false;
    what_if_begin(&analysis->what_if, replay);
    if (!replay_and_name(&gains))
        return false;
    struct ideal_replay ideal = {.linked = replay->linked > 0, .end_only = replay->end_only};
    if (ideal.linked) /* what the job would gain by a network on which transfers take no time */
        ideal.saved_ns = replay->wall_ns - gains.ideal_ns;
    efficiencies_find(&analysis->efficiencies, analysis->times, analysis->directory->dump_count, &ideal);
    return true;
}
