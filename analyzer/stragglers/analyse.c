/* SPDX-License-Identifier: Apache-2.0
 *
 * Who makes the others wait.
 * Lives here: running the walk, judging comparison groups, asking what if.
 * Must not live here: what makes a suspicion a claim (verdicts.c), the statistics (significance.c), opening files.
 */
#include "analyzer/base/cache_lines.h"
#include "analyzer/stragglers/slow_steps.h"
#include "analyzer/stragglers/stragglers.h"

#include <stdlib.h>

#include "analyzer/base/side_by_side.h"
#include "analyzer/base/statistics.h"
#include "analyzer/match/match.h"
#include "analyzer/stragglers/gains.h"
#include "analyzer/stragglers/message_cuts.h"
#include "analyzer/stragglers/task_times.h"
#include "analyzer/stragglers/time_batches.h"
#include "analyzer/stragglers/verdicts.h"

enum {
    BINS_IN_ALL = 1 << 22,
    BINS_MOST = 2048,
    BINS_LEAST = 128,
    SEGMENTS_IN_ALL = 1 << 14, /* of samples; 8 MiB */
    SEGMENTS_MOST = 64,
    SEGMENTS_LEAST = 2,
    IDLE_BELOW = 2, /* a rank with less than half of the median's own work is no peer */
};

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

struct analysis_worker {
    ON_OWN_LINES struct straggler_analysis *analysis;
    struct delay_costs_build *delay_costs;
    struct replay_build *replay;
    unsigned number;
    struct waits waits;
    struct links links;
    struct waits shown; /* where `filter` is not NULL */
    const struct filter *filter;
    struct group_links groups;
};

static bool is_wait_shown(const struct analysis_worker *worker, const struct match_communicator *communicator,
                          uint16_t call, uint64_t bytes) {
    const struct match_directory *directory = worker->analysis->directory;
    return worker->filter && call != CALL_UNKNOWN && filter_op(worker->filter, directory->calls[call].name->name) &&
           filter_bytes(worker->filter, bytes) && filter_comm(worker->filter, communicator->uid, communicator->name);
}

static void take_instance(void *state, const struct match_instance *instance) {
    struct analysis_worker *worker = state;
    waits_add(&worker->waits, instance);
    if (is_wait_shown(worker, instance->communicator, instance->call, instance->bytes))
        waits_add(&worker->shown, instance);
    group_links_add(&worker->groups, instance);
    replay_add_instance(worker->replay, worker->number, instance);
}

static bool is_message_shown(const struct analysis_worker *worker, const struct match_message *message) {
    const struct match_communicator *communicator = &worker->analysis->directory->communicators[message->communicator];
    return is_wait_shown(worker, communicator, message->send.call, message->bytes) ||
           is_wait_shown(worker, communicator, message->receive.call, message->bytes);
}

static void take_sent(void *state, const struct match_message *message) {
    struct analysis_worker *worker = state;
    waits_add_sent(&worker->waits, message);
    if (is_message_shown(worker, message))
        waits_add_sent(&worker->shown, message);
}

static void take_message(void *state, const struct match_message *message) {
    struct analysis_worker *worker = state;
    waits_add_message(&worker->waits, message);
    if (is_message_shown(worker, message))
        waits_add_message(&worker->shown, message);
    links_add(&worker->links, message);
    replay_add_message(worker->replay, worker->number, message);
}

static void take_epoch(void *state, const struct match_message *need) {
    struct analysis_worker *worker = state;
    const struct match_communicator *communicator = &worker->analysis->directory->communicators[need->communicator];
    waits_add_epoch(&worker->waits, need);
    if (is_wait_shown(worker, communicator, need->receive.call, 0))
        waits_add_epoch(&worker->shown, need);
    replay_add_epoch(worker->replay, worker->number, need);
}

static bool has_tasks(const struct straggler_analysis *analysis, size_t dump) {
    return analysis->tasks && analysis->comparison_groups.tasks[dump].kind != CUT_NONE;
}

static void take_record(void *state, const struct match_record *item) {
    struct analysis_worker *worker = state;
    struct straggler_analysis *analysis = worker->analysis;
    const struct call_name *call = item->call == CALL_UNKNOWN ? NULL : analysis->directory->calls[item->call].name;
    if (analysis->reader_of[item->dump] != worker->number + 1) /* once: other workers' dumps are beside it */
        analysis->reader_of[item->dump] = worker->number + 1;
    delay_costs_add_record(worker->delay_costs, worker->number, item);
    links_note(&worker->links, item, call);
    replay_add_record(worker->replay, worker->number, item);
    bool done = rank_times_add(&analysis->times[item->dump], item, call);
    if (has_tasks(analysis, item->dump))
        done &= rank_times_add(&analysis->tasks[item->dump], item, call);
    call_profile_add(&analysis->profiles[item->dump], item);
    bool launch = item->record->kind == RECORD_EXPOSED || (call && call->api == API_NCCL);
    if (!done || (launch && !rank_launches_add(&analysis->launches[item->dump], item)))
        __atomic_store_n(&analysis->no_memory, true, __ATOMIC_RELAXED);
}

