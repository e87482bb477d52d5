/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/job/job_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/dumps/lifetime.h"

enum { REQUEUES_MOST = 1000 }; /* restarts of a batch job; a larger count is damage */

static bool same_run(const struct dump *a, const struct dump *b) {
    return strcmp(a->run_id, b->run_id) == 0;
}

static bool same_job(const struct dump *a, const struct dump *b) {
    return same_run(a, b) && a->world_id == b->world_id && a->generation == b->generation && a->launch == b->launch;
}

static void add_dump(struct listed_job *job, const struct dump *dump, bool duplicate) {
    struct lifetime life = dump_lifetime(dump);
    job->count++;
    job->ranks += !duplicate;
    if (dump->header->process_start_realtime_ns > job->process_started)
        job->process_started = dump->header->process_start_realtime_ns;
    if (!life.known)
        return;
    job->start_ns = job->start_ns == INT64_MIN || life.start_ns < job->start_ns ? life.start_ns : job->start_ns;
    job->end_ns = life.end_ns > job->end_ns ? life.end_ns : job->end_ns;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* What is known of the launch that jobs are being added to. */
struct launch {
    unsigned number;
    bool open;       /* of one of its jobs it is not known when it was there */
    int64_t end_ns;  /* of those that were before */
    uint32_t newest; /* generation */
    const struct dump *first;
};

/* Processes that one daemon of a launcher started: MPI_Comm_spawn makes such, and no dump may tell how long the parents
 * waited. */
static bool same_launcher(const struct dump *a, const struct dump *b) {
    return a->launcher[0] && strcmp(a->launcher, b->launcher) == 0 && strcmp(a->boot_id, b->boot_id) == 0 &&
           a->header->parent_pid == b->header->parent_pid;
}

/* It ran beside those before it, or is their restart. */
static bool is_of_launch(const struct launch *launch, const struct listed_job *job, const struct dump *dump) {
    return launch->open || job->start_ns == INT64_MIN || job->start_ns <= launch->end_ns ||
           dump->generation > launch->newest || same_launcher(launch->first, dump);
}

static int compare_starts(const void *a, const void *b) {
    const struct listed_job *left = a, *right = b;
    if (left->start_ns != right->start_ns)
        return left->start_ns < right->start_ns ? -1 : 1;
    return (left->first > right->first) - (left->first < right->first);
}

/* Jobs of one run are taken in the order of their beginnings. */
struct generation {
    unsigned number, launch;
    uint32_t counted;               /* by the launcher */
    int64_t end_ns, before_ends_ns; /* INT64_MIN: not known */
};

/* Launchers count restarts after failures, not those after a change of members, and mpirun counts none: what begins
 * when all before it is over is another generation, too. */
static void add_to_generation(struct generation *now, struct listed_job *job, uint32_t counted, bool first) {
    bool after = now->end_ns != INT64_MIN && job->start_ns > now->end_ns;
    if (first || job->launch != now->launch || counted != now->counted || after) {
        unsigned next = first ? 0 : now->number + 1;
        *now = (struct generation){.number = counted > next ? counted : next,
                                   .launch = job->launch,
                                   .counted = counted,
                                   .end_ns = INT64_MIN,
                                   .before_ends_ns = first ? INT64_MIN : now->end_ns};
    }
    now->end_ns = job->end_ns > now->end_ns ? job->end_ns : now->end_ns;
    job->generation = now->number;
    bool known = now->before_ends_ns != INT64_MIN && job->start_ns >= now->before_ends_ns;
    if (!known || __builtin_sub_overflow(job->start_ns, now->before_ends_ns, &job->gap_ns))
        job->gap_ns = -1;
}

/* Numbers the jobs of one run and gives them their ids. */
static void order_run(struct listed_job *jobs, size_t count, const struct dump_set *set) {
    struct launch launch = {0};
    struct generation generation = {0};
    qsort(jobs, count, sizeof *jobs, compare_starts);
    for (size_t i = 0; i < count; i++) {
        const struct dump *dump = set->dumps[jobs[i].first];
        if (i == 0 || !is_of_launch(&launch, &jobs[i], dump))
            launch = (struct launch){.number = launch.number + (i > 0), .end_ns = INT64_MIN, .first = dump};
        launch.open |= jobs[i].start_ns == INT64_MIN;
        launch.end_ns = jobs[i].end_ns > launch.end_ns ? jobs[i].end_ns : launch.end_ns;
        launch.newest = dump->generation > launch.newest ? dump->generation : launch.newest;
        jobs[i].number = (unsigned)i + 1;
        jobs[i].launch = launch.number;
        add_to_generation(&generation, &jobs[i], dump->generation, i == 0);
        snprintf(jobs[i].id, sizeof jobs[i].id, count > 1 ? "%s/%u" : "%s", dump->run_id, jobs[i].number);
    }
}

/* ---- jobs that their batch system started again ------------------------------------------------ */

static bool is_torchruns(const struct dump *dump) {
    return strcmp(dump->launcher, LAUNCHER_TORCHRUN) == 0;
}

/* Restarts by the batch system; -1: not known. What torchrun counts are none. */
static int64_t requeues_of(const struct dump *dump) {
    return dump->batch_starts > 0 ? (int64_t)dump->batch_starts - 1
           : is_torchruns(dump)   ? -1
                                  : (int64_t)dump->generation;
}

/* A requeued job has its number still, and another restart count; its launches have run ids of their own. Of several
 * torchruns in one job, each with a rendezvous of its own, the same command is the same one. */
static bool is_requeued(const struct dump *a, const struct dump *b) {
    int64_t left = requeues_of(a), right = requeues_of(b);
    return a->job_id[0] && left >= 0 && right >= 0 && left != right && strcmp(a->job_id, b->job_id) == 0 &&
           strcmp(a->user, b->user) == 0 && is_torchruns(a) == is_torchruns(b) &&
           (!is_torchruns(a) || strcmp(a->command, b->command) == 0);
}

static bool same_starts(const struct dump *a, const struct dump *b) {
    return same_run(a, b) || is_requeued(a, b);
}

/* The last generation of the start before that of `first`, the first job of a run. */
static const struct listed_job *requeued_before(const struct job_list *list, const struct dump_set *set,
                                                const struct listed_job *first) {
    const struct dump *mine = set->dumps[first->first];
    const struct listed_job *before = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct listed_job *job = &list->items[i];
        const struct dump *dump = set->dumps[job->first];
        int64_t requeues = requeues_of(dump), latest = before ? requeues_of(set->dumps[before->first]) : -1;
        if (!same_run(dump, mine) && requeues < requeues_of(mine) && is_requeued(dump, mine) &&
            (requeues > latest || (requeues == latest && job->generation > before->generation)))
            before = job;
    }
    return before;
}

