/* SPDX-License-Identifier: Apache-2.0
 *
 * Who makes the others wait.
 * Lives here: running the walk, judging cohorts and hosts, and what makes a suspicion a claim.
 * Must not live here: the statistics (significance.c), opening files, printing.
 */
#include "analyzer/analyse/stragglers.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/analyse/blocks.h"
#include "analyzer/analyse/turns.h"

enum {
    BINS_IN_ALL = 1 << 22,
    BINS_MOST = 2048,
    BINS_LEAST = 128,
    SEGMENTS_IN_ALL = 1 << 14, /* of samples; 8 MiB */
    SEGMENTS_MOST = 64,
    SEGMENTS_LEAST = 2,
    MATERIAL_SHARE = 100,      /* waits of at least one hundredth of the time looked at matter */
    BLOCK_NS_LEAST = 10000000, /* within a few time slices of the scheduler nothing is independent */
    LINKS_MOST = 16,           /* named; the costliest */
    WHAT_IFS_MOST = 12,        /* replays for the costliest of those named */
    UNEVEN_SHARE = 3,          /* more than a third of the ranks slow: not stragglers */
};

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

struct worker {
    struct straggler_analysis *analysis;
    struct causes_build *causes;
    struct replay_build *replay;
    unsigned number;
    struct waits waits;
    struct links links;
    struct waits shown; /* where `filter` is not NULL */
    const struct filter *filter;
    struct group_links groups;
};

static bool is_shown(const struct worker *worker, const struct match_communicator *communicator, uint16_t call) {
    const struct match_directory *directory = worker->analysis->directory;
    return worker->filter && call != CALL_UNKNOWN && filter_op(worker->filter, directory->calls[call].name->name) &&
           filter_comm(worker->filter, communicator->uid, communicator->name);
}

static void take_instance(void *state, const struct match_instance *instance) {
    struct worker *worker = state;
    waits_add(&worker->waits, instance);
    if (is_shown(worker, instance->communicator, instance->call))
        waits_add(&worker->shown, instance);
    group_links_add(&worker->groups, instance);
    replay_add_instance(worker->replay, worker->number, instance);
}

static void take_message(void *state, const struct match_message *message) {
    struct worker *worker = state;
    waits_add_message(&worker->waits, message);
    const struct match_communicator *communicator = &worker->analysis->directory->communicators[message->communicator];
    if (is_shown(worker, communicator, message->send.call) || is_shown(worker, communicator, message->receive.call))
        waits_add_message(&worker->shown, message);
    links_add(&worker->links, message);
    replay_add_message(worker->replay, worker->number, message);
}

static void take_record(void *state, const struct match_record *item) {
    struct worker *worker = state;
    struct straggler_analysis *analysis = worker->analysis;
    const struct call_name *call = item->call == CALL_UNKNOWN ? NULL : analysis->directory->calls[item->call].name;
    causes_add_record(worker->causes, worker->number, item);
    links_note(&worker->links, item, call);
    replay_add_record(worker->replay, worker->number, item);
    rank_times_add(&analysis->times[item->dump], item, call);
    role_profile_add(&analysis->profiles[item->dump], item);
    bool launch = item->record->kind == RECORD_EXPOSED || (call && call->api == API_NCCL);
    if (launch && !rank_launches_add(&analysis->launches[item->dump], item))
        __atomic_store_n(&analysis->no_memory, true, __ATOMIC_RELAXED);
}