/* What its records say of a dump, all of which came to one worker. */
static void dump_parcel(struct analysis_worker *worker, size_t dump, struct parcel *parcel) {
    struct straggler_analysis *analysis = worker->analysis;
    analysis->reader_of[dump] = worker->number + 1;
    rank_times_parcel(&analysis->times[dump], parcel);
    if (has_tasks(analysis, dump))
        rank_times_parcel(&analysis->tasks[dump], parcel);
    call_profile_parcel(&analysis->profiles[dump], parcel);
    rank_launches_parcel(&analysis->launches[dump], parcel);
}

static void sums_parcel(struct analysis_worker *worker, struct parcel *parcel) {
    struct straggler_analysis *analysis = worker->analysis;
    waits_parcel(&worker->waits, parcel);
    if (worker->filter)
        waits_parcel(&worker->shown, parcel);
    links_parcel(&worker->links, parcel);
    group_links_parcel(&worker->groups, parcel);
    for (size_t d = 0; d < analysis->directory->dump_count; d++)
        if (parcel_is_there(parcel, analysis->reader_of[d] == worker->number + 1))
            dump_parcel(worker, d, parcel);
    bool no_memory = __atomic_load_n(&analysis->no_memory, __ATOMIC_RELAXED);
    parcel_flag(parcel, &no_memory);
    if (no_memory)
        __atomic_store_n(&analysis->no_memory, true, __ATOMIC_RELAXED);
}

/* Parts of about the same size, and which dumps are the worker's is told in the first. */
enum { PART_SUMS = 1, PART_DELAYS, PART_REPLAY, PARCEL_PARTS = PART_REPLAY };

static void worker_parcel(void *state, struct parcel *parcel) {
    struct analysis_worker *worker = state;
    const struct straggler_analysis *analysis = worker->analysis;
    if (parcel_has(parcel, PART_SUMS))
        sums_parcel(worker, parcel);
    if (parcel_has(parcel, PART_DELAYS))
        delay_costs_parcel(worker->delay_costs, worker->number, parcel);
    if (parcel_has(parcel, PART_REPLAY))
        replay_parcel(worker->replay, worker->number, parcel);
    for (size_t d = 0; d < analysis->directory->dump_count; d++) {
        bool own = analysis->reader_of[d] == worker->number + 1;
        if (own && parcel_has(parcel, PART_DELAYS))
            delay_costs_parcel_dump(worker->delay_costs, d, parcel);
        if (own && parcel_has(parcel, PART_REPLAY))
            replay_parcel_dump(worker->replay, d, parcel);
    }
}

/* The caller ends with worker_close in every case. */
static bool worker_open(struct analysis_worker *worker, struct straggler_analysis *analysis, unsigned number,
                        const struct filter *filter) {
    const struct common_clock *clock = analysis->clock;
    const struct match_directory *directory = analysis->directory;
    worker->analysis = analysis;
    worker->number = number;
    worker->filter = filter;
    group_links_init(&worker->groups, clock, directory);
    bool done = links_init(&worker->links, clock, directory) && waits_init(&worker->waits, clock, directory) &&
                (!filter || waits_init(&worker->shown, clock, directory));
    if (done)
        worker->waits.listener = delay_costs_listener(worker->delay_costs, number);
    return done;
}

static void worker_merge(struct analysis_worker *worker) {
    struct straggler_analysis *analysis = worker->analysis;
    waits_finish(&worker->waits);
    waits_merge(&analysis->waits, &worker->waits);
    if (worker->filter) {
        waits_finish(&worker->shown);
        waits_merge(&analysis->shown, &worker->shown);
    }
    links_finish(&worker->links);
    links_merge(&analysis->links, &worker->links);
    group_links_merge(&analysis->groups, &worker->groups);
}

static void worker_close(struct analysis_worker *worker) {
    waits_free(&worker->waits);
    waits_free(&worker->shown);
    links_free(&worker->links);
    group_links_free(&worker->groups);
}