static void follow_on(struct listed_job *jobs, size_t count, const struct listed_job *before) {
    unsigned first = jobs[0].generation, number = before->generation + 1 > first ? before->generation + 1 : first;
    for (size_t i = 0; i < count; i++) {
        bool of_first = jobs[i].generation == first;
        jobs[i].generation += number - first;
        if (of_first && before->end_ns != INT64_MIN && jobs[i].start_ns >= before->end_ns &&
            __builtin_sub_overflow(jobs[i].start_ns, before->end_ns, &jobs[i].gap_ns))
            jobs[i].gap_ns = -1;
    }
}

static size_t jobs_of_run(const struct job_list *list, const struct dump_set *set, size_t first) {
    size_t end = first + 1;
    while (end < list->count && same_run(set->dumps[list->items[first].first], set->dumps[list->items[end].first]))
        end++;
    return end - first;
}

/* Goes on with the numbers of the start before, beginning with the runs that were restarted least. */
static void number_requeued(struct job_list *list, const struct dump_set *set) {
    int64_t most = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct dump *dump = set->dumps[list->items[i].first];
        most = dump->job_id[0] && requeues_of(dump) > most ? requeues_of(dump) : most;
    }
    for (int64_t restarts = 1; restarts <= most && restarts <= REQUEUES_MOST; restarts++)
        for (size_t first = 0, count; first < list->count; first += count) {
            count = jobs_of_run(list, set, first);
            const struct listed_job *before = requeues_of(set->dumps[list->items[first].first]) == restarts
                                                  ? requeued_before(list, set, &list->items[first])
                                                  : NULL;
            if (before)
                follow_on(list->items + first, count, before);
        }
}

/* ---- the list -------------------------------------------------------------------------------- */

bool job_list_build(struct job_list *list, const struct dump_set *set) {
    *list = (struct job_list){.items = calloc(set->count + 1, sizeof *list->items)};
    for (size_t i = 0; list->items && i < set->count; i++) {
        if (i == 0 || !same_job(set->dumps[i - 1], set->dumps[i]))
            list->items[list->count++] = (struct listed_job){.first = i, .start_ns = INT64_MIN, .end_ns = INT64_MIN};
        add_dump(&list->items[list->count - 1], set->dumps[i], set->duplicate[i]);
    }
    for (size_t first = 0, count; list->items && first < list->count; first += count) {
        count = jobs_of_run(list, set, first);
        order_run(list->items + first, count, set);
    }
    if (list->items)
        number_requeued(list, set);
    return list->items != NULL;
}

const struct listed_job *job_list_generation(const struct job_list *list, const struct dump_set *set,
                                             const struct listed_job *of, unsigned number) {
    const struct listed_job *best = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct listed_job *job = &list->items[i];
        if (job->generation == number && same_starts(set->dumps[job->first], set->dumps[of->first]) &&
            (!best || job->ranks > best->ranks))
            best = job;
    }
    return best;
}

const struct listed_job *job_list_before(const struct job_list *list, const struct dump_set *set,
                                         const struct listed_job *job) {
    const struct listed_job *before = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct listed_job *other = &list->items[i];
        if (other->generation < job->generation && same_starts(set->dumps[other->first], set->dumps[job->first]) &&
            (!before || other->generation > before->generation ||
             (other->generation == before->generation && other->ranks > before->ranks)))
            before = other;
    }
    return before;
}

void job_list_free(struct job_list *list) {
    free(list->items);
    *list = (struct job_list){0};
}

bool listed_job_is(const struct listed_job *job, const struct dump_set *set, const char *id) {
    char numbered[JOB_ID + 16];
    const char *run = set->dumps[job->first]->run_id;
    snprintf(numbered, sizeof numbered, "%s/%u", run, job->number);
    return strcmp(id, run) == 0 || strcmp(id, numbered) == 0;
}