static bool walk(struct straggler_analysis *analysis, struct replay *replay, const struct straggler_request *request,
                 struct match_sink *sink) {
    struct worker work[MATCH_WORKERS_MAX] = {0};
    void *states[MATCH_WORKERS_MAX];
    const struct filter *shown = request->shown;
    unsigned workers = match_workers(request->workers);
    struct causes_build *build = causes_begin(analysis->clock, analysis->directory, workers);
    struct replay_build *again =
        replay_begin(analysis->clock, analysis->directory, analysis->cohorts.reference, workers);
    bool done = build && again && waits_init(&analysis->waits, analysis->clock, analysis->directory) &&
                (!shown || waits_init(&analysis->shown, analysis->clock, analysis->directory));
    for (unsigned w = 0; w < workers; w++) {
        work[w].analysis = analysis;
        work[w].causes = build;
        work[w].replay = again;
        work[w].number = w;
        work[w].filter = shown;
        done = links_init(&work[w].links, analysis->clock, analysis->directory) && done;
        group_links_init(&work[w].groups, analysis->clock, analysis->directory);
        states[w] = &work[w];
        done = done && waits_init(&work[w].waits, analysis->clock, analysis->directory) &&
               (!shown || waits_init(&work[w].shown, analysis->clock, analysis->directory));
        if (done)
            work[w].waits.listener = causes_listener(build, w);
    }
    sink->instance = take_instance;
    sink->record = take_record;
    sink->message = take_message;
    done = done && match_run(analysis->clock, analysis->directory, sink, states, workers, &analysis->totals);
    for (unsigned w = 0; w < workers; w++) {
        if (done) {
            waits_finish(&work[w].waits);
            waits_merge(&analysis->waits, &work[w].waits);
            if (shown) {
                waits_finish(&work[w].shown);
                waits_merge(&analysis->shown, &work[w].shown);
            }
            links_finish(&work[w].links);
            links_merge(&analysis->links, &work[w].links);
            group_links_merge(&analysis->groups, &work[w].groups);
        }
        waits_free(&work[w].waits);
        waits_free(&work[w].shown);
        links_free(&work[w].links);
        group_links_free(&work[w].groups);
    }
    done = done && !analysis->no_memory && !analysis->waits.no_memory;
    if (!done) {
        causes_drop(build);
        replay_drop(again);
        return false;
    }
    done = causes_finish(&analysis->causes, build);
    return replay_finish(replay, again) && done;
}

static bool prepare(struct straggler_analysis *analysis) {
    size_t count = analysis->directory->dump_count;
    uint32_t bins = (uint32_t)(BINS_IN_ALL / count);
    bins = bins > BINS_MOST ? BINS_MOST : bins < BINS_LEAST ? BINS_LEAST : bins;
    uint32_t segments = (uint32_t)(SEGMENTS_IN_ALL / count);
    segments = segments > SEGMENTS_MOST ? SEGMENTS_MOST : segments < SEGMENTS_LEAST ? SEGMENTS_LEAST : segments;
    analysis->times = calloc(count, sizeof *analysis->times);
    analysis->ranks = calloc(count, sizeof *analysis->ranks);
    analysis->launches = calloc(count, sizeof *analysis->launches);
    analysis->profiles = calloc(count, sizeof *analysis->profiles);
    analysis->role_of = malloc(count * sizeof *analysis->role_of);
    analysis->stage_of = calloc(count, sizeof *analysis->stage_of);
    if (!analysis->role_of || !analysis->stage_of || !analysis->times || !analysis->ranks || !analysis->launches ||
        !analysis->profiles || !cohorts_choose(&analysis->cohorts, analysis->directory))
        return false;
    for (size_t d = 0; d < count; d++) {
        analysis->ranks[d].p = 1;
        analysis->role_of[d] = NOWHERE;
        if (!rank_times_init(&analysis->times[d], analysis->cohorts.reference[d], bins, segments,
                             dump_has_device_times(analysis->directory->dumps[d])))
            return false;
    }
    return true;
}

static void measure(struct straggler_analysis *analysis) {
    analysis->from_ns = INT64_MAX;
    analysis->to_ns = INT64_MIN;
    for (size_t d = 0; d < analysis->directory->dump_count; d++) {
        struct rank_times *times = &analysis->times[d];
        rank_times_finish(times);
        if (times->from_ns > times->to_ns)
            continue;
        if (times->from_ns < analysis->from_ns)
            analysis->from_ns = times->from_ns;
        if (times->to_ns > analysis->to_ns)
            analysis->to_ns = times->to_ns;
        if (times->window_ns > analysis->window_ns)
            analysis->window_ns = times->window_ns;
    }
}

/* ---- hosts ----------------------------------------------------------------------------------- */

/* Columns of a cohort's table, by host. */
struct host_column {
    uint32_t host;
    size_t *columns; /* indices into blocks.dumps */
    size_t count;
    struct significance verdict;
};

struct host_columns {
    struct host_column *items;
    size_t count;
    size_t *columns; /* what items[].columns points into */
};

static bool group_by_host(struct host_columns *hosts, const struct straggler_analysis *analysis,
                          const struct blocks *blocks) {
    *hosts = (struct host_columns){.items = calloc(analysis->clock->host_count, sizeof *hosts->items),
                                   .columns = calloc(blocks->dump_count, sizeof *hosts->columns)};
    if (!hosts->items || !hosts->columns)
        return false;
    size_t used = 0;
    for (uint32_t h = 0; h < analysis->clock->host_count; h++) {
        struct host_column *column = &hosts->items[hosts->count];
        *column = (struct host_column){.host = h, .columns = hosts->columns + used};
        for (size_t i = 0; i < blocks->dump_count; i++)
            if (analysis->clock->host_of[blocks->dumps[i]] == h)
                column->columns[column->count++] = i;
        used += column->count;
        hosts->count += column->count > 0;
    }
    return true;
}