/* Walks all dumps; `build` and `again` take what is theirs, the analysis all else. */
static bool walk_with(struct straggler_analysis *analysis, struct delay_costs_build *build, struct replay_build *again,
                      const struct straggler_request *request, struct match_sink *sink) {
    struct analysis_worker work[MATCH_WORKERS_MAX] = {0};
    void *states[MATCH_WORKERS_MAX];
    unsigned workers = match_workers_among(request->team, request->workers);
    bool done = waits_init(&analysis->waits, analysis->clock, analysis->directory) &&
                (!request->shown || waits_init(&analysis->shown, analysis->clock, analysis->directory));
    for (unsigned w = 0; w < workers; w++) {
        work[w].delay_costs = build;
        work[w].replay = again;
        done = worker_open(&work[w], analysis, w, request->shown) && done;
        states[w] = &work[w];
    }
    sink->instance = take_instance;
    sink->record = take_record;
    sink->message = take_message;
    sink->sent = take_sent;
    sink->epoch = take_epoch;
    sink->parcel = worker_parcel;
    sink->parcel_parts = PARCEL_PARTS;
    done = done && match_run_among(request->team, analysis->clock, analysis->directory, sink, states, request->workers,
                                   &analysis->totals);
    for (unsigned w = 0; w < workers; w++) {
        if (done)
            worker_merge(&work[w]);
        worker_close(&work[w]);
    }
    return done && !analysis->no_memory && !analysis->waits.no_memory;
}

/* What the walk has gathered: both go through all of it, and know nothing of each other. */
struct finishing {
    struct straggler_analysis *analysis;
    struct delay_costs_build *build;
    struct replay *replay;
    struct replay_build *again;
    unsigned threads;
    bool done[2];
};

static void finish(void *context, size_t number) {
    struct finishing *f = context;
    f->done[number] = number == 0 ? delay_costs_finish(&f->analysis->delay_costs, f->build, f->threads)
                                  : replay_finish(f->replay, f->again);
}

static bool walk_dumps(struct straggler_analysis *analysis, struct replay *replay,
                       const struct straggler_request *request, struct match_sink *sink) {
    unsigned workers = match_workers_among(request->team, request->workers);
    struct delay_costs_build *build =
        delay_costs_begin(analysis->clock, analysis->directory, &analysis->covered, workers);
    struct replay_build *again = replay_begin(analysis->clock, analysis->directory, &analysis->covered,
                                              analysis->comparison_groups.cuts, workers);
    if (build)
        delay_costs_keep_parts(build, request->path_parts);
    if (!build || !again || !walk_with(analysis, build, again, request, sink)) {
        delay_costs_drop(build);
        replay_drop(again);
        return false;
    }
    struct finishing finishing = {analysis, build, replay, again, request->workers, {false, false}};
    side_by_side(request->workers, 2, finish, &finishing);
    return finishing.done[0] && finishing.done[1];
}

/* The dump's own number of a communicator, COMM_NONE where its rank is not in it. */
static uint32_t local_number(const struct match_directory *directory, size_t dump, uint32_t communicator) {
    for (uint32_t local = 0; local < directory->dumps[dump]->communicator_count; local++)
        if (match_place_of(directory, dump, local).communicator == communicator)
            return local;
    return COMM_NONE;
}

/* The communicator of all members of a group that is compared by messages, whose collectives are too few to compare it
 * by; NOWHERE: there is none. */
static uint32_t meeting_of(const struct straggler_analysis *analysis, uint32_t group) {
    const struct comparison_groups *groups = &analysis->comparison_groups;
    for (size_t g = 0; g < groups->count && groups->communicators[group] == NOWHERE; g++) {
        bool all = groups->communicators[g] != NOWHERE;
        for (size_t d = 0; all && d < analysis->directory->dump_count; d++)
            all = groups->group_of[d] != group ||
                  local_number(analysis->directory, d, groups->communicators[g]) != COMM_NONE;
        if (all)
            return groups->communicators[g];
    }
    return NOWHERE;
}

/* In a profiler's trace, which is short, such collectives part steps where these are not marked. */
static void choose_meetings(struct straggler_analysis *analysis) {
    const struct match_directory *directory = analysis->directory;
    bool imported = directory->dump_count > 0 && directory->dumps[0]->header->pid == 0;
    for (uint32_t g = 0; imported && g < analysis->comparison_groups.count; g++) {
        uint32_t meeting = meeting_of(analysis, g);
        for (size_t d = 0; meeting != NOWHERE && d < directory->dump_count; d++)
            if (analysis->comparison_groups.group_of[d] == g) {
                analysis->times[d].steps.meets = true;
                analysis->times[d].steps.meeting = local_number(directory, d, meeting);
            }
    }
}

