/* SPDX-License-Identifier: Apache-2.0
 *
 * Which job a directory is about, and how it ended.
 * Lives here: the choice among runs, worlds and generations; reading a dump's state.
 * Must not live here: what the ranks did with their time, sentences.
 */
#include "analyzer/job/job.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/dumps/lifetime.h"
#include "analyzer/load/rows.h"

/* The list of a set, with what an id leaves of it. */
struct candidates {
    const struct dump_set *set;
    const struct job_list *list;
    const char *id;
};

static const struct dump *first_dump(const struct candidates *all, const struct listed_job *job) {
    return all->set->dumps[job->first];
}

static bool same_run(const struct candidates *all, const struct listed_job *a, const struct listed_job *b) {
    return strcmp(first_dump(all, a)->run_id, first_dump(all, b)->run_id) == 0;
}

static uint64_t run_started(const struct candidates *all, const struct listed_job *of) {
    uint64_t started = 0;
    for (size_t i = 0; i < all->list->count; i++)
        if (same_run(all, &all->list->items[i], of) && all->list->items[i].process_started > started)
            started = all->list->items[i].process_started;
    return started;
}

/* torchrun counts no change of members, and so the starts are counted; of others what they count, since processes that
 * MPI_Comm_spawn makes come later and are no restart. */
static unsigned start_of(const struct candidates *all, const struct listed_job *job) {
    const struct dump *dump = first_dump(all, job);
    return strcmp(dump->launcher, LAUNCHER_TORCHRUN) == 0 ? job->generation : dump->generation;
}

/* The better of two: newest run, then newest launch, then newest generation, then most ranks, then newest. */
static bool is_better(const struct candidates *all, const struct listed_job *a, const struct listed_job *b) {
    const struct dump *left = first_dump(all, a), *right = first_dump(all, b);
    if (!same_run(all, a, b)) {
        uint64_t left_started = run_started(all, a), right_started = run_started(all, b);
        return left_started != right_started ? left_started > right_started : strcmp(left->run_id, right->run_id) > 0;
    }
    if (a->launch != b->launch)
        return a->launch > b->launch;
    if (start_of(all, a) != start_of(all, b))
        return start_of(all, a) > start_of(all, b);
    if (a->count != b->count)
        return a->count > b->count;
    return a->process_started > b->process_started;
}

static const struct listed_job *find_best(const struct candidates *all) {
    const struct listed_job *best = NULL;
    for (size_t i = 0; i < all->list->count; i++) {
        const struct listed_job *job = &all->list->items[i];
        if ((!all->id || listed_job_is(job, all->set, all->id)) && (!best || is_better(all, job, best)))
            best = job;
    }
    return best;
}

/* Jobs are listed by their beginnings: of those before this one in its launch, none is of its generation. */
static bool is_first_of_generation(const struct candidates *all, size_t at) {
    const struct listed_job *job = &all->list->items[at];
    for (size_t i = 0; i < at; i++)
        if (same_run(all, &all->list->items[i], job) && all->list->items[i].launch == job->launch &&
            start_of(all, &all->list->items[i]) == start_of(all, job))
            return false;
    return true;
}

static void count_alternatives(struct job *job, const struct candidates *all) {
    const struct listed_job *mine = job->listed, *items = all->list->items;
    for (size_t i = 0; i < all->list->count; i++) {
        job->runs += i == 0 || !same_run(all, &items[i - 1], &items[i]);
        if (!same_run(all, &items[i], mine))
            continue;
        job->launches = items[i].launch + 1 > job->launches ? items[i].launch + 1 : job->launches;
        if (items[i].launch != mine->launch)
            continue;
        job->generations += is_first_of_generation(all, i);
        job->worlds += start_of(all, &items[i]) == start_of(all, mine);
    }
    job->others = all->set->count - mine->count;
}

static enum rank_end rank_end_of(const struct dump *dump, bool (*alive)(const struct dump *)) {
    uint32_t state = dump->header->state;
    if (dump->header->pid == 0) /* no process wrote it: a trace ends, or was taken, whatever became of the job */
        return END_UNTOLD;
    if (dump_has_finished(dump->header))
        return state & STATE_ABORTING && !(state & STATE_FINALISED) ? END_ABORTED : END_FINALISED;
    if (state & STATE_ABORTING)
        return END_ABORTED;
    if (state & STATE_EXITED)
        return state & STATE_INITIALISED ? END_EXITED : END_IN_INIT;
    if (!(state & STATE_INITIALISED))
        return END_IN_INIT;
    if (alive && alive(dump))
        return END_RUNNING;
    return state & STATE_FINALISING ? END_IN_FINALIZE : END_KILLED;
}