static int compare_times(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* A host's time in a block is the median of its ranks'. */
static int64_t host_time(const struct blocks *blocks, size_t block, const struct host_column *host, int64_t *scratch) {
    for (size_t i = 0; i < host->count; i++)
        scratch[i] = blocks->self_ns[block * blocks->dump_count + host->columns[i]];
    qsort(scratch, host->count, sizeof *scratch, compare_times);
    return scratch[(host->count - 1) / 2];
}

static bool judge_hosts(struct host_columns *hosts, const struct blocks *blocks) {
    if (hosts->count < 2)
        return true;
    int64_t *table = calloc(blocks->count * hosts->count + 1, sizeof *table);
    int64_t *scratch = calloc(blocks->dump_count, sizeof *scratch);
    struct significance *verdicts = calloc(hosts->count, sizeof *verdicts);
    struct significance **sorted = calloc(hosts->count, sizeof *sorted);
    bool done = table && scratch && verdicts && sorted;
    for (size_t b = 0; done && b < blocks->count; b++)
        for (size_t h = 0; h < hosts->count; h++)
            table[b * hosts->count + h] = host_time(blocks, b, &hosts->items[h], scratch);
    if (done && significance_judge(table, blocks->count, hosts->count, verdicts) >= 0) {
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

/* ---- claims ---------------------------------------------------------------------------------- */

static bool concerns(const struct straggler *straggler, size_t dump) {
    for (size_t i = 0; i < straggler->dump_count; i++)
        if (straggler->dumps[i] == dump)
            return true;
    return false;
}

/* How much longer the other ranks of the cohort sit in communication: also waits that are in no collective. */
static bool compare_communication(const struct straggler_analysis *analysis, const struct blocks *blocks,
                                  struct straggler *straggler) {
    int64_t *others = calloc(blocks->dump_count, sizeof *others);
    size_t count = 0;
    int64_t own = INT64_MAX;
    if (!others)
        return false;
    for (size_t i = 0; i < blocks->dump_count; i++) {
        int64_t comm = analysis->times[blocks->dumps[i]].comm_ns;
        if (!concerns(straggler, blocks->dumps[i]))
            others[count++] = comm;
        else if (comm < own)
            own = comm;
    }
    qsort(others, count, sizeof *others, compare_times);
    if (count > 0 && others[count / 2] > own)
        straggler->others_comm_ns = others[count / 2] - own;
    free(others);
    return true;
}

/* Gathers what a straggler costs, and what mending it would give. */
static bool add_costs(const struct straggler_analysis *analysis, const struct blocks *blocks,
                      struct straggler *straggler) {
    int64_t mended = 0, self = 0;
    for (size_t i = 0; i < straggler->dump_count; i++) {
        const struct rank_waits *waits = &analysis->waits.ranks[straggler->dumps[i]];
        straggler->imposed_ns = add_ns(straggler->imposed_ns, analysis->causes.ranks[straggler->dumps[i]].imposed_ns);
        straggler->waited_for_ns = add_ns(straggler->waited_for_ns, waits->waited_for_ns);
        mended = add_ns(mended, waits->mended_ns);
        if (analysis->times[straggler->dumps[i]].self_ns > self)
            self = analysis->times[straggler->dumps[i]].self_ns;
    }
    if (!compare_communication(analysis, blocks, straggler))
        return false;
    straggler->extra_ns = (int64_t)((double)self * (1 - 1 / straggler->slowdown_ratio));
    /* Ranks of one host arrive together: what they impose as a group is their extra work, not their last one's lead.
     * Where collectives show little of what the others wait, they wait elsewhere for the extra work. */
    int64_t shown = straggler->kind == STRAGGLER_RANK ? mended : straggler->waited_for_ns;
    int64_t others = (int64_t)(blocks->dump_count - straggler->dump_count);
    if (straggler->waited_for_ns / (others > 0 ? others : 1) < straggler->others_comm_ns / 2)
        shown = straggler->others_comm_ns;
    int64_t gain = straggler->extra_ns < shown ? straggler->extra_ns : shown;
    int64_t window = analysis->window_ns;
    straggler->what_if_speedup = gain > 0 && gain < window ? (double)window / (double)(window - gain) : 1;
    return true;
}

static bool make_straggler(const struct straggler_analysis *analysis, enum straggler_kind kind,
                           const struct significance *verdict, const size_t *dumps, size_t count,
                           const struct blocks *blocks, struct straggler *straggler) {
    *straggler = (struct straggler){.kind = kind,
                                    .host = analysis->clock->host_of[dumps[0]],
                                    .dumps = dumps,
                                    .dump_count = count,
                                    .slowdown_ratio = verdict->ratio > 1 ? verdict->ratio : 1,
                                    .persistence = verdict->persistence,
                                    .confidence = verdict->confidence,
                                    .slowest = verdict->slowest,
                                    .blocks = blocks->count};
    return add_costs(analysis, blocks, straggler);
}

static bool is_material(const struct straggler_analysis *analysis, const struct straggler *straggler) {
    int64_t cost = straggler->waited_for_ns;
    if (straggler->others_comm_ns > cost)
        cost = straggler->others_comm_ns;
    int64_t least = analysis->window_ns / MATERIAL_SHARE + 1;
    return straggler->slowdown_ratio >= SLOW_RATIO && cost >= least && straggler->extra_ns >= least;
}

/* A host is the answer when it is slow as a whole: most of its ranks are above their peers. */
static bool is_slow_host(const struct straggler_analysis *analysis, const struct blocks *blocks,
                         const struct host_column *host, size_t host_count) {
    if (host_count < 2 || host->count < 2 || host->verdict.confidence < CONFIDENCE_CLAIM)
        return false;
    size_t slow = 0;
    for (size_t i = 0; i < host->count; i++) {
        const struct significance *rank = &analysis->ranks[blocks->dumps[host->columns[i]]];
        slow += rank->ratio >= 1 + (SLOW_RATIO - 1) / 2 && rank->persistence >= 0.5;
    }
    return 4 * slow >= 3 * host->count;
}

/* Where a cohort's verdicts are gathered. */
struct verdicts {
    struct straggler_analysis *analysis;
    const struct blocks *blocks;
    size_t *lists;   /* next free place in dump_lists */
    bool *explained; /* per dump: its host is named */
};

static bool name_hosts(struct verdicts *verdicts, const struct host_columns *hosts) {
    struct straggler_analysis *analysis = verdicts->analysis;
    for (size_t h = 0; h < hosts->count; h++) {
        const struct host_column *host = &hosts->items[h];
        if (!is_slow_host(analysis, verdicts->blocks, host, hosts->count))
            continue;
        for (size_t i = 0; i < host->count; i++)
            verdicts->lists[i] = verdicts->blocks->dumps[host->columns[i]];
        struct straggler straggler;
        if (!make_straggler(analysis, STRAGGLER_HOST, &host->verdict, verdicts->lists, host->count, verdicts->blocks,
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
    for (size_t i = 0; i < verdicts->blocks->dump_count; i++) {
        size_t dump = verdicts->blocks->dumps[i];
        if (verdicts->explained[dump] || analysis->ranks[dump].confidence < CONFIDENCE_SUSPECT)
            continue;
        verdicts->lists[0] = dump;
        struct straggler straggler;
        if (!make_straggler(analysis, STRAGGLER_RANK, &analysis->ranks[dump], verdicts->lists, 1, verdicts->blocks,
                            &straggler))
            return false;
        if (!is_material(analysis, &straggler))
            continue;
        verdicts->lists++;
        if (straggler.confidence >= CONFIDENCE_CLAIM)
            analysis->stragglers[analysis->straggler_count++] = straggler;
        else
            analysis->suspects[analysis->suspect_count++] = straggler;
    }
    size_t named = analysis->straggler_count - before;
    size_t allowed = verdicts->blocks->dump_count / UNEVEN_SHARE;
    if (named <= (allowed > 1 ? allowed : 1))
        return true;
    for (size_t i = before; i < analysis->straggler_count; i++)
        analysis->uneven[analysis->uneven_count++] = analysis->stragglers[i];
    analysis->straggler_count = before;
    return true;
}

/* ---- cohorts --------------------------------------------------------------------------------- */

static size_t list_members(const struct straggler_analysis *analysis, size_t cohort, size_t *members) {
    size_t count = 0;
    for (size_t d = 0; d < analysis->directory->dump_count; d++)
        if (analysis->cohorts.cohort_of[d] == cohort)
            members[count++] = d;
    return count;
}

static bool judge_columns(struct straggler_analysis *analysis, const struct blocks *blocks, const struct roles *roles) {
    struct significance *verdicts = calloc(blocks->dump_count, sizeof *verdicts);
    if (!verdicts)
        return false;
    double independent = roles_judge_ranks(roles, blocks, verdicts);
    for (size_t i = 0; i < blocks->dump_count; i++)
        analysis->ranks[blocks->dumps[i]] = verdicts[i];
    if (blocks->count > analysis->blocks) {
        analysis->blocks = blocks->count;
        analysis->independent_blocks = independent;
    }
    free(verdicts);
    return independent >= 0;
}

static bool judge_cohorts(struct straggler_analysis *analysis, struct blocks *blocks, struct roles *roles,
                          size_t *members) {
    size_t most = (size_t)(analysis->window_ns / BLOCK_NS_LEAST);
    most = most > BLOCKS_MOST ? BLOCKS_MOST : most + (most == 0);
    uint32_t all_roles = 0;
    for (size_t c = 0; c < analysis->cohorts.count; c++) {
        size_t count = list_members(analysis, c, members);
        if (!blocks_make(&blocks[c], analysis->times, members, count, most))
            return false;
        if (blocks[c].dump_count < 2)
            continue;
        if (!roles_find(&roles[c], analysis->profiles, analysis->cohorts.reference, analysis->directory,
                        analysis->cohorts.communicators[c], &blocks[c]) ||
            !judge_columns(analysis, &blocks[c], &roles[c]))
            return false;
        for (size_t i = 0; i < blocks[c].dump_count; i++) {
            analysis->role_of[blocks[c].dumps[i]] = all_roles + roles[c].role_of[i];
            analysis->stage_of[blocks[c].dumps[i]] = roles[c].stage_of[i];
        }
        all_roles += (uint32_t)roles[c].count;
    }
    struct significance **all = calloc(analysis->directory->dump_count, sizeof *all);
    size_t judged = 0;
    if (!all)
        return false;
    for (size_t d = 0; d < analysis->directory->dump_count; d++)
        if (analysis->ranks[d].ratio > 0)
            all[judged++] = &analysis->ranks[d];
    bool done = significance_correct(all, judged);
    free(all);
    return done;
}

/* Several ranks of one role, all slower than the others by as much as it is: how the work is dealt out. */
static bool name_role(struct verdicts *verdicts, const struct roles *roles, uint32_t role,
                      const struct significance *verdict) {
    if (verdict->confidence < CONFIDENCE_CLAIM || roles->sizes[role] < 2)
        return true;
    size_t count = 0;
    for (size_t i = 0; i < verdicts->blocks->dump_count; i++)
        if (roles->role_of[i] == role)
            verdicts->lists[count++] = verdicts->blocks->dumps[i];
    struct straggler straggler;
    if (!make_straggler(verdicts->analysis, STRAGGLER_ROLE, verdict, verdicts->lists, count, verdicts->blocks,
                        &straggler))
        return false;
    if (!is_material(verdicts->analysis, &straggler))
        return true;
    verdicts->lists += count;
    verdicts->analysis->stragglers[verdicts->analysis->straggler_count++] = straggler;
    return true;
}

static bool name_roles(struct verdicts *verdicts, const struct roles *roles) {
    struct significance *judged = calloc(roles->count, sizeof *judged);
    struct significance **sorted = calloc(roles->count, sizeof *sorted);
    bool done = judged && sorted && roles_judge(roles, verdicts->blocks, judged) >= 0;
    for (size_t r = 0; done && r < roles->count; r++)
        sorted[r] = &judged[r];
    done = done && significance_correct(sorted, roles->count);
    for (uint32_t r = 0; done && r < roles->count; r++)
        done = name_role(verdicts, roles, r, &judged[r]);
    free(judged);
    free(sorted);
    return done;
}

/* ---- taking turns ---------------------------------------------------------------------------- */

/* What turns_judge is given, and where its columns come from. */
struct turns_input {
    struct turns_table table;
    size_t *columns; /* indices into blocks.dumps */
    int64_t *self_ns;
    uint32_t *role_of, *host_of, *numbers;
};

/* Ranks that are named for themselves take no turns, and peers are needed to tell. */
static void choose_columns(struct turns_input *input, const struct straggler_analysis *analysis,
                           const struct blocks *blocks, const struct roles *roles) {
    for (size_t i = 0; i < blocks->dump_count; i++) {
        bool named = roles->sizes[roles->role_of[i]] < TURNS_PEERS_MIN;
        for (size_t s = 0; s < analysis->straggler_count && !named; s++)
            named =
                analysis->stragglers[s].kind != STRAGGLER_ROLE && concerns(&analysis->stragglers[s], blocks->dumps[i]);
        if (named)
            continue;
        input->role_of[input->table.columns] = roles->role_of[i];
        input->host_of[input->table.columns] = analysis->clock->host_of[blocks->dumps[i]];
        input->columns[input->table.columns++] = i;
    }
}

static struct samples *samples_of(const struct turns_input *input, const struct straggler_analysis *analysis,
                                  const struct blocks *blocks, size_t column) {
    return &analysis->times[blocks->dumps[input->columns[column]]].samples;
}

/* The collectives that were seen on all columns, as rows. */
static void add_rows(struct turns_input *input, const struct straggler_analysis *analysis, const struct blocks *blocks,
                     uint32_t segment) {
    unsigned thin = samples_of(input, analysis, blocks, 0)->thin;
    size_t columns = input->table.columns;
    for (unsigned i = 0; i < SAMPLE_SEGMENT; i++) {
        int64_t *row = input->self_ns + input->table.rows * columns;
        bool seen = true;
        for (size_t c = 0; c < columns && seen; c++) {
            const int64_t *times = samples_segment(samples_of(input, analysis, blocks, c), segment);
            seen = times && times[i] != SAMPLE_NONE;
            row[c] = seen ? times[i] : 0;
        }
        input->numbers[input->table.rows] = (segment << thin) * SAMPLE_SEGMENT + i;
        input->table.rows += seen;
    }
}

static bool gather_rows(struct turns_input *input, const struct straggler_analysis *analysis,
                        const struct blocks *blocks) {
    unsigned thin = 0;
    for (size_t c = 0; c < input->table.columns; c++)
        if (samples_of(input, analysis, blocks, c)->thin > thin)
            thin = samples_of(input, analysis, blocks, c)->thin;
    for (size_t c = 0; c < input->table.columns; c++)
        samples_thin(samples_of(input, analysis, blocks, c), thin);
    const struct samples *first = samples_of(input, analysis, blocks, 0);
    /* one row more than there can be: the next one is written before it is known whether all saw it */
    size_t rows = (size_t)first->count * SAMPLE_SEGMENT + 1;
    input->self_ns = malloc(rows * input->table.columns * sizeof *input->self_ns);
    input->numbers = malloc(rows * sizeof *input->numbers);
    if (!input->self_ns || !input->numbers)
        return false;
    for (uint32_t s = 0; s < first->count; s++)
        add_rows(input, analysis, blocks, first->first + s);
    input->table.self_ns = input->self_ns;
    input->table.numbers = input->numbers;
    input->table.role_of = input->role_of;
    input->table.host_of = input->host_of;
    input->table.host_count = analysis->clock->host_count;
    return true;
}

static uint64_t collectives_of(const struct rank_bins *bins) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < bins->count; i++)
        count += bins->calls[i];
    return count;
}

/* Mended, the next ones would be the last: the cost is the slowest's lead. It matters where what noise does not explain
 * of it does. */
static void claim_turns(struct verdicts *verdicts, const struct turns_input *input, const struct turns *turns) {
    struct straggler_analysis *analysis = verdicts->analysis;
    const struct blocks *blocks = verdicts->blocks;
    int64_t window = analysis->window_ns, comm = 0;
    uint64_t count = collectives_of(&analysis->times[blocks->dumps[input->columns[0]]].bins);
    struct straggler straggler = {.kind = STRAGGLER_ROTATING,
                                  .dumps = verdicts->lists,
                                  .slowdown_ratio = turns->ratio > 1 ? turns->ratio : 1,
                                  .persistence = turns->most,
                                  .slowest = turns->most,
                                  .confidence = turns->confidence,
                                  .extra_ns = (int64_t)(turns->lead_ns * (double)count),
                                  .parts = turns->rows,
                                  .part_collectives = turns->width,
                                  .stood_out = turns->stood_out};
    for (size_t c = 0; c < input->table.columns; c++) {
        size_t dump = blocks->dumps[input->columns[c]];
        comm = add_ns(comm, analysis->times[dump].comm_ns / (int64_t)input->table.columns);
        if (turns->turns_of[c] == 0)
            continue;
        verdicts->lists[straggler.dump_count++] = dump;
        straggler.imposed_ns = add_ns(straggler.imposed_ns, analysis->causes.ranks[dump].imposed_ns);
        straggler.waited_for_ns = add_ns(straggler.waited_for_ns, analysis->waits.ranks[dump].waited_for_ns);
    }
    int64_t gain = straggler.extra_ns, least = window / MATERIAL_SHARE + 1;
    if (straggler.dump_count == 0 || turns->extra_ns * (double)count < (double)least || gain < least || comm < least)
        return;
    straggler.host = analysis->clock->host_of[straggler.dumps[0]];
    straggler.what_if_speedup = gain < window ? (double)window / (double)(window - gain) : 1;
    verdicts->lists += straggler.dump_count;
    analysis->stragglers[analysis->straggler_count++] = straggler;
}

static bool name_turns(struct verdicts *verdicts, const struct roles *roles) {
    struct straggler_analysis *analysis = verdicts->analysis;
    const struct blocks *blocks = verdicts->blocks;
    struct turns_input input = {.columns = malloc(blocks->dump_count * sizeof *input.columns),
                                .role_of = malloc(blocks->dump_count * sizeof *input.role_of),
                                .host_of = malloc(blocks->dump_count * sizeof *input.host_of)};
    struct turns turns = {0};
    bool done = input.columns && input.role_of && input.host_of;
    if (done)
        choose_columns(&input, analysis, blocks, roles);
    if (done && input.table.columns >= TURNS_COLUMNS_MIN) {
        done = gather_rows(&input, analysis, blocks) && turns_judge(&input.table, &turns);
        if (done && turns.confidence >= CONFIDENCE_CLAIM)
            claim_turns(verdicts, &input, &turns);
    }
    turns_free(&turns);
    free(input.columns);
    free(input.role_of);
    free(input.host_of);
    free(input.numbers);
    free(input.self_ns);
    return done;
}

/* Roles come first: what they explain is taken out of the blocks before hosts, which may hold one role each, are
 * compared. */
static bool name_cohort(struct verdicts *verdicts, const struct roles *roles, struct blocks *blocks) {
    struct host_columns hosts = {0};
    verdicts->blocks = blocks;
    bool done = roles->count < 2 || (name_roles(verdicts, roles) && roles_level(roles, blocks));
    done = done && group_by_host(&hosts, verdicts->analysis, blocks) && judge_hosts(&hosts, blocks);
    done = done && name_hosts(verdicts, &hosts) && name_ranks(verdicts) && name_turns(verdicts, roles);
    free(hosts.items);
    free(hosts.columns);
    return done;
}

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
static bool name_links(struct verdicts *verdicts) {
    struct straggler_analysis *analysis = verdicts->analysis;
    struct slow_link slow[LINKS_MOST];
    size_t count = links_judge(&analysis->links, slow, LINKS_MOST);
    for (size_t i = 0; i < count && slow[i].extra_ns >= analysis->window_ns / MATERIAL_SHARE + 1; i++) {
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
static bool name_groups(struct straggler_analysis *analysis, bool *explained) {
    struct slow_group slow[SLOW_GROUPS_MOST];
    memset(explained, 0, analysis->directory->dump_count * sizeof *explained);
    for (size_t i = 0; i < analysis->straggler_count; i++) {
        const struct straggler *named = &analysis->stragglers[i];
        if (named->kind == STRAGGLER_ROLE || named->kind == STRAGGLER_ROTATING)
            continue;
        for (size_t d = 0; d < named->dump_count; d++)
            explained[named->dumps[d]] = true;
    }
    size_t count = group_links_judge(&analysis->groups, explained, slow, SLOW_GROUPS_MOST);
    for (size_t i = 0; i < count && slow[i].extra_ns >= analysis->window_ns / MATERIAL_SHARE + 1; i++)
        analysis->slow_groups[analysis->slow_group_count++] = slow[i];
    return !analysis->groups.no_memory;
}

static int compare_costs(const void *a, const void *b) {
    const struct straggler *left = a, *right = b;
    if (left->waited_for_ns != right->waited_for_ns)
        return left->waited_for_ns > right->waited_for_ns ? -1 : 1;
    return left->dumps[0] < right->dumps[0] ? -1 : left->dumps[0] > right->dumps[0];
}

static bool judge(struct straggler_analysis *analysis) {
    size_t count = analysis->directory->dump_count;
    struct blocks *blocks = calloc(analysis->cohorts.count ? analysis->cohorts.count : 1, sizeof *blocks);
    struct roles *roles = calloc(analysis->cohorts.count ? analysis->cohorts.count : 1, sizeof *roles);
    size_t *members = calloc(count, sizeof *members);
    bool *explained = calloc(count, sizeof *explained);
    analysis->stragglers = calloc(4 * count + LINKS_MOST, sizeof *analysis->stragglers);
    analysis->suspects = calloc(count + LINKS_MOST, sizeof *analysis->suspects);
    analysis->uneven = calloc(count, sizeof *analysis->uneven);
    analysis->dump_lists = calloc(4 * count + LINKS_MOST * (count + 2), sizeof *analysis->dump_lists);
    bool done = blocks && roles && members && explained && analysis->stragglers && analysis->suspects &&
                analysis->uneven && analysis->dump_lists && judge_cohorts(analysis, blocks, roles, members);
    struct verdicts verdicts = {.analysis = analysis, .lists = analysis->dump_lists, .explained = explained};
    for (size_t c = 0; done && c < analysis->cohorts.count; c++)
        if (blocks[c].dump_count >= 2)
            done = name_cohort(&verdicts, &roles[c], &blocks[c]);
    done = done && name_links(&verdicts) && name_groups(analysis, explained);
    for (size_t c = 0; blocks && roles && c < analysis->cohorts.count; c++) {
        blocks_free(&blocks[c]);
        roles_free(&roles[c]);
    }
    free(blocks);
    free(roles);
    free(members);
    free(explained);
    if (!done)
        return false;
    qsort(analysis->stragglers, analysis->straggler_count, sizeof *analysis->stragglers, compare_costs);
    qsort(analysis->suspects, analysis->suspect_count, sizeof *analysis->suspects, compare_costs);
    qsort(analysis->uneven, analysis->uneven_count, sizeof *analysis->uneven, compare_costs);
    return true;
}

/* ---- what if ----------------------------------------------------------------------------------------------------- */

static double mended(const struct straggler_analysis *analysis, const struct replay *replay,
                     const struct straggler *straggler) {
    const struct what_if_peers peers = {analysis->role_of, analysis->cohorts.cohort_of};
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

/* Replays the job without each of those that are named. Beyond WHAT_IFS_MOST the first estimate stands. */
static bool replay_without(const struct straggler_analysis *analysis, const struct replay *replay) {
    struct straggler *const lists[] = {analysis->stragglers, analysis->suspects, analysis->uneven};
    const size_t counts[] = {analysis->straggler_count, analysis->suspect_count, analysis->uneven_count};
    size_t replays = 0;
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < counts[k] && replays < WHAT_IFS_MOST; i++, replays++) {
            lists[k][i].what_if_speedup = mended(analysis, replay, &lists[k][i]);
            if (lists[k][i].what_if_speedup < 0)
                return false;
        }
    return true;
}

static bool ask_what_if(struct straggler_analysis *analysis, struct replay *replay) {
    const struct what_if_peers peers = {analysis->role_of, analysis->cohorts.cohort_of};
    return what_if_prepare(replay) && what_if_measure(&analysis->what_if, replay, &peers) &&
           (!analysis->what_if.known || replay_without(analysis, replay));
}

static enum judgement how_judged(const struct straggler_analysis *analysis) {
    if (analysis->directory->dump_count < 2)
        return JUDGED_ALONE;
    if (analysis->cohorts.count == 0)
        return JUDGED_NO_COLLECTIVE;
    return analysis->blocks < BLOCKS_MIN ? JUDGED_TOO_SHORT : JUDGED;
}

bool straggler_analyse(struct straggler_analysis *analysis, const struct common_clock *clock,
                       const struct match_directory *directory, const struct straggler_request *request) {
    *analysis = (struct straggler_analysis){.clock = clock, .directory = directory};
    struct match_sink sink = {.progress = request->progress,
                              .progress_context = request->progress_context,
                              .limited = request->limited,
                              .from_ns = request->from_ns,
                              .to_ns = request->to_ns};
    group_links_init(&analysis->groups, clock, directory);
    struct replay replay = {0};
    bool done =
        links_init(&analysis->links, clock, directory) && prepare(analysis) && walk(analysis, &replay, request, &sink);
    if (done) {
        measure(analysis);
        done = judge(analysis) && ask_what_if(analysis, &replay);
        analysis->judgement = how_judged(analysis);
    }
    replay_free(&replay);
    return done;
}

void straggler_analysis_free(struct straggler_analysis *analysis) {
    for (size_t d = 0; analysis->times && d < analysis->directory->dump_count; d++)
        rank_times_free(&analysis->times[d]);
    for (size_t d = 0; analysis->launches && d < analysis->directory->dump_count; d++)
        rank_launches_free(&analysis->launches[d]);
    free(analysis->launches);
    free(analysis->times);
    free(analysis->ranks);
    free(analysis->profiles);
    free(analysis->role_of);
    free(analysis->stage_of);
    free(analysis->stragglers);
    free(analysis->suspects);
    free(analysis->uneven);
    free(analysis->dump_lists);
    waits_free(&analysis->waits);
    waits_free(&analysis->shown);
    links_free(&analysis->links);
    group_links_free(&analysis->groups);
    causes_free(&analysis->causes);
    if (analysis->directory)
        cohorts_free(&analysis->cohorts);
    *analysis = (struct straggler_analysis){0};
}
