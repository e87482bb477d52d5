/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/gains.h"

#include <stdlib.h>

#include "analyzer/base/parcel.h"
#include "analyzer/base/side_by_side.h"
#include "analyzer/stragglers/verdicts.h"

enum { WHAT_IFS_MOST = 12 }; /* replays for the costliest of those named */
#define GAIN_LEAST 0.005     /* shown as 1.01 times as fast */

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* ---- bounds ------------------------------------------------------------------------------------------------- */

static bool is_among(const size_t *dumps, size_t count, size_t dump) {
    for (size_t i = 0; i < count; i++)
        if (dumps[i] == dump)
            return true;
    return false;
}

/* What a rank needs whoever is mended: its own work, and its time without waits. */
static double needed_ns(const struct straggler_analysis *analysis, size_t dump) {
    const struct rank_times *times = &analysis->times[dump];
    return larger((double)times->self_ns, (double)(times->window_ns - analysis->waits.ranks[dump].wall_wait_ns));
}

/* A replay knows of no computation beside communication but what is on record: of two ranks that work as long, the one
 * whose communication lasts longer works less before each call there. So where waits tell of such computation no gain
 * is more than what leaves the longest of those who are not mended (`all`: the mean) the time that it needs. */
static double bounded(const struct straggler_analysis *analysis, const size_t *dumps, size_t count, bool all,
                      double speedup) {
    size_t ranks = analysis->directory->dump_count;
    double longest = 0, sum = 0;
    bool hidden = false;
    for (size_t d = 0; d < ranks; d++) {
        double needed = needed_ns(analysis, d);
        hidden = hidden || analysis->times[d].hidden_ns > 0;
        sum += needed;
        longest = all || is_among(dumps, count, d) ? longest : larger(longest, needed);
    }
    double least = longest > 0 ? longest : sum / (double)ranks;
    if (!hidden || least <= 0 || speedup * least <= (double)analysis->window_ns)
        return speedup;
    return larger(1, (double)analysis->window_ns / least);
}

static double bounded_alike(const struct straggler_analysis *analysis, double speedup) {
    return bounded(analysis, NULL, 0, true, speedup);
}

/* ---- each alone ---------------------------------------------------------------------------------------------- */

static double mended(const struct straggler_analysis *analysis, const struct what_if_basis *basis,
                     const struct straggler *straggler) {
    const struct what_if_peers peers = {analysis->class_of, analysis->comparison_groups.group_of};
    if (straggler->kind == STRAGGLER_LINK) {
        const struct slow_link *link = &straggler->link;
        const struct what_if_ends ends = {.host_of = link->scope == LINK_RANKS ? NULL : analysis->clock->host_of,
                                          .from = link->from,
                                          .to = link->to,
                                          .both = link->both};
        return bounded(analysis, NULL, 0, false, what_if_link(basis, &ends, straggler->slowdown_ratio));
    }
    struct what_if_mend mend = {.dumps = straggler->dumps, .count = straggler->dump_count};
    if (straggler->kind ==
        STRAGGLER_ROTATING) { /* noise stays: only what is nearer to the slow turns than to the rest */
        mend.now_and_then = 1 + (straggler->slowdown_ratio - 1) / 2;
        mend.collectives = straggler->part_collectives;
        mend.begin = straggler->part_begin;
    }
    return bounded(analysis, mend.dumps, mend.count, false, what_if_mended(basis, &peers, &mend));
}

/* ---- together ------------------------------------------------------------------------------------------------ */

/* Whether it can be mended together with others: by its ranks' own work. */
static bool is_of_ranks(const struct straggler *straggler) {
    return straggler->kind == STRAGGLER_RANK || straggler->kind == STRAGGLER_HOST ||
           straggler->kind == STRAGGLER_RANK_CLASS;
}

/* The gain of mending all that are named but the one numbered `without`; `dumps` has room for all. Negative: no memory.
 */
