/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: hosts as a whole, what a straggler costs, who is named. Must not live here: the statistics.
 */
#include "analyzer/stragglers/verdicts.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/statistics.h"

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

static bool judge_hosts(struct host_columns *hosts, const struct time_batches *batches) {
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
    if (done && significance_judge(table, batches->count, hosts->count, verdicts) >= 0) {
        for (size_t h = 0; h < hosts->count; h++) {
            hosts->items[h].verdict = verdicts[h];
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
    free(others);
    return true;
}

/* A rank's own time per collective that ranks are compared by; 0 where there is none. */
static int64_t work_of(const struct rank_times *times) {
    int64_t calls = 0;
    for (uint32_t i = 0; i < times->bins.count; i++)
        calls += times->bins.calls[i];
    return calls > 0 ? times->self_ns / calls : 0;
}

/* What the slowest of a straggler's ranks and the median of the others take between two collectives. */
static bool compare_work(const struct straggler_analysis *analysis, const struct time_batches *batches,
                         struct straggler *straggler) {
    int64_t *others = calloc(batches->dump_count, sizeof *others);
    size_t count = 0;
    if (!others)
        return false;
    for (size_t i = 0; i < batches->dump_count; i++) {
        int64_t work = work_of(&analysis->times[batches->dumps[i]]);
        if (!straggler_concerns(straggler, batches->dumps[i]))
            others[count++] = work;
        else if (work > straggler->work_ns)
            straggler->work_ns = work;
    }
    if (count > 0)
        straggler->others_work_ns = median_high_int64(others, count);
    free(others);
    return true;
}

/* Gathers what a straggler costs, and what mending it would give. */
static bool add_costs(const struct straggler_analysis *analysis, const struct time_batches *batches,
                      struct straggler *straggler) {
    int64_t mended = 0, self = 0;
    for (size_t i = 0; i < straggler->dump_count; i++) {
        const struct rank_waits *waits = &analysis->waits.ranks[straggler->dumps[i]];
        straggler->imposed_ns =
            add_ns(straggler->imposed_ns, analysis->delay_costs.ranks[straggler->dumps[i]].imposed_ns);
        straggler->waited_for_ns = add_ns(straggler->waited_for_ns, waits->waited_for_ns);
        mended = add_ns(mended, waits->mended_ns);
        if (analysis->times[straggler->dumps[i]].self_ns > self)
            self = analysis->times[straggler->dumps[i]].self_ns;
    }
    if (!compare_communication(analysis, batches, straggler) || !compare_work(analysis, batches, straggler))
        return false;
    straggler->extra_ns = ns_clamped((double)self * (1 - 1 / straggler->slowdown_ratio));
    /* Ranks of one host arrive together: what they impose as a group is their extra work, not their last one's lead.
     * Where collectives show little of what the others wait, they wait elsewhere for the extra work. */
    int64_t shown = straggler->kind == STRAGGLER_RANK ? mended : straggler->waited_for_ns;
    int64_t others = (int64_t)(batches->dump_count - straggler->dump_count);
    if (straggler->waited_for_ns / (others > 0 ? others : 1) < straggler->others_comm_ns / 2)
        shown = straggler->others_comm_ns;
    int64_t gain = straggler->extra_ns < shown ? straggler->extra_ns : shown;
    int64_t window = analysis->window_ns;
    straggler->what_if_speedup = gain > 0 && gain < window ? (double)window / (double)(window - gain) : 1;
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
                                    .batches = batches->count};
    return add_costs(analysis, batches, straggler);
}

static bool is_material(const struct straggler_analysis *analysis, const struct straggler *straggler) {
    int64_t cost = straggler->waited_for_ns;
    if (straggler->others_comm_ns > cost)
        cost = straggler->others_comm_ns;
    int64_t least = analysis->window_ns / VERDICT_SHARE + 1;
    return straggler->slowdown_ratio >= SLOW_RATIO && cost >= least && straggler->extra_ns >= least;
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

static bool name_ranks(struct verdicts *verdicts) {
    struct straggler_analysis *analysis = verdicts->analysis;
    size_t before = analysis->straggler_count;
    for (size_t i = 0; i < verdicts->batches->dump_count; i++) {
        size_t dump = verdicts->batches->dumps[i];
        if (verdicts->explained[dump] || analysis->ranks[dump].confidence < CONFIDENCE_SUSPECT)
            continue;
        verdicts->lists[0] = dump;
        struct straggler straggler;
        if (!make_straggler(analysis, STRAGGLER_RANK, &analysis->ranks[dump], verdicts->lists, 1, verdicts->batches,
                            &straggler))
            return false;
        if (!is_material(analysis, &straggler))
            continue;
        verdicts->lists++;
        if (straggler.confidence >= CONFIDENCE_VERDICT)
            analysis->stragglers[analysis->straggler_count++] = straggler;
        else
            analysis->suspects[analysis->suspect_count++] = straggler;
    }
    size_t named = analysis->straggler_count - before;
    size_t allowed = verdicts->batches->dump_count / VERDICT_UNEVEN_SHARE;
    if (named <= (allowed > 1 ? allowed : 1))
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
    for (size_t r = 0; done && r < classes->count; r++)
        sorted[r] = &judged[r];
    done = done && significance_correct(sorted, classes->count);
    for (uint32_t r = 0; done && r < classes->count; r++)
        done = name_rank_class(verdicts, classes, r, &judged[r]);
    free(judged);
    free(sorted);
    return done;
}

/* ---- all of a comparison group --------------------------------------------------------------- */
/* Rank classes come first: what they explain is taken out of the batches before hosts, which may hold one rank class
 * each, are compared. */
bool verdicts_name_comparison_group(struct verdicts *verdicts, const struct rank_classes *classes,
                                    struct time_batches *batches) {
    struct host_columns hosts = {0};
    verdicts->batches = batches;
    bool done = classes->count < 2 || (name_rank_classes(verdicts, classes) && rank_classes_level(classes, batches));
    done = done && group_by_host(&hosts, verdicts->analysis, batches) && judge_hosts(&hosts, batches);
    done = done && name_hosts(verdicts, &hosts) && name_ranks(verdicts) && verdicts_name_rotating(verdicts, classes);
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