/* Who is dealt out tasks is also looked at by these. */
static bool prepare_tasks(struct straggler_analysis *analysis, uint32_t segments) {
    const struct cut *tasks = analysis->comparison_groups.tasks;
    size_t count = analysis->directory->dump_count;
    bool any = false;
    for (size_t d = 0; d < count; d++)
        any |= tasks[d].kind != CUT_NONE;
    if (any && !(analysis->tasks = calloc_on_own_lines(count, sizeof *analysis->tasks)))
        return false;
    for (size_t d = 0; any && d < count; d++)
        if (!rank_times_init(&analysis->tasks[d], &tasks[d], BINS_LEAST, segments, false))
            return false;
    return true;
}

static bool prepare(struct straggler_analysis *analysis) {
    size_t count = analysis->directory->dump_count;
    uint32_t bins = (uint32_t)(BINS_IN_ALL / count);
    bins = bins > BINS_MOST ? BINS_MOST : bins < BINS_LEAST ? BINS_LEAST : bins;
    uint32_t segments = (uint32_t)(SEGMENTS_IN_ALL / count);
    segments = segments > SEGMENTS_MOST ? SEGMENTS_MOST : segments < SEGMENTS_LEAST ? SEGMENTS_LEAST : segments;
    analysis->times = calloc_on_own_lines(count, sizeof *analysis->times);
    analysis->ranks = calloc(count, sizeof *analysis->ranks);
    analysis->leads = calloc(count, sizeof *analysis->leads);
    analysis->launches = calloc(count, sizeof *analysis->launches);
    analysis->profiles = calloc_on_own_lines(count, sizeof *analysis->profiles);
    analysis->reader_of = calloc(count, sizeof *analysis->reader_of);
    analysis->class_of = malloc(count * sizeof *analysis->class_of);
    analysis->stage_of = calloc(count, sizeof *analysis->stage_of);
    if (!analysis->class_of || !analysis->stage_of || !analysis->times || !analysis->ranks || !analysis->leads ||
        !analysis->launches || !analysis->profiles || !analysis->reader_of ||
        !comparison_groups_choose(&analysis->comparison_groups, analysis->directory) ||
        !message_cuts_choose(&analysis->comparison_groups, analysis->directory, analysis->clock))
        return false;
    for (size_t d = 0; d < count; d++) {
        analysis->ranks[d].p = 1;
        analysis->leads[d].p = 1;
        analysis->class_of[d] = NOWHERE;
        if (!rank_times_init(&analysis->times[d], &analysis->comparison_groups.cuts[d], bins, segments,
                             dump_has_device_times(analysis->directory->dumps[d])))
            return false;
    }
    choose_meetings(analysis);
    return prepare_tasks(analysis, segments);
}

/* What overlaps of a rank's waits is sorted first: millions of them. */
static void measure_rank(void *context, size_t dump) {
    struct straggler_analysis *analysis = context;
    struct rank_times *times = &analysis->times[dump];
    rank_times_finish(times);
    if (has_tasks(analysis, dump))
        rank_times_finish(&analysis->tasks[dump]);
    waits_measure_wall(&analysis->waits, dump, times->comm_ns);
    if (analysis->shown.ranks)
        waits_measure_wall(&analysis->shown, dump, times->comm_ns);
}

static void measure(struct straggler_analysis *analysis) {
    analysis->from_ns = INT64_MAX;
    analysis->to_ns = INT64_MIN;
    side_by_side(analysis->workers, analysis->directory->dump_count, measure_rank, analysis);
    for (size_t d = 0; d < analysis->directory->dump_count; d++) {
        const struct rank_times *times = &analysis->times[d];
        if (times->from_ns > times->to_ns)
            continue;
        if (times->from_ns < analysis->from_ns)
            analysis->from_ns = times->from_ns;
        if (times->to_ns > analysis->to_ns)
            analysis->to_ns = times->to_ns;
        if (times->window_ns > analysis->window_ns)
            analysis->window_ns = times->window_ns;
    }
    if (analysis->from_ns <= analysis->to_ns)
        analysis->covered_ns = covered_time_within(&analysis->covered, analysis->from_ns, analysis->to_ns);
}

/* Where the clocks are off by more than ranks wait, the few waits that show say nothing of the many that do not: a
 * hundredth of them is none to go by. */
static bool waits_are_unresolved(const struct straggler_analysis *analysis) {
    int64_t resolved = 0, unresolved = 0;
    for (size_t d = 0; d < analysis->directory->dump_count; d++) {
        resolved = add_ns(resolved, analysis->waits.ranks[d].wait_ns);
        unresolved = add_ns(unresolved, analysis->waits.ranks[d].unresolved_ns);
    }
    return unresolved / VERDICT_SHARE > resolved && unresolved > analysis->window_ns / VERDICT_SHARE;
}