static bool take_dumps(struct job *job, const struct dump_set *set, const struct listed_job *chosen,
                       bool (*alive)(const struct dump *)) {
    job->processes = job->dumps = calloc(chosen->count, sizeof *job->dumps);
    job->process_of = calloc(chosen->count, sizeof *job->process_of);
    job->ends = calloc(chosen->count, sizeof *job->ends);
    job->selected = (struct dump_set){.directory = set->directory, .places = set->places, .dumps = job->dumps};
    job->selected.duplicate = calloc(chosen->count, sizeof *job->selected.duplicate);
    if (!job->dumps || !job->process_of || !job->ends || !job->selected.duplicate)
        return false;
    for (size_t i = chosen->first; i < chosen->first + chosen->count; i++) {
        struct dump *dump = set->dumps[i];
        if (set->duplicate[i]) {
            job->duplicates++;
            continue;
        }
        job->ends[job->count] = rank_end_of(dump, alive);
        job->process_of[job->count] = job->count;
        job->dumps[job->count++] = dump;
        losses_add(&job->losses, dump);
        if (dump->header->world_size > job->ranks_expected)
            job->ranks_expected = dump->header->world_size;
        for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
            job->events += dump_lane_written(dump, lane);
            job->events_lost += dump_lane_lost(dump, lane);
        }
    }
    job->selected.count = job->process_count = job->count;
    return true;
}

enum {
    HEX_DIGITS = 16,
    WORLD_MOST = 1 << 24,  /* a larger world size is damage */
    UNSEEN_MOST = 1 << 20, /* so are more ranks without a dump: each takes 100 bytes, of a claim of four */
};

/* Whether the stub is one of a run: "commtap.<run id>.<16 hex>.stub". */
static bool stub_is_of_run(const struct dump_stub *stub, const char *run_id) {
    const char *slash = strrchr(stub->path, '/'), *name = slash ? slash + 1 : stub->path;
    size_t prefix = strlen(FORMAT_FILE_PREFIX), length = strlen(run_id);
    return strncmp(name, FORMAT_FILE_PREFIX, prefix) == 0 && strncmp(name + prefix, run_id, length) == 0 &&
           name[prefix + length] == '.' &&
           strlen(name + prefix + length) == 1 + HEX_DIGITS + strlen(FORMAT_STUB_SUFFIX);
}

static int compare_ranks(const void *rank, const void *missing) {
    return (*(const int32_t *)rank > *(const int32_t *)missing) - (*(const int32_t *)rank < *(const int32_t *)missing);
}

/* Of several launches of a run the stubs are told apart no further: a rank may have a dump all the same. */
static bool find_stubs(struct job *job, const struct dump_set *set) {
    job->missing_stubs = calloc(job->missing_count + 1, sizeof *job->missing_stubs);
    for (size_t i = 0; job->missing_stubs && job->count > 0 && i < set->stub_count; i++) {
        const struct dump_stub *stub = &set->stubs[i];
        if (stub->damage || !stub_is_of_run(stub, job->dumps[0]->run_id))
            continue;
        const int32_t *missing =
            bsearch(&stub->rank, job->missing, job->missing_count, sizeof *job->missing, compare_ranks);
        if (missing)
            job->missing_stubs[missing - job->missing] = stub;
    }
    return job->missing_stubs != NULL;
}

static bool find_missing_ranks(struct job *job) {
    if (job->ranks_expected > WORLD_MOST || job->ranks_expected > UNSEEN_MOST + (int64_t)job->count)
        job->ranks_expected = 0;
    size_t expected = job->ranks_expected > 0 ? (size_t)job->ranks_expected : 0;
    bool *seen = calloc(expected + 1, sizeof *seen);
    job->missing = calloc(expected + 1, sizeof *job->missing);
    if (!seen || !job->missing) {
        free(seen);
        return false;
    }
    for (size_t i = 0; i < job->process_count; i++) {
        int32_t rank = job->processes[i]->header->rank;
        if (rank >= 0 && (size_t)rank < expected)
            seen[rank] = true;
    }
    for (size_t rank = 0; rank < expected; rank++)
        if (!seen[rank])
            job->missing[job->missing_count++] = (int32_t)rank;
    free(seen);
    return true;
}

