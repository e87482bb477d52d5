/* SPDX-License-Identifier: Apache-2.0
 *
 * Which job a directory is about, and how it ended.
 * Lives here: the choice among runs, worlds and generations; reading a dump's state.
 * Must not live here: what the ranks did with their time, sentences.
 */
#include "analyzer/job/job.h"

#include <stdlib.h>
#include <string.h>

/* Dumps of equal run, world and generation are neighbours in a set. */
struct job_candidate {
    size_t first, count;
    uint64_t started; /* latest start of a process */
};

static bool same_run(const struct dump *a, const struct dump *b) {
    return strcmp(a->run_id, b->run_id) == 0;
}

static bool same_job(const struct dump *a, const struct dump *b) {
    return same_run(a, b) && a->header->world_id == b->header->world_id &&
           a->header->generation == b->header->generation;
}

static size_t list_job_candidates(const struct dump_set *set, const char *run, struct job_candidate *candidates) {
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct dump *dump = set->dumps[i];
        if (run && strcmp(dump->run_id, run) != 0)
            continue;
        if (count == 0 || !same_job(set->dumps[candidates[count - 1].first], dump))
            candidates[count++] = (struct job_candidate){.first = i};
        struct job_candidate *last = &candidates[count - 1];
        last->count++;
        if (dump->header->process_start_realtime_ns > last->started)
            last->started = dump->header->process_start_realtime_ns;
    }
    return count;
}

static uint64_t run_started(const struct dump_set *set, const struct job_candidate *candidates, size_t count,
                            const struct job_candidate *of) {
    uint64_t started = 0;
    for (size_t i = 0; i < count; i++)
        if (same_run(set->dumps[candidates[i].first], set->dumps[of->first]) && candidates[i].started > started)
            started = candidates[i].started;
    return started;
}

/* The better of two: newest run, then newest generation, then most ranks, then newest. */
static bool is_better(const struct dump_set *set, const struct job_candidate *all, size_t count,
                      const struct job_candidate *a, const struct job_candidate *b) {
    const struct dump *left = set->dumps[a->first], *right = set->dumps[b->first];
    if (!same_run(left, right)) {
        uint64_t left_started = run_started(set, all, count, a), right_started = run_started(set, all, count, b);
        return left_started != right_started ? left_started > right_started : strcmp(left->run_id, right->run_id) > 0;
    }
    if (left->header->generation != right->header->generation)
        return left->header->generation > right->header->generation;
    if (a->count != b->count)
        return a->count > b->count;
    return a->started > b->started;
}

static void count_alternatives(struct job *job, const struct dump_set *set, const struct job_candidate *all,
                               size_t count, const struct job_candidate *chosen) {
    const struct dump *mine = set->dumps[chosen->first];
    for (size_t i = 0; i < count; i++) {
        const struct dump *dump = set->dumps[all[i].first];
        if (!same_run(dump, mine))
            continue;
        bool first_of_generation = true;
        for (size_t j = 0; j < i; j++)
            first_of_generation &= !same_run(set->dumps[all[j].first], mine) ||
                                   set->dumps[all[j].first]->header->generation != dump->header->generation;
        job->generations += first_of_generation;
        job->worlds += dump->header->generation == mine->header->generation;
    }
    for (size_t i = 0; i < set->count; i++)
        job->runs += i == 0 || !same_run(set->dumps[i - 1], set->dumps[i]);
    job->others = set->count - chosen->count;
}

static enum rank_end rank_end_of(const struct dump *dump, bool (*alive)(const struct dump *)) {
    uint32_t state = dump->header->state;
    if (state & STATE_FINALISED)
        return END_FINALISED;
    if (state & STATE_ABORTING)
        return END_ABORTED;
    if (state & STATE_EXITED && dump->header->mpi_family == 0 && state & STATE_INITIALISED)
        return END_FINALISED; /* NCCL alone: nothing need be finalised */
    if (state & STATE_EXITED)
        return state & STATE_INITIALISED ? END_EXITED : END_IN_INIT;
    if (!(state & STATE_INITIALISED))
        return END_IN_INIT;
    if (alive && alive(dump))
        return END_RUNNING;
    return state & STATE_FINALISING ? END_IN_FINALIZE : END_KILLED;
}

static bool take_dumps(struct job *job, const struct dump_set *set, const struct job_candidate *chosen,
                       bool (*alive)(const struct dump *)) {
    job->dumps = calloc(chosen->count, sizeof *job->dumps);
    job->ends = calloc(chosen->count, sizeof *job->ends);
    job->selected = (struct dump_set){.directory = set->directory, .dumps = job->dumps};
    job->selected.duplicate = calloc(chosen->count, sizeof *job->selected.duplicate);
    if (!job->dumps || !job->ends || !job->selected.duplicate)
        return false;
    for (size_t i = chosen->first; i < chosen->first + chosen->count; i++) {
        struct dump *dump = set->dumps[i];
        if (set->duplicate[i]) {
            job->duplicates++;
            continue;
        }
        job->ends[job->count] = rank_end_of(dump, alive);
        job->dumps[job->count++] = dump;
        losses_add(&job->losses, dump);
        if (dump->header->world_size > job->ranks_expected)
            job->ranks_expected = dump->header->world_size;
        for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
            job->events += dump->lanes[lane].end_ticket;
            job->events_lost += dump_lane_lost(dump, lane);
        }
    }
    job->selected.count = job->count;
    return true;
}

enum {
    WORLD_MOST = 1 << 24,  /* a larger world size is damage */
    UNSEEN_MOST = 1 << 20, /* so are more ranks without a dump: each takes 100 bytes, of a claim of four */
};

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
    for (size_t i = 0; i < job->count; i++) {
        int32_t rank = job->dumps[i]->header->rank;
        if (rank >= 0 && (size_t)rank < expected)
            seen[rank] = true;
    }
    for (size_t rank = 0; rank < expected; rank++)
        if (!seen[rank])
            job->missing[job->missing_count++] = (int32_t)rank;
    free(seen);
    return true;
}

int job_select(struct job *job, const struct dump_set *set, const char *run, bool (*alive)(const struct dump *)) {
    *job = (struct job){0};
    struct job_candidate *candidates = calloc(set->count ? set->count : 1, sizeof *candidates);
    if (!candidates)
        return -2;
    size_t count = list_job_candidates(set, run, candidates);
    const struct job_candidate *best = candidates;
    for (size_t i = 1; i < count; i++)
        if (is_better(set, candidates, count, &candidates[i], best))
            best = &candidates[i];
    int result = count == 0 ? -1 : 0;
    if (count > 0) {
        count_alternatives(job, set, candidates, count, best);
        if (!take_dumps(job, set, best, alive) || !find_missing_ranks(job))
            result = -2;
    }
    free(candidates);
    return result;
}

void job_free(struct job *job) {
    free(job->dumps);
    free(job->ends);
    free(job->selected.duplicate);
    free(job->missing);
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