/* ---- comparison groups ----------------------------------------------------------------------- */

static size_t list_group_members(const struct straggler_analysis *analysis, size_t group, size_t *members) {
    size_t count = 0;
    for (size_t d = 0; d < analysis->directory->dump_count; d++)
        if (analysis->comparison_groups.group_of[d] == group)
            members[count++] = d;
    return count;
}

static int64_t median_self(const struct straggler_analysis *analysis, const size_t *members, size_t count,
                           int64_t *scratch) {
    for (size_t i = 0; i < count; i++)
        scratch[i] = analysis->times[members[i]].self_ns;
    return median_low_int64(scratch, count);
}

/* Where ranks are compared by messages, who hardly works does something else by design, as a master who only hands out
 * work, and is nobody's peer: left in, it would be the fastest each time, and each of the others too often the slowest.
 * At most a third of the ranks: more of them are a part of the work. Returns how many members remain; 0: no memory. */
static size_t leave_out_idle(const struct straggler_analysis *analysis, size_t *members, size_t count) {
    int64_t *scratch = malloc((count + 1) * sizeof *scratch);
    size_t left = 0, working = 0;
    if (!scratch)
        return 0;
    int64_t least = count > 2 ? median_self(analysis, members, count, scratch) / IDLE_BELOW : 0;
    free(scratch);
    for (size_t i = 0; i < count; i++)
        working += analysis->times[members[i]].self_ns >= least;
    if (VERDICT_UNEVEN_SHARE * (count - working) > count)
        return count;
    for (size_t i = 0; i < count; i++)
        if (analysis->times[members[i]].self_ns >= least)
            members[left++] = members[i];
    return left;
}

static bool judge_columns(struct straggler_analysis *analysis, const struct time_batches *batches,
                          const struct rank_classes *classes) {
    struct significance *verdicts = calloc(batches->dump_count, sizeof *verdicts);
    if (!verdicts)
        return false;
    double independent = rank_classes_judge_ranks(classes, batches, verdicts);
    for (size_t i = 0; i < batches->dump_count; i++) {
        if (!verdicts_may_hold_up(analysis, &batches->dumps[i], 1))
            verdicts[i].p = 1;
        verdicts[i].p = verdicts_chance(analysis, verdicts[i].p);
        analysis->ranks[batches->dumps[i]] = verdicts[i];
    }
    if (batches->count > analysis->batches) {
        analysis->batches = batches->count;
        analysis->batches_are_steps = batches->rows == ROWS_ARE_STEPS;
        analysis->independent_batches = independent;
    }
    free(verdicts);
    return independent >= 0;
}

static bool judge_alike(struct straggler_analysis *analysis, const struct time_batches *batches,
                        const struct rank_classes *classes) {
    return judge_columns(analysis, batches, classes) &&
           (batches->rows == ROWS_ARE_STEPS || verdicts_judge_leads(analysis, classes, batches));
}

static bool correct_leads(struct straggler_analysis *analysis) {
    struct rank_leads **all = calloc(analysis->directory->dump_count + 1, sizeof *all);
    size_t judged = 0;
    if (!all)
        return false;
    for (size_t d = 0; d < analysis->directory->dump_count; d++)
        if (analysis->ranks[d].ratio > 0 || analysis->leads[d].p < 1) /* a master may work next to nothing, usually */
            all[judged++] = &analysis->leads[d];
    bool done = leads_correct(all, judged);
    free(all);
    return done;
}

/* The steps of a group where they are what is to be looked at and there are any, else its batches. */
static bool make_batches(const struct straggler_analysis *analysis, size_t group, struct time_batches *batches,
                         const size_t *members, size_t count) {
    size_t most = (size_t)(analysis->window_ns / BATCH_NS_LEAST);
    most = most > TIME_BATCHES_MOST ? TIME_BATCHES_MOST : most + (most == 0);
    if (analysis->steps_compared || analysis->comparison_groups.communicators[group] == NOWHERE) {
        if (!time_batches_of_steps(batches, analysis->times, members, count))
            return false;
        if (batches->count > 0)
            return true;
        time_batches_free(batches);
    }
    return time_batches_make(batches, analysis->times, members, count, most);
}