int job_select(struct job *job, const struct dump_set *set, const char *id, bool (*alive)(const struct dump *)) {
    *job = (struct job){0};
    if (!job_list_build(&job->list, set))
        return -2;
    const struct candidates all = {set, &job->list, id};
    job->listed = find_best(&all);
    if (!job->listed)
        return -1;
    count_alternatives(job, &all);
    return take_dumps(job, set, job->listed, alive) && find_missing_ranks(job) && find_stubs(job, set) ? 0 : -2;
}

static void free_views(struct job *job) {
    for (size_t p = 0; job->views && p < job->process_count; p++)
        gpu_views_free(&job->views[p]);
    free(job->views);
    job->views = NULL;
}

/* Whether some process has views. False with `done` false where memory is short. */
static bool make_views(struct job *job, size_t *count, bool *done) {
    bool some = false;
    *count = 0;
    job->views = calloc(job->process_count + 1, sizeof *job->views);
    *done = job->views != NULL;
    for (size_t p = 0; *done && p < job->process_count; p++) {
        *done = gpu_views_make(&job->views[p], job->processes[p]);
        some |= job->views[p].count > 0;
        *count += job->views[p].count > 0 ? job->views[p].count : 1;
    }
    if (*done && !some)
        free_views(job);
    return *done && some;
}

static void list_views(struct job *job) {
    job->count = 0;
    for (size_t p = 0; p < job->process_count; p++)
        for (uint32_t i = 0; i == 0 || i < job->views[p].count; i++) {
            job->dumps[job->count] = job->views[p].count > 0 ? job->views[p].dumps[i] : job->processes[p];
            job->selected.dumps[job->count] = job->processes[p];
            job->selected.duplicate[job->count] = i > 0;
            job->process_of[job->count++] = p;
        }
    job->selected.count = job->count;
}

bool job_split(struct job *job) {
    size_t count;
    bool done;
    if (!make_views(job, &count, &done))
        return done;
    size_t *process_of = calloc(count, sizeof *process_of);
    bool *duplicate = calloc(count, sizeof *duplicate);
    struct dump **dumps = calloc(count, sizeof *dumps), **selected = calloc(count, sizeof *selected);
    done = process_of && duplicate && dumps && selected;
    if (done) {
        free(job->process_of);
        free(job->selected.duplicate);
        job->process_of = process_of;
        job->selected.duplicate = duplicate;
        job->dumps = dumps;
        job->selected.dumps = selected;
        list_views(job);
        return true;
    }
    free(process_of);
    free(duplicate);
    free(dumps);
    free(selected);
    return false;
}

size_t job_gpus(const struct job *job) {
    size_t count = 0;
    for (size_t d = 0; d < job->count; d++)
        count += dump_gpu(job->dumps[d]) != NULL;
    return count;
}

void job_free(struct job *job) {
    free_views(job);
    if (job->dumps != job->processes) { /* it was split */
        free(job->dumps);
        free(job->selected.dumps);
    }
    free(job->processes);
    free(job->process_of);
    free(job->ends);
    free(job->selected.duplicate);
    free(job->missing);
    free(job->missing_stubs);
    job_list_free(&job->list);
    *job = (struct job){0};
}

/* ---- span ------------------------------------------------------------------------------------ */

static void note_moment(const struct common_clock *clock, size_t dump, uint64_t ticks, int64_t *start, int64_t *end) {
    if (ticks == 0)
        return;
    int64_t when = to_common(clock, dump, ticks);
    if (when < *start)
        *start = when;
    if (when > *end)
        *end = when;
}

uint64_t job_overwritten(const struct job *job) {
    uint64_t shed = job->losses.of[LOSS_RECORDS_SHED];
    return job->events_lost > shed ? job->events_lost - shed : 0;
}

void job_span(const struct job *job, const struct common_clock *clock, int64_t *start_ns, int64_t *end_ns) {
    *start_ns = NS_MOST;
    *end_ns = -NS_MOST;
    for (size_t d = 0; d < job->count; d++) {
        const struct dump *dump = job->dumps[d];
        const uint64_t moments[] = {dump->header->activated_ticks, dump->header->initialised_ticks,
                                    dump->header->finalise_ticks, dump->header->finalised_ticks,
                                    dump->header->exited_ticks};
        for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++)
            note_moment(clock, d, moments[i], start_ns, end_ns);
        for (uint32_t i = 0; i < dump->in_flight_count; i++) {
            note_moment(clock, d, dump->in_flight[i].call ? dump->in_flight[i].enter : 0, start_ns, end_ns);
            note_moment(clock, d, dump->in_flight[i].last_leave, start_ns, end_ns);
        }
        for (size_t i = 0; i < dump->anchor_count; i++)
            note_moment(clock, d, dump->anchors[i].ticks, start_ns, end_ns);
    }
}