static double mended_together(const struct straggler_analysis *analysis, const struct what_if_basis *basis,
                              size_t without, size_t *dumps) {
    const struct what_if_peers peers = {analysis->class_of, analysis->comparison_groups.group_of};
    struct what_if_mend mend = {.dumps = dumps};
    for (size_t i = 0; i < analysis->straggler_count; i++)
        for (size_t d = 0;
             i != without && is_of_ranks(&analysis->stragglers[i]) && d < analysis->stragglers[i].dump_count; d++)
            dumps[mend.count++] = analysis->stragglers[i].dumps[d];
    return mend.count > 0 ? bounded(analysis, dumps, mend.count, false, what_if_mended(basis, &peers, &mend)) : 1;
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

/* Takes the named one off the list. Who was named by what communication does not hide of as much work as others have
 * is slow only where that costs something. */
static void hide(struct straggler_analysis *analysis, size_t named) {
    if (!analysis->beside_left_out)
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

/* Of what its slow stretches took longer, as much as the others waited for it. */
static double waits_speedup(const struct straggler_analysis *analysis, const struct replay *replay,
                            const struct straggler *straggler) {
    double time = replay->end_only ? (double)analysis->window_ns : (double)add_ns(replay->wall_ns, replay->missing_ns);
    double gain =
        (double)(straggler->longer_ns < straggler->waited_for_ns ? straggler->longer_ns : straggler->waited_for_ns);
    return gain < time ? time / (time - gain) : 1;
}

/* No replay knows what is usual for a rank without a peer. And a rank that is slow for a part of the run, or regularly,
 * is given what its peers take in all of it, which is as long where these paused elsewhere; who else is named may hide
 * it, though. */
static bool is_unknown_to_replays(const struct straggler_analysis *analysis, const struct straggler *straggler) {
    const struct rank_leads *when = &straggler->when;
    return when->without_peer || ((when->phase || when->regular) && analysis->straggler_count == 1);
}

/* `all`: the gain of mending all that are named. Returns that of those who are left, negative: no memory. */
static double hide_what_costs_nothing(struct straggler_analysis *analysis, const struct what_if_basis *basis,
                                      double all, size_t *dumps) {
    size_t looked_at = analysis->straggler_count < WHAT_IFS_MOST ? analysis->straggler_count : WHAT_IFS_MOST;
    for (size_t i = looked_at; i-- > 0 && all > 0;) { /* the least costly first */
        struct straggler *straggler = &analysis->stragglers[i];
        if (straggler->at_times && is_unknown_to_replays(analysis, straggler))
            straggler->what_if_speedup =
                larger(straggler->what_if_speedup, waits_speedup(analysis, basis->replay, straggler));
        if (straggler->kind == STRAGGLER_LINK || saved(straggler->what_if_speedup, 1) >= 1.0 / VERDICT_SHARE)
            continue;
        int64_t own = own_longest(analysis, straggler), other = longest_other(analysis, straggler);
        /* as far as nobody works as long it is not hidden: the others wait for it in ways that no record tells */
        if (straggler->kind == STRAGGLER_RANK && own > other) {
            straggler->what_if_speedup =
                larger(straggler->what_if_speedup, unseen_speedup(analysis, basis->replay, straggler, own - other));
            straggler->what_if_speedup =
                bounded(analysis, straggler->dumps, straggler->dump_count, false, straggler->what_if_speedup);
            if (saved(straggler->what_if_speedup, 1) >= 1.0 / VERDICT_SHARE)
                continue;
        }
        bool waited_for = is_waited_for(analysis, straggler);
        if (waited_for && saved(straggler->what_if_speedup, 1) >= GAIN_LEAST)
            continue;
        double others = is_of_ranks(straggler) ? mended_together(analysis, basis, i, dumps) : all;
        if (others < 0)
            return others;
        bool in_turn = (double)own * SLOW_RATIO >= (double)other && saved(all, others) >= 1.0 / VERDICT_SHARE;
        if (waited_for && in_turn)
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

/* What one replay, or two of one question, came to. */
struct gain {
    double speedup; /* negative: no memory */
    double share;   /* of the worst workers ... */
    uint64_t workers;
    int64_t time_ns; /* on an ideal network; negative: no memory */
};

struct gains;

/* A question. They know nothing of each other. */
struct gain_task {
    void (*answer)(const struct gains *gains, size_t number, struct gain *gain);
    size_t number; /* for the function */
};

enum { GAINS_MOST = 3 + WHAT_IFS_MOST + WHAT_IF_SITES };

/* Beyond WHAT_IFS_MOST of those named the first estimate stands. */
struct gains {
    struct straggler_analysis *analysis;
    const struct what_if_basis *basis;
    struct team *team;
    unsigned threads;
    struct straggler *named[WHAT_IFS_MOST];
    size_t named_count;
    struct what_if_site_list *sites;
    size_t *dumps; /* room for those of all that are named */
    struct gain_task tasks[GAINS_MOST];
    struct gain gains[GAINS_MOST];
    size_t count;
    size_t ideal, together; /* tasks */
};

static void answer_alike(const struct gains *gains, size_t number, struct gain *gain) {
    struct what_if alike = gains->analysis->what_if;
    (void)number;
    bool done = what_if_measure_slowdown(&alike, gains->basis);
    *gain = (struct gain){done ? alike.slowdown : -1, alike.worst_workers_share, alike.worst_workers, 0};
}

/* The only one of those who can be mended together, where mending it is asked for anyway; SIZE_MAX: there is none, or
 * there are several. */
static size_t only_one(const struct gains *gains) {
    size_t only = SIZE_MAX, count = 0;
    for (size_t i = 0; i < gains->analysis->straggler_count; i++)
        if (is_of_ranks(&gains->analysis->stragglers[i])) {
            only = i;
            count++;
        }
    return count == 1 && only < gains->named_count ? only : SIZE_MAX;
}

static void answer_together(const struct gains *gains, size_t number, struct gain *gain) {
    (void)number;
    gain->speedup = mended_together(gains->analysis, gains->basis, gains->analysis->straggler_count, gains->dumps);
}

static void answer_named(const struct gains *gains, size_t number, struct gain *gain) {
    gain->speedup = mended(gains->analysis, gains->basis, gains->named[number]);
}

static void answer_site(const struct gains *gains, size_t number, struct gain *gain) {
    gain->speedup = what_if_site_mended(gains->basis, gains->sites, number);
}

static void answer_ideal(const struct gains *gains, size_t number, struct gain *gain) {
    (void)number;
    gain->time_ns = replay_on_ideal_network(gains->basis->replay);
}

static void list_named(struct gains *gains) {
    struct straggler_analysis *analysis = gains->analysis;
    struct straggler *const lists[] = {analysis->stragglers, analysis->suspects, analysis->uneven};
    const size_t counts[] = {analysis->straggler_count, analysis->suspect_count, analysis->uneven_count};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < counts[k] && gains->named_count < WHAT_IFS_MOST; i++)
            gains->named[gains->named_count++] = &lists[k][i];
}

enum { TASK_ALIKE, TASK_NAMED };

static size_t add_task(struct gains *gains, struct gain_task task) {
    gains->tasks[gains->count] = task;
    return gains->count++;
}

/* The longest first. */
static void list_tasks(struct gains *gains) {
    size_t only = only_one(gains);
    add_task(gains, (struct gain_task){answer_alike, 0});
    for (size_t i = 0; i < gains->named_count; i++)
        add_task(gains, (struct gain_task){answer_named, i});
    for (size_t i = 0; i < what_if_site_count(gains->sites); i++)
        add_task(gains, (struct gain_task){answer_site, i});
    gains->ideal = add_task(gains, (struct gain_task){answer_ideal, 0});
    gains->together = only == SIZE_MAX ? add_task(gains, (struct gain_task){answer_together, 0}) : TASK_NAMED + only;
}

/* Process p of P has the tasks p, p + P ... */
static void answer_own(void *context, size_t number) {
    struct gains *gains = context;
    size_t task = team_number(gains->team) + number * team_size(gains->team);
    gains->tasks[task].answer(gains, gains->tasks[task].number, &gains->gains[task]);
}

static void gains_part(void *context, unsigned process, struct parcel *parcel) {
    struct gains *gains = context;
    for (size_t task = process; task < gains->count; task += gains->team->processes)
        parcel_field(parcel, &gains->gains[task]);
}

/* Hands all answers to where they belong. */
static void take_gains(struct gains *gains) {
    struct straggler_analysis *analysis = gains->analysis;
    const struct gain *alike = &gains->gains[TASK_ALIKE], *named = &gains->gains[TASK_NAMED];
    double sites[WHAT_IF_SITES];
    analysis->what_if.slowdown = bounded_alike(analysis, alike->speedup);
    /* a share of a gain that cannot be is none of what can */
    analysis->what_if.worst_workers_share = analysis->what_if.slowdown < alike->speedup ? -1 : alike->share;
    analysis->what_if.worst_workers = (size_t)alike->workers;
    for (size_t i = 0; i < gains->named_count; i++)
        gains->named[i]->what_if_speedup = named[i].speedup;
    for (size_t i = 0; i < what_if_site_count(gains->sites); i++)
        sites[i] = bounded_alike(analysis, named[gains->named_count + i].speedup);
    what_if_keep_sites(&analysis->what_if, gains->basis, gains->sites, sites);
}

static bool replay_all(struct gains *gains) {
    size_t first = team_number(gains->team), processes = team_size(gains->team);
    bool failed = false;
    list_named(gains);
    list_tasks(gains);
    side_by_side(gains->threads, gains->count > first ? (gains->count - first + processes - 1) / processes : 0,
                 answer_own, gains);
    for (size_t task = 0; task < gains->count; task++)
        failed = failed || gains->gains[task].speedup < 0 || gains->gains[task].time_ns < 0;
    if (!team_share(gains->team, TEAM_GAINS, failed, gains_part, gains))
        return false;
    take_gains(gains);
    return true;
}

static bool name_who_matters(struct gains *gains) {
    struct straggler_analysis *analysis = gains->analysis;
    double together =
        hide_what_costs_nothing(analysis, gains->basis, gains->gains[gains->together].speedup, gains->dumps);
    if (together > 0 && analysis->straggler_count > 0) {
        analysis->named_speedup = together;
        for (size_t i = 0; i < analysis->straggler_count; i++)
            analysis->named_speedup = larger(analysis->named_speedup, analysis->stragglers[i].what_if_speedup);
    }
    find_even(analysis);
    return together > 0;
}

static bool replay_and_name(struct gains *gains) {
    struct straggler_analysis *analysis = gains->analysis;
    const struct what_if_peers peers = {analysis->class_of, analysis->comparison_groups.group_of};
    size_t room = analysis->directory->dump_count;
    for (size_t i = 0; i < analysis->straggler_count; i++)
        room += analysis->stragglers[i].dump_count;
    gains->dumps = malloc((room + 1) * sizeof *gains->dumps);
    gains->sites = what_if_list_sites(gains->basis, &peers);
    bool done = gains->dumps && gains->sites && replay_all(gains) && name_who_matters(gains);
    what_if_free_sites(gains->sites);
    free(gains->dumps);
    return done;
}

/* Of a rank alone there is nothing to mend, but there may be messages to itself. *ideal_ns: the time on an ideal
 * network. */
static bool find_all(struct gains *gains, int64_t *ideal_ns) {
    const struct replay *replay = gains->basis->replay;
    if (!gains->analysis->what_if.known) {
        *ideal_ns = replay->linked > 0 ? replay_on_ideal_network(replay) : 0;
        return *ideal_ns >= 0;
    }
    bool done = replay_and_name(gains);
    *ideal_ns = done ? gains->gains[gains->ideal].time_ns : -1;
    return done;
}

bool gains_find(struct straggler_analysis *analysis, struct replay *replay, struct team *team, unsigned threads) {
    struct what_if_basis basis;
    struct gains gains = {.analysis = analysis,
                          .basis = &basis,
                          .team = team,
                          .threads = threads < GAINS_AT_ONCE ? threads : GAINS_AT_ONCE};
    struct ideal_replay ideal = {.linked = replay->linked > 0, .end_only = replay->end_only};
    int64_t ideal_ns;
    project(analysis, replay);
    bool done = what_if_prepare(&basis, replay);
    if (done) {
        what_if_begin(&analysis->what_if, replay);
        done = find_all(&gains, &ideal_ns);
    }
    what_if_free(&basis);
    if (!done)
        return false;
    if (ideal.linked) /* what the job would gain by a network on which transfers take no time */
        ideal.saved_ns = replay->wall_ns - ideal_ns;
    efficiencies_find(&analysis->efficiencies, analysis->times, analysis->directory->dump_count, &ideal);
    return true;
}