static bool judge_comparison_groups(struct straggler_analysis *analysis, struct time_batches *batches,
                                    struct rank_classes *classes, size_t *members) {
    uint32_t all_classes = 0;
    for (size_t c = 0; c < analysis->comparison_groups.count; c++) {
        size_t count = list_group_members(analysis, c, members), whole_count = count;
        bool by_messages = analysis->comparison_groups.communicators[c] == NOWHERE;
        if (by_messages && count > 0 && (count = leave_out_idle(analysis, members, count)) == 0)
            return false;
        if (!make_batches(analysis, c, &batches[c], members, count))
            return false;
        if (batches[c].dump_count < 2)
            continue;
        uint32_t communicator = analysis->comparison_groups.communicators[c];
        uint32_t whole =
            communicator == NOWHERE ? (uint32_t)whole_count : analysis->directory->communicators[communicator].size;
        if (!rank_classes_find(&classes[c], analysis->profiles, analysis->comparison_groups.cuts, analysis->directory,
                               whole, &batches[c]))
            return false;
        bool unlike = false;
        if ((by_messages && !verdicts_judge_unlike(analysis, &batches[c], &unlike)) ||
            (!unlike && !judge_alike(analysis, &batches[c], &classes[c])))
            return false;
        analysis->unlike |= unlike;
        for (size_t i = 0; i < batches[c].dump_count; i++) {
            analysis->class_of[batches[c].dumps[i]] = all_classes + classes[c].class_of[i];
            analysis->stage_of[batches[c].dumps[i]] = classes[c].stage_of[i];
        }
        all_classes += (uint32_t)classes[c].count;
    }
    struct significance **all = calloc(analysis->directory->dump_count, sizeof *all);
    size_t judged = 0;
    if (!all)
        return false;
    for (size_t d = 0; d < analysis->directory->dump_count; d++)
        if (analysis->ranks[d].ratio > 0)
            all[judged++] = &analysis->ranks[d];
    bool done = significance_correct(all, judged) && correct_leads(analysis);
    free(all);
    return done;
}

static int compare_costs(const void *a, const void *b) {
    const struct straggler *left = a, *right = b;
    if (left->waited_for_ns != right->waited_for_ns)
        return left->waited_for_ns > right->waited_for_ns ? -1 : 1;
    return left->dumps[0] < right->dumps[0] ? -1 : left->dumps[0] > right->dumps[0];
}

/* Room for all who may be named. */
static bool make_lists(struct straggler_analysis *analysis) {
    size_t count = analysis->directory->dump_count;
    analysis->stragglers = calloc(4 * count + VERDICT_LINKS_MOST, sizeof *analysis->stragglers);
    analysis->suspects = calloc(count + VERDICT_LINKS_MOST, sizeof *analysis->suspects);
    analysis->uneven = calloc(count, sizeof *analysis->uneven);
    analysis->hidden = calloc(4 * count + VERDICT_LINKS_MOST, sizeof *analysis->hidden);
    analysis->dump_lists = calloc(5 * count + VERDICT_LINKS_MOST * (count + 2), sizeof *analysis->dump_lists);
    return analysis->stragglers && analysis->suspects && analysis->uneven && analysis->hidden && analysis->dump_lists;
}

static bool judge_ranks(struct straggler_analysis *analysis) {
    size_t count = analysis->directory->dump_count;
    struct time_batches *batches =
        calloc(analysis->comparison_groups.count ? analysis->comparison_groups.count : 1, sizeof *batches);
    struct rank_classes *classes =
        calloc(analysis->comparison_groups.count ? analysis->comparison_groups.count : 1, sizeof *classes);
    size_t *members = calloc(count + 1, sizeof *members);
    bool *explained = calloc(count, sizeof *explained);
    bool done = batches && classes && members && explained && make_lists(analysis) &&
                judge_comparison_groups(analysis, batches, classes, members);
    struct verdicts verdicts = {.analysis = analysis, .lists = analysis->dump_lists, .explained = explained};
    for (size_t c = 0; done && c < analysis->comparison_groups.count; c++)
        if (batches[c].dump_count >= 2)
            done = verdicts_name_comparison_group(&verdicts, &classes[c], &batches[c]);
    done = done && verdicts_name_links(&verdicts) && verdicts_name_groups(analysis, explained);
    for (size_t c = 0; batches && classes && c < analysis->comparison_groups.count; c++) {
        time_batches_free(&batches[c]);
        rank_classes_free(&classes[c]);
    }
    free(batches);
    free(classes);
    free(members);
    free(explained);
    if (!done)
        return false;
    qsort(analysis->stragglers, analysis->straggler_count, sizeof *analysis->stragglers, compare_costs);
    qsort(analysis->suspects, analysis->suspect_count, sizeof *analysis->suspects, compare_costs);
    qsort(analysis->uneven, analysis->uneven_count, sizeof *analysis->uneven, compare_costs);
    return true;
}

static bool nobody_is_named(const struct straggler_analysis *analysis) {
    return analysis->slow_group_count + analysis->straggler_count + analysis->suspect_count + analysis->uneven_count +
               analysis->hidden_count ==
           0;
}

