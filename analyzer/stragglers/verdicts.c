/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: hosts as a whole, what a straggler costs, who is named. Must not live here: the statistics.
 */
#include "analyzer/stragglers/verdicts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/statistics.h"
#include "analyzer/stragglers/tasks.h"

double verdicts_chance(const struct straggler_analysis *analysis, double p) {
    double looks = (analysis->beside_left_out ? 2 : 1) * (analysis->steps_compared ? 2 : 1);
    return fmin(1, looks * p);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

/* Columns of a comparison group's table, by host. */
struct host_column {
    uint32_t host;
    size_t *columns; /* indices into batches.dumps */
    size_t count;
    struct significance verdict;
};

struct host_columns {
    struct host_column *items;
    size_t count;
    size_t *columns; /* what items[].columns points into */
};

static bool group_by_host(struct host_columns *hosts, const struct straggler_analysis *analysis,
                          const struct time_batches *batches) {
    *hosts = (struct host_columns){.items = calloc(analysis->clock->host_count, sizeof *hosts->items),
                                   .columns = calloc(batches->dump_count, sizeof *hosts->columns)};
    if (!hosts->items || !hosts->columns)
        return false;
    size_t used = 0;
    for (uint32_t h = 0; h < analysis->clock->host_count; h++) {
        struct host_column *column = &hosts->items[hosts->count];
        *column = (struct host_column){.host = h, .columns = hosts->columns + used};
        for (size_t i = 0; i < batches->dump_count; i++)
            if (analysis->clock->host_of[batches->dumps[i]] == h)
                column->columns[column->count++] = i;
        used += column->count;
        hosts->count += column->count > 0;
    }
    return true;
}

/* A host's time in a batch is the median of its ranks'. */
static int64_t host_time(const struct time_batches *batches, size_t batch, const struct host_column *host,
                         int64_t *scratch) {
    for (size_t i = 0; i < host->count; i++)
        scratch[i] = batches->self_ns[batch * batches->dump_count + host->columns[i]];
    return median_low_int64(scratch, host->count);
}

static bool judge_hosts(struct host_columns *hosts, const struct straggler_analysis *analysis,
                        const struct time_batches *batches) {
    if (hosts->count < 2)
        return true;
    int64_t *table = calloc(batches->count * hosts->count + 1, sizeof *table);
    int64_t *scratch = calloc(batches->dump_count, sizeof *scratch);
    struct significance *verdicts = calloc(hosts->count, sizeof *verdicts);
    struct significance **sorted = calloc(hosts->count, sizeof *sorted);
    bool done = table && scratch && verdicts && sorted;
    for (size_t b = 0; done && b < batches->count; b++)
        for (size_t h = 0; h < hosts->count; h++)
            table[b * hosts->count + h] = host_time(batches, b, &hosts->items[h], scratch);
    if (done && significance_judge(table, batches->count, hosts->count, batches->rows, verdicts) >= 0) {
        for (size_t h = 0; h < hosts->count; h++) {
            hosts->items[h].verdict = verdicts[h];
            hosts->items[h].verdict.p = verdicts_chance(analysis, verdicts[h].p);
            sorted[h] = &hosts->items[h].verdict;
        }
        done = significance_correct(sorted, hosts->count);
    }
    free(table);
    free(scratch);
    free(verdicts);
    free(sorted);
    return done;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

bool straggler_concerns(const struct straggler *straggler, size_t dump) {
    for (size_t i = 0; i < straggler->dump_count; i++)
        if (straggler->dumps[i] == dump)
            return true;
    return false;
}

bool verdicts_may_hold_up(const struct straggler_analysis *analysis, const size_t *dumps, size_t count) {
    int64_t own = 0, all = 0;
    const struct cut *cuts = analysis->comparison_groups.cuts;
    if (!cuts || cuts[dumps[0]].kind != CUT_TIME)
        return true;
    for (size_t d = 0; d < analysis->directory->dump_count; d++)
        if (analysis->comparison_groups.group_of[d] == analysis->comparison_groups.group_of[dumps[0]])
            all = add_ns(all, analysis->delay_costs.ranks[d].delay_cost_ns);
    for (size_t i = 0; i < count; i++)
        own = add_ns(own, analysis->delay_costs.ranks[dumps[i]].delay_cost_ns);
    return own > all - own;
}

/* By how much the others were done earlier: at the end they wait for who comes last, though no call shows it. Known
 * where all records are there. */
static int64_t done_later(const struct straggler_analysis *analysis, const struct time_batches *batches,
                          const struct straggler *straggler, int64_t *scratch) {
    int64_t own = 0;
    size_t count = 0;
    if (!analysis->covered.whole)
        return 0;
    for (size_t i = 0; i < batches->dump_count; i++) {
        const struct rank_times *times = &analysis->times[batches->dumps[i]];
        if (!straggler_concerns(straggler, batches->dumps[i]))
            scratch[count++] = times->window_ns;
        else if (times->window_ns > own)
            own = times->window_ns;
    }
    int64_t usual = count > 0 ? median_high_int64(scratch, count) : own;
    return own > usual ? own - usual : 0;
}

/* How much longer the other ranks of the comparison group sit in communication: also waits that are in no collective.
 */
static bool compare_communication(const struct straggler_analysis *analysis, const struct time_batches *batches,
                                  struct straggler *straggler) {
    int64_t *others = calloc(batches->dump_count, sizeof *others);
    size_t count = 0;
    int64_t own = INT64_MAX;
    if (!others)
        return false;
    for (size_t i = 0; i < batches->dump_count; i++) {
        int64_t comm = analysis->times[batches->dumps[i]].comm_ns;
        if (!straggler_concerns(straggler, batches->dumps[i]))
            others[count++] = comm;
        else if (comm < own)
            own = comm;
    }
    int64_t usual = count > 0 ? median_high_int64(others, count) : own;
    if (usual > own)
        straggler->others_comm_ns = usual - own;
    straggler->done_later_ns = done_later(analysis, batches, straggler, others);
    free(others);
    return true;
}

/* How many stretches of a rank were compared. */
static int64_t stretches_of(const struct rank_times *times) {
    int64_t count = 0;
    for (uint32_t i = 0; i < times->bins.count; i++)
        count += times->bins.calls[i];
    return count;
}

/* A rank's own time per step or stretch; 0 where there is none. */
static int64_t work_of(const struct rank_times *times, const struct time_batches *batches, size_t column) {
    int64_t stretches = stretches_of(times), sum = 0;
    for (size_t b = 0; batches->rows == ROWS_ARE_STEPS && b < batches->count; b++)
        sum = add_ns(sum, batches->self_ns[b * batches->dump_count + column]);
    if (batches->rows == ROWS_ARE_STEPS)
        return batches->at_once > 0 && batches->count > 0 ? sum / (int64_t)(batches->count * batches->at_once) : 0;
    return stretches > 0 ? times->self_ns / stretches : 0;
}

/* What a straggler's ranks and the others take in a step or between two collectives: the median of each, but the
 * slowest of a host's ranks, for whom its others wait as well. */
static bool compare_work(const struct straggler_analysis *analysis, const struct time_batches *batches,
                         struct straggler *straggler) {
    int64_t *work = calloc(2 * batches->dump_count, sizeof *work), *others = work + batches->dump_count;
    size_t own = 0, count = 0;
    if (!work)
        return false;
    for (size_t i = 0; i < batches->dump_count; i++) {
        int64_t ns = work_of(&analysis->times[batches->dumps[i]], batches, i);
        if (straggler_concerns(straggler, batches->dumps[i]))
            work[own++] = ns;
        else
            others[count++] = ns;
    }
    if (own > 0) {
        int64_t median = median_high_int64(work, own);
        straggler->work_ns = straggler->kind == STRAGGLER_RANK_CLASS ? median : work[own - 1];
    }
    if (count > 0)
        straggler->others_work_ns = median_high_int64(others, count);
    free(work);
    return true;
}

/* How much more own time in all the slowest of a straggler's ranks has than the median of the others, into *more.
 * `among`: those of that rank class only; NOWHERE: all. */
static bool compare_totals(const struct straggler_analysis *analysis, const struct time_batches *batches,
                           const struct straggler *straggler, uint32_t among, int64_t *more) {
    int64_t *others = calloc(batches->dump_count, sizeof *others), own = 0;
    size_t count = 0;
    if (!others)
        return false;
    for (size_t i = 0; i < batches->dump_count; i++) {
        int64_t self = analysis->times[batches->dumps[i]].self_ns;
        if (among != NOWHERE && analysis->class_of[batches->dumps[i]] != among)
            continue;
        if (!straggler_concerns(straggler, batches->dumps[i]))
            others[count++] = self;
        else if (self > own)
            own = self;
    }
    *more = count > 0 ? own - median_int64(others, count) : own;
    free(others);
    return true;
}

/* How much more own time it has than its peers by its ratio, which is that of its slowest rank; not more than in all,
 * where a ratio is that of batches that end for one part of the work before another. */
static bool find_extra(const struct straggler_analysis *analysis, const struct time_batches *batches,
                       struct straggler *straggler) {
    int64_t own = 0, more;
    for (size_t i = 0; i < straggler->dump_count; i++)
        if (analysis->times[straggler->dumps[i]].self_ns > own)
            own = analysis->times[straggler->dumps[i]].self_ns;
    if (!compare_totals(analysis, batches, straggler, NOWHERE, &more))
        return false;
    straggler->extra_ns = ns_clamped((double)own * (1 - 1 / straggler->slowdown_ratio));
    if (more < straggler->extra_ns)
        straggler->extra_ns = more > 0 ? more : 0;
    return true;
}

/* Gathers what a straggler costs, and what mending it would give. */
static bool add_costs(const struct straggler_analysis *analysis, const struct time_batches *batches,
                      struct straggler *straggler) {
    int64_t mended = 0;
    for (size_t i = 0; i < straggler->dump_count; i++) {
        const struct rank_waits *waits = &analysis->waits.ranks[straggler->dumps[i]];
        straggler->imposed_ns =
            add_ns(straggler->imposed_ns, analysis->delay_costs.ranks[straggler->dumps[i]].imposed_ns);
        straggler->waited_for_ns = add_ns(straggler->waited_for_ns, waits->waited_for_ns);
        mended = add_ns(mended, waits->mended_ns);
    }
    if (!compare_communication(analysis, batches, straggler) || !compare_work(analysis, batches, straggler) ||
        !find_extra(analysis, batches, straggler))
        return false;
    /* Ranks of one host arrive together: what they impose as a group is their extra work, not their last one's lead.
     * Where collectives show little of what the others wait, they wait elsewhere for the extra work. */
    int64_t shown = straggler->kind == STRAGGLER_RANK ? mended : straggler->waited_for_ns;
    int64_t others = (int64_t)(batches->dump_count - straggler->dump_count);
    if (straggler->waited_for_ns / (others > 0 ? others : 1) < straggler->others_comm_ns / 2)
        shown = straggler->others_comm_ns;
    int64_t gain = straggler->extra_ns < shown ? straggler->extra_ns : shown;
    int64_t window = analysis->window_ns;
    straggler->estimated_speedup = gain > 0 && gain < window ? (double)window / (double)(window - gain) : 1;
    straggler->what_if_speedup = straggler->estimated_speedup;
    return true;
}

static bool make_straggler(const struct straggler_analysis *analysis, enum straggler_kind kind,
                           const struct significance *verdict, const size_t *dumps, size_t count,
                           const struct time_batches *batches, struct straggler *straggler) {
    *straggler = (struct straggler){.kind = kind,
                                    .host = analysis->clock->host_of[dumps[0]],
                                    .dumps = dumps,
                                    .dump_count = count,
                                    .slowdown_ratio = verdict->ratio > 1 ? verdict->ratio : 1,
                                    .persistence = verdict->persistence,
                                    .confidence = verdict->confidence,
                                    .slowest = verdict->slowest,
                                    .batches = batches->count,
                                    .by_steps = batches->rows == ROWS_ARE_STEPS,
                                    .marked = batches->marked,
                                    .communicator = NOWHERE};
    return add_costs(analysis, batches, straggler);
}

static bool is_known_by_waits(const struct straggler_analysis *analysis, const struct time_batches *batches) {
    for (size_t i = 0; i < batches->dump_count; i++)
        if (analysis->times[batches->dumps[i]].hidden_ns > analysis->window_ns / VERDICT_SHARE)
            return true;
    return false;
}

static bool is_material(const struct straggler_analysis *analysis, const struct straggler *straggler) {
    int64_t cost = straggler->waited_for_ns;
    cost = straggler->others_comm_ns > cost ? straggler->others_comm_ns : cost;
    cost = straggler->done_later_ns > cost ? straggler->done_later_ns : cost;
    int64_t least = analysis->window_ns / VERDICT_SHARE + 1;
    double ratio = straggler->at_times ? straggler->when.slow_ratio : straggler->slowdown_ratio;
    return ratio >= SLOW_RATIO && cost >= least && straggler->extra_ns >= least;
}

/* A host is the answer when it is slow as a whole: most of its ranks are above their peers. */
static bool is_slow_host(const struct straggler_analysis *analysis, const struct time_batches *batches,
                         const struct host_column *host, size_t host_count) {
    if (host_count < 2 || host->count < 2 || host->verdict.confidence < CONFIDENCE_VERDICT)
        return false;
    size_t slow = 0;
    for (size_t i = 0; i < host->count; i++) {
        const struct significance *rank = &analysis->ranks[batches->dumps[host->columns[i]]];
        slow += rank->ratio >= 1 + (SLOW_RATIO - 1) / 2 && rank->persistence >= 0.5;
    }
    return 4 * slow >= 3 * host->count;
}

static bool name_hosts(struct verdicts *verdicts, const struct host_columns *hosts) {
    struct straggler_analysis *analysis = verdicts->analysis;
    for (size_t h = 0; h < hosts->count; h++) {
        const struct host_column *host = &hosts->items[h];
        if (!is_slow_host(analysis, verdicts->batches, host, hosts->count))
            continue;
        for (size_t i = 0; i < host->count; i++)
            verdicts->lists[i] = verdicts->batches->dumps[host->columns[i]];
        if (!verdicts_may_hold_up(analysis, verdicts->lists, host->count))
            continue;
        struct straggler straggler;
        if (!make_straggler(analysis, STRAGGLER_HOST, &host->verdict, verdicts->lists, host->count, verdicts->batches,
                            &straggler))
            return false;
        if (!is_material(analysis, &straggler))
            continue;
        for (size_t i = 0; i < host->count; i++)
            verdicts->explained[verdicts->lists[i]] = true;
        verdicts->lists += host->count;
        analysis->stragglers[analysis->straggler_count++] = straggler;
    }
    return true;
}

/* Whether a rank's work may lie in another stretch than the others' who have as much of it. Not all ranks meet where a
 * message ends a stretch: what one does before it others do after it. And where a GPU works beside a collective it
 * depends on who waits for how long whether that was over before. */
static bool may_fall_elsewhere(const struct straggler_analysis *analysis, const struct rank_times *times) {
    return times->cut.kind == CUT_MESSAGE || (times->beside.count > 0 && !analysis->beside_left_out);
}

/* A rank whose leads are more than chance gives it: what it is slower by in all counts, and what its leads cost. */
static bool make_slow_at_times(const struct verdicts *verdicts, size_t dump, struct straggler *straggler) {
    const struct straggler_analysis *analysis = verdicts->analysis;
    const struct rank_leads *leads = &analysis->leads[dump];
    const struct significance verdict = {.ratio = leads->self_ratio,
                                         .persistence = (double)leads->slow_rows / (double)leads->rows,
                                         .slowest = analysis->ranks[dump].slowest,
                                         .confidence = leads->confidence};
    if (!make_straggler(analysis, STRAGGLER_RANK, &verdict, verdicts->lists, 1, verdicts->batches, straggler))
        return false;
    /* beside whom it does next to nothing, usually, as a master of many, those do other work */
    bool is_idle = !leads->phase && leads->usual_ratio * VERDICT_SHARE < 1,
         without_peer = leads->without_peer || is_idle;
    straggler->at_times = true;
    straggler->when = *leads;
    straggler->when.without_peer = without_peer;
    double stretches = (double)stretches_of(&analysis->times[dump]);
    straggler->longer_ns = ns_clamped(leads->longer_ns * (double)leads->slow_rows / (double)leads->rows * stretches);
    straggler->extra_ns = without_peer ? straggler->longer_ns : ns_clamped(leads->lead_ns * stretches);
    int64_t more = straggler->extra_ns;
    uint32_t among = analysis->times[dump].cut.kind == CUT_MESSAGE ? NOWHERE : analysis->class_of[dump];
    if (!without_peer && may_fall_elsewhere(analysis, &analysis->times[dump]) &&
        !compare_totals(analysis, verdicts->batches, straggler, among, &more))
        return false;
    more = more > 0 ? more : 0;
    straggler->extra_ns = more < straggler->extra_ns ? more : straggler->extra_ns;
    return true;
}

/* Whether a rank is suspected: all the while, else at times. A rank that is slow in its median stretch is slow all the
 * while; a long run's batches hold many stretches, and are slow also where few of these are. */
static bool make_rank(const struct verdicts *verdicts, size_t dump, struct straggler *straggler, bool *suspected) {
    struct straggler_analysis *analysis = verdicts->analysis;
    const struct significance *rank = &analysis->ranks[dump];
    const struct rank_leads *leads = &analysis->leads[dump];
    verdicts->lists[0] = dump;
    *suspected = rank->confidence >= CONFIDENCE_SUSPECT;
    if (*suspected && !make_straggler(analysis, STRAGGLER_RANK, rank, verdicts->lists, 1, verdicts->batches, straggler))
        return false;
    *suspected = *suspected && is_material(analysis, straggler);
    bool by_waits = verdicts->by_waits;
    bool by_steps =
        verdicts->batches->rows == ROWS_ARE_STEPS; /* which are what comes again: their median is the usual */
    bool throughout =
        rank->confidence >= CONFIDENCE_VERDICT && (by_waits || by_steps || leads->usual_ratio >= SLOW_RATIO);
    if ((*suspected && throughout) || leads->confidence < (*suspected ? CONFIDENCE_VERDICT : CONFIDENCE_SUSPECT))
        return true;
    struct straggler at_times;
    if (!make_slow_at_times(verdicts, dump, &at_times))
        return false;
    if (!is_material(analysis, &at_times) || (by_waits && at_times.slowdown_ratio < SLOW_RATIO))
        return true;
    *suspected = true;
    *straggler = at_times;
    return true;
}

/* The communicator whose members are just the stragglers from `first` on, NOWHERE where there is none. */
static uint32_t communicator_of(const struct straggler_analysis *analysis, size_t first) {
    const struct match_directory *directory = analysis->directory;
    size_t count = analysis->straggler_count - first;
    for (uint32_t c = 0; c < directory->communicator_count; c++) {
        const struct match_communicator *communicator = &directory->communicators[c];
        size_t same = 0;
        if (communicator->kind != COMMUNICATOR_INTRA || communicator->dump_count != count)
            continue;
        for (uint32_t i = 0; i < communicator->dump_count; i++)
            for (size_t s = first; s < analysis->straggler_count; s++)
                same += analysis->stragglers[s].dumps[0] == communicator->dump_of[i];
        if (same == count)
            return c;
    }
    return NOWHERE;
}

/* As slow as the least slow of them, and as sure as the least sure. */
static struct significance weakest_of(const struct straggler *stragglers, size_t count) {
    struct significance weakest = {INFINITY, 1, 1, 0, 1};
    for (size_t i = 0; i < count; i++) {
        weakest.ratio = fmin(weakest.ratio, stragglers[i].slowdown_ratio);
        weakest.persistence = fmin(weakest.persistence, stragglers[i].persistence);
        weakest.slowest = fmin(weakest.slowest, stragglers[i].slowest);
        weakest.confidence = fmin(weakest.confidence, stragglers[i].confidence);
    }
    return weakest;
}

/* Where the stragglers from `first` on have a communicator of their own, they are slow together: one straggler. */
static bool name_together(struct verdicts *verdicts, size_t first, bool *together) {
    struct straggler_analysis *analysis = verdicts->analysis;
    size_t count = analysis->straggler_count - first;
    uint32_t communicator = communicator_of(analysis, first);
    *together = communicator != NOWHERE;
    if (!*together)
        return true;
    const struct significance verdict = weakest_of(analysis->stragglers + first, count);
    for (size_t i = 0; i < count; i++)
        verdicts->lists[i] = analysis->directory->communicators[communicator].dump_of[i];
    analysis->straggler_count = first + 1;
    struct straggler *straggler = &analysis->stragglers[first];
    bool done =
        make_straggler(analysis, STRAGGLER_RANK_CLASS, &verdict, verdicts->lists, count, verdicts->batches, straggler);
    straggler->communicator = communicator;
    verdicts->lists += count;
    return done;
}

/* The ranks' table says the same as the verdict. */
static void tell_of_leads(struct straggler_analysis *analysis, size_t dump) {
    const struct rank_leads *leads = &analysis->leads[dump];
    analysis->ranks[dump].ratio = leads->self_ratio;
    analysis->ranks[dump].persistence = (double)leads->slow_rows / (double)leads->rows;
    analysis->ranks[dump].confidence = leads->confidence;
}

static int compare_extra(const void *a, const void *b) {
    const struct straggler *left = a, *right = b;
    if (left->extra_ns != right->extra_ns)
        return left->extra_ns > right->extra_ns ? -1 : 1;
    return (left->dumps[0] > right->dumps[0]) - (left->dumps[0] < right->dumps[0]);
}

/* Where those that are too many take next to no longer beside the others, these are who is slow, and they in doubt. */
static void doubt_lesser(struct straggler_analysis *analysis, size_t before, size_t allowed) {
    struct straggler *named = analysis->stragglers + before;
    size_t count = analysis->straggler_count - before;
    int64_t all_ns = 0, lesser_ns = 0;
    qsort(named, count, sizeof *named, compare_extra);
    for (size_t i = 0; i < count; i++) {
        all_ns = add_ns(all_ns, named[i].extra_ns);
        lesser_ns = add_ns(lesser_ns, i < allowed ? 0 : named[i].extra_ns);
    }
    if (lesser_ns > all_ns / VERDICT_LESSER_SHARE)
        return;
    for (size_t i = allowed; i < count; i++) {
        named[i].confidence = CONFIDENCE_DOUBTED;
        analysis->ranks[named[i].dumps[0]].confidence = CONFIDENCE_DOUBTED;
        analysis->suspects[analysis->suspect_count++] = named[i];
    }
    analysis->straggler_count = before + allowed;
}

static bool name_ranks(struct verdicts *verdicts) {
    struct straggler_analysis *analysis = verdicts->analysis;
    size_t before = analysis->straggler_count;
    const struct task_totals totals = tasks_total(analysis, verdicts->batches->dumps, verdicts->batches->dump_count);
    for (size_t i = 0; i < verdicts->batches->dump_count; i++) {
        size_t dump = verdicts->batches->dumps[i];
        struct straggler straggler;
        bool suspected;
        if (verdicts->explained[dump] || !tasks_allow(analysis, dump, &totals))
            continue;
        if (!make_rank(verdicts, dump, &straggler, &suspected))
            return false;
        if (!suspected)
            continue;
        verdicts->lists++;
        if (straggler.at_times)
            tell_of_leads(analysis, dump);
        if (straggler.confidence >= CONFIDENCE_VERDICT)
            analysis->stragglers[analysis->straggler_count++] = straggler;
        else
            analysis->suspects[analysis->suspect_count++] = straggler;
    }
    size_t allowed = verdicts->batches->dump_count / VERDICT_UNEVEN_SHARE;
    size_t least = verdicts->batches->dump_count < VERDICT_TWO_OF ? 1 : 2;
    allowed = allowed > least ? allowed : least;
    if (analysis->straggler_count - before > allowed)
        doubt_lesser(analysis, before, allowed);
    if (analysis->straggler_count - before <= allowed)
        return true;
    bool together;
    if (!name_together(verdicts, before, &together))
        return false;
    if (together)
        return true;
    for (size_t i = before; i < analysis->straggler_count; i++)
        analysis->uneven[analysis->uneven_count++] = analysis->stragglers[i];
    analysis->straggler_count = before;
    return true;
}

/* ---- rank classes ---------------------------------------------------------------------------- */
/* Several ranks of one rank class, all slower than the others by as much as it is: how the work is dealt out. */
static bool name_rank_class(struct verdicts *verdicts, const struct rank_classes *classes, uint32_t rank_class,
                            const struct significance *verdict) {
    if (verdict->confidence < CONFIDENCE_VERDICT || classes->sizes[rank_class] < 2)
        return true;
    size_t count = 0;
    for (size_t i = 0; i < verdicts->batches->dump_count; i++)
        if (classes->class_of[i] == rank_class)
            verdicts->lists[count++] = verdicts->batches->dumps[i];
    struct straggler straggler;
    if (!make_straggler(verdicts->analysis, STRAGGLER_RANK_CLASS, verdict, verdicts->lists, count, verdicts->batches,
                        &straggler))
        return false;
    if (!is_material(verdicts->analysis, &straggler))
        return true;
    verdicts->lists += count;
    verdicts->analysis->stragglers[verdicts->analysis->straggler_count++] = straggler;
    return true;
}

static bool name_rank_classes(struct verdicts *verdicts, const struct rank_classes *classes) {
    struct significance *judged = calloc(classes->count, sizeof *judged);
    struct significance **sorted = calloc(classes->count, sizeof *sorted);
    bool done = judged && sorted && rank_classes_judge(classes, verdicts->batches, judged) >= 0;
    for (size_t r = 0; done && r < classes->count; r++) {
        judged[r].p = verdicts_chance(verdicts->analysis, judged[r].p);
        sorted[r] = &judged[r];
    }
    done = done && significance_correct(sorted, classes->count);
    for (uint32_t r = 0; done && r < classes->count; r++)
        done = name_rank_class(verdicts, classes, r, &judged[r]);
    free(judged);
    free(sorted);
    return done;
}

/* ---- all of a comparison group --------------------------------------------------------------- */
/* Without collectives, ranks that call differently (the ends of a sweep, the levels of a tree) do other work by design,
 * and the slowest of a stretch is not who all wait for: then neither rank classes are named nor turns. */
static bool meets_in_collectives(const struct straggler_analysis *analysis, const struct time_batches *batches) {
    const struct comparison_groups *groups = &analysis->comparison_groups;
    return !groups->collectives || groups->collectives[groups->group_of[batches->dumps[0]]];
}

/* Rank classes come first: what they explain is taken out of the batches before hosts, which may hold one rank class
 * each, are compared. */
bool verdicts_name_comparison_group(struct verdicts *verdicts, const struct rank_classes *classes,
                                    struct time_batches *batches) {
    struct host_columns hosts = {0};
    verdicts->batches = batches;
    verdicts->by_waits = is_known_by_waits(verdicts->analysis, batches);
    bool collectives = meets_in_collectives(verdicts->analysis, batches);
    /* what of its work communication hides says nothing of how the work is dealt out */
    bool uneven = classes->count > 1 && (collectives || classes->placed) && !verdicts->analysis->beside_left_out;
    bool done = !uneven || name_rank_classes(verdicts, classes);
    done = done && (classes->count < 2 || rank_classes_level(classes, batches));
    done =
        done && group_by_host(&hosts, verdicts->analysis, batches) && judge_hosts(&hosts, verdicts->analysis, batches);
    done = done && name_hosts(verdicts, &hosts) && name_ranks(verdicts);
    done = done && (!collectives || verdicts_name_rotating(verdicts, classes));
    free(hosts.items);
    free(hosts.columns);
    return done;
}

/* ---- links ------------------------------------------------------------------------------------- */
/* The ranks that a slow link concerns. Returns how many. */
static size_t list_link(const struct common_clock *clock, const struct slow_link *link, size_t *dumps) {
    size_t count = 0;
    if (link->scope == LINK_RANKS) {
        dumps[0] = link->from;
        dumps[1] = link->to;
        return 2;
    }
    for (size_t d = 0; d < clock->dump_count; d++)
        if (clock->host_of[d] == link->from || clock->host_of[d] == link->to)
            dumps[count++] = d;
    return count;
}

/* Slow links; what they cost must matter as it must of ranks. */
bool verdicts_name_links(struct verdicts *verdicts) {
    struct straggler_analysis *analysis = verdicts->analysis;
    struct slow_link slow[VERDICT_LINKS_MOST];
    size_t count = links_judge(&analysis->links, slow, VERDICT_LINKS_MOST);
    for (size_t i = 0; i < count && slow[i].extra_ns >= analysis->window_ns / VERDICT_SHARE + 1; i++) {
        bool ranks = slow[i].scope == LINK_RANKS;
        struct straggler straggler = {.kind = STRAGGLER_LINK,
                                      .host = ranks ? analysis->clock->host_of[slow[i].from] : slow[i].from,
                                      .dumps = verdicts->lists,
                                      .dump_count = list_link(analysis->clock, &slow[i], verdicts->lists),
                                      .waited_for_ns = slow[i].extra_ns,
                                      .extra_ns = slow[i].extra_ns,
                                      .slowdown_ratio = slow[i].ratio,
                                      .persistence = slow[i].persistence,
                                      .confidence = slow[i].confidence,
                                      .what_if_speedup = 1,
                                      .link = slow[i]};
        if (slow[i].layout || slow[i].alone)
            analysis->suspects[analysis->suspect_count++] = straggler;
        else
            analysis->stragglers[analysis->straggler_count++] = straggler;
        verdicts->lists += straggler.dump_count;
    }
    return !analysis->links.no_memory;
}

/* What only collectives show, where nothing that is named already explains it. */
bool verdicts_name_groups(struct straggler_analysis *analysis, bool *explained) {
    struct slow_group slow[SLOW_GROUPS_MOST];
    memset(explained, 0, analysis->directory->dump_count * sizeof *explained);
    for (size_t i = 0; i < analysis->straggler_count; i++) {
        const struct straggler *named = &analysis->stragglers[i];
        if (named->kind == STRAGGLER_RANK_CLASS || named->kind == STRAGGLER_ROTATING)
            continue;
        for (size_t d = 0; d < named->dump_count; d++)
            explained[named->dumps[d]] = true;
    }
    size_t count = group_links_judge(&analysis->groups, explained, slow, SLOW_GROUPS_MOST);
    for (size_t i = 0; i < count && slow[i].extra_ns >= analysis->window_ns / VERDICT_SHARE + 1; i++)
        analysis->slow_groups[analysis->slow_group_count++] = slow[i];
    return !analysis->groups.no_memory;
}