static bool any_rank_in(const struct straggler *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (list[i].kind != STRAGGLER_LINK)
            return true;
    return false;
}

/* Who is slow at times is judged by stretches (leads.h), of which a run has many that is too short for batches: where
 * that says something of ranks they were judged. */
static enum judgement how_judged(const struct straggler_analysis *analysis) {
    if (analysis->directory->dump_count < 2)
        return JUDGED_ALONE;
    if (analysis->comparison_groups.count == 0)
        return JUDGED_NO_COLLECTIVE;
    bool said = any_rank_in(analysis->stragglers, analysis->straggler_count) ||
                any_rank_in(analysis->suspects, analysis->suspect_count) ||
                analysis->uneven_count + analysis->hidden_count > 0;
    size_t least = analysis->batches_are_steps ? STEP_ROWS_MIN : TIME_BATCHES_MIN;
    if (analysis->batches >= least || said)
        return JUDGED;
    return analysis->unlike ? JUDGED_UNLIKE : JUDGED_TOO_SHORT;
}

/* Who is named. */
static void forget_named(struct straggler_analysis *analysis) {
    struct straggler **const lists[] = {&analysis->stragglers, &analysis->suspects, &analysis->uneven,
                                        &analysis->hidden};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        free(*lists[i]);
        *lists[i] = NULL;
    }
    free(analysis->dump_lists);
    analysis->dump_lists = NULL;
}

/* Nobody is named either way: what is told of the ranks are all of their work. */
static void keep_first_look(struct straggler_analysis *analysis, struct significance **ranks,
                            struct rank_leads **leads) {
    struct significance *second = analysis->ranks;
    struct rank_leads *second_leads = analysis->leads;
    analysis->ranks = *ranks;
    analysis->leads = *leads;
    analysis->beside_left_out = false;
    for (size_t d = 0; d < analysis->directory->dump_count; d++)
        rank_times_put_beside_back(&analysis->times[d]);
    *ranks = second;
    *leads = second_leads;
}

static bool have_steps(const struct straggler_analysis *analysis) {
    bool any = false;
    for (size_t d = 0; d < analysis->directory->dump_count; d++)
        any |= analysis->times[d].steps.count >= STEP_ROWS_MIN;
    return any;
}

/* That ranks take turns may be beside one that is slow in each step. */
static bool nobody_is_claimed(const struct straggler_analysis *analysis) {
    size_t claimed = analysis->slow_group_count + analysis->uneven_count + analysis->hidden_count;
    for (size_t i = 0; i < analysis->straggler_count; i++)
        claimed += analysis->stragglers[i].kind != STRAGGLER_ROTATING;
    return claimed == 0;
}

/* Who is named, and by what. */
static void drop_look(struct straggler_analysis *look) {
    forget_named(look);
    free(look->ranks);
    free(look->leads);
}

/* A look that claims nobody is worth what the one before it is not: a suspicion, or that it could judge. */
static bool is_better(const struct straggler_analysis *look, const struct straggler_analysis *before) {
    if (!nobody_is_claimed(look))
        return true;
    return before->straggler_count + before->suspect_count == 0 &&
           (look->suspect_count > 0 || (look->batches_are_steps && before->batches < TIME_BATCHES_MIN));
}

/* Who comes late once in a step is not late in most of its parts, and ranks that run ahead of their collectives do the
 * same work in other parts of it: where nobody can be told by parts, steps are compared. */
static bool judge_steps(struct straggler_analysis *analysis) {
    struct straggler_analysis before = *analysis;
    if (!nobody_is_claimed(analysis) || analysis->comparison_groups.count == 0 || !have_steps(analysis))
        return true;
    size_t count = analysis->directory->dump_count;
    analysis->steps_compared = true;
    analysis->batches = analysis->suspect_count = analysis->straggler_count = 0;
    analysis->stragglers = analysis->suspects = analysis->uneven = analysis->hidden = NULL;
    analysis->dump_lists = NULL;
    analysis->ranks = calloc(count, sizeof *analysis->ranks);
    analysis->leads = calloc(count, sizeof *analysis->leads);
    bool done = analysis->ranks && analysis->leads;
    for (size_t d = 0; done && d < count; d++)
        analysis->ranks[d].p = analysis->leads[d].p = 1;
    done = done && judge_ranks(analysis);
    if (done && is_better(analysis, &before)) {
        drop_look(&before);
    } else {
        drop_look(analysis);
        *analysis = before;
    }
    return done;
}

/* Computation that overlaps communication is a rank's own work: whoever computes longer is slow, however much of it is
 * hidden. But a rank can also come late with no more work than others, of which less is hidden then. So where nobody is
 * slow ranks are compared once more by what they do outside of communication alone, which is what the others wait for.
 */
static bool judge_lateness(struct straggler_analysis *analysis) {
    size_t count = analysis->directory->dump_count;
    struct significance *ranks = analysis->ranks;
    struct rank_leads *leads = analysis->leads;
    bool overlaps = false;
    for (size_t d = 0; d < count; d++)
        overlaps = overlaps || analysis->times[d].beside.count > 0;
    if (!overlaps || how_judged(analysis) != JUDGED || !nobody_is_named(analysis))
        return true;
    forget_named(analysis);
    analysis->beside_left_out = true;
    analysis->ranks = calloc(count, sizeof *analysis->ranks);
    analysis->leads = calloc(count, sizeof *analysis->leads);
    bool done = analysis->ranks && analysis->leads;
    for (size_t d = 0; done && d < count; d++) {
        analysis->ranks[d].p = analysis->leads[d].p = 1;
        rank_times_leave_out_beside(&analysis->times[d]);
    }
    done = done && judge_ranks(analysis);
    if (done && nobody_is_named(analysis))
        keep_first_look(analysis, &ranks, &leads);
    free(ranks);
    free(leads);
    return done;
}

bool straggler_analyse(struct straggler_analysis *analysis, const struct common_clock *clock,
                       const struct match_directory *directory, const struct straggler_request *request) {
    *analysis = (struct straggler_analysis){.clock = clock, .directory = directory, .workers = request->workers};
    struct match_sink sink = {.covered = &analysis->covered,
                              .progress = request->progress,
                              .progress_context = request->progress_context,
                              .limited = request->limited,
                              .from_ns = request->from_ns,
                              .to_ns = request->to_ns};
    group_links_init(&analysis->groups, clock, directory);
    struct replay replay = {0};
    bool done = covered_time_find(&analysis->covered, clock) && links_init(&analysis->links, clock, directory) &&
                prepare(analysis) && walk_dumps(analysis, &replay, request, &sink);
    if (done) {
        measure(analysis);
        if (waits_are_unresolved(analysis))
            delay_costs_forget(&analysis->delay_costs);
        done = judge_ranks(analysis) && judge_steps(analysis) && judge_lateness(analysis) &&
               gains_find(analysis, &replay, request->team, request->workers) && task_times_judge(analysis) &&
               slow_steps_find(analysis);
        analysis->judgement = how_judged(analysis);
    }
    replay_free(&replay);
    return done;
}

bool straggler_analysis_speaks_of(const struct straggler_analysis *analysis, size_t dump) {
    const struct straggler *const lists[] = {analysis->stragglers, analysis->suspects, analysis->uneven,
                                             analysis->hidden};
    const size_t counts[] = {analysis->straggler_count, analysis->suspect_count, analysis->uneven_count,
                             analysis->hidden_count};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (size_t i = 0; i < counts[k]; i++)
            if (lists[k][i].kind != STRAGGLER_ROTATING && lists[k][i].kind != STRAGGLER_LINK &&
                straggler_concerns(&lists[k][i], dump))
                return true;
    return false;
}

bool straggler_analysis_clears_all(const struct straggler_analysis *analysis) {
    return analysis->judgement == JUDGED && nobody_is_named(analysis);
}

void straggler_analysis_free(struct straggler_analysis *analysis) {
    for (size_t d = 0; analysis->times && d < analysis->directory->dump_count; d++)
        rank_times_free(&analysis->times[d]);
    for (size_t d = 0; analysis->launches && d < analysis->directory->dump_count; d++)
        rank_launches_free(&analysis->launches[d]);
    free(analysis->launches);
    for (size_t d = 0; analysis->tasks && d < analysis->directory->dump_count; d++)
        rank_times_free(&analysis->tasks[d]);
    free(analysis->tasks);
    free(analysis->workers_named);
    free(analysis->times);
    free(analysis->ranks);
    free(analysis->leads);
    free(analysis->hidden);
    free(analysis->profiles);
    free(analysis->reader_of);
    free(analysis->class_of);
    free(analysis->stage_of);
    free(analysis->stragglers);
    free(analysis->suspects);
    free(analysis->uneven);
    free(analysis->dump_lists);
    waits_free(&analysis->waits);
    waits_free(&analysis->shown);
    links_free(&analysis->links);
    group_links_free(&analysis->groups);
    delay_costs_free(&analysis->delay_costs);
    covered_time_free(&analysis->covered);
    if (analysis->directory)
        comparison_groups_free(&analysis->comparison_groups);
    *analysis = (struct straggler_analysis){0};
}
