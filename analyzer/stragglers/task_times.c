/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/task_times.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/sort.h"
#include "analyzer/base/statistics.h"
#include "analyzer/stragglers/tasks.h"
#include "analyzer/stragglers/verdicts.h"

enum { PARTS = 16 };   /* of a worker's tasks: two for each of TIME_BATCHES_MIN batches */
#define ALIKE_MOST 0.9 /* correlation of parts that follow each other: of more, 19 parts count as one */

struct worker {
    size_t dump;
    size_t first, count; /* of the tasks that are kept, in their order */
    double tasks;        /* all that it did, and for each: */
    double cycle_ns;     /* from one to the next */
    double own_ns;
    double ratio; /* its median task / that of all others, or the same of the means, where that is less */
};

/* The workers of one master. */
struct workers {
    struct straggler_analysis *analysis;
    struct worker *items;
    struct significance *verdicts; /* of these */
    size_t count;
    int64_t *own_ns; /* of the tasks, worker by worker; sorted for each worker once they have ranks */
    double *ranks;   /* of the tasks among all, from 1; ties share the mean */
    int64_t *sorted; /* all tasks */
    size_t task_count;
    double tasks, own_sum_ns; /* of all that the workers did */
};

/* ---- what they did ----------------------------------------------------------------------------------------------- */

static void list_workers(struct workers *workers, uint32_t group) {
    const struct straggler_analysis *analysis = workers->analysis;
    workers->count = workers->task_count = 0;
    workers->tasks = workers->own_sum_ns = 0;
    for (size_t d = 0; d < analysis->directory->dump_count; d++) {
        const struct rank_times *times = &analysis->tasks[d];
        double tasks = is_worker(analysis, d, group) ? tasks_done(analysis, d) : 0;
        if (tasks == 0)
            continue;
        struct worker *worker = &workers->items[workers->count++];
        *worker = (struct worker){.dump = d,
                                  .first = workers->task_count,
                                  .tasks = tasks,
                                  .cycle_ns = (double)times->window_ns / tasks,
                                  .own_ns = (double)times->self_ns / tasks};
        for (size_t i = 0; i < (size_t)times->sampled.count * SAMPLED_SEGMENT; i++)
            if (times->sampled.self_ns[i] != SAMPLED_NONE)
                workers->own_ns[workers->task_count++] = times->sampled.self_ns[i];
        worker->count = workers->task_count - worker->first;
        workers->tasks += tasks;
        workers->own_sum_ns += (double)times->self_ns;
    }
}

struct placed_task {
    int64_t own_ns;
    size_t place;
};

static bool comes_before(const struct placed_task *a, const struct placed_task *b) {
    return a->own_ns < b->own_ns;
}

static int compare_placed(const void *a, const void *b) {
    return comes_before(b, a) - comes_before(a, b);
}

DEFINE_SORT(sort_tasks, struct placed_task, comes_before, compare_placed)

/* Returns false when memory is short. */
static bool rank_tasks(struct workers *workers) {
    size_t count = workers->task_count;
    struct placed_task *sorted = malloc((count + 1) * sizeof *sorted);
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = (struct placed_task){workers->own_ns[i], i};
    if (sorted)
        sort_tasks(sorted, count);
    for (size_t i = 0, end; sorted && i < count; i = end) {
        for (end = i + 1; end < count && sorted[end].own_ns == sorted[i].own_ns; end++)
            ;
        for (size_t k = i; k < end; k++) {
            workers->ranks[sorted[k].place] = ((double)i + (double)end + 1) / 2;
            workers->sorted[k] = sorted[k].own_ns;
        }
    }
    free(sorted);
    return sorted != NULL;
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

/* A worker's tasks in parts that follow each other: the mean of the ranks in each. */
struct parts {
    double means[PARTS], mean;
    size_t count;
};

static struct parts parts_of(const struct workers *workers, const struct worker *worker) {
    struct parts parts = {.count = worker->count < PARTS ? worker->count : PARTS};
    for (size_t p = 0; p < parts.count; p++) {
        size_t from = p * worker->count / parts.count, to = (p + 1) * worker->count / parts.count;
        for (size_t i = from; i < to; i++)
            parts.means[p] += workers->ranks[worker->first + i] / (double)(to - from);
        parts.mean += parts.means[p] / (double)parts.count;
    }
    return parts;
}

/* What the parts of all workers have in common: their variance around the means of their workers', and how much of one
 * is in the next. A correlation that is estimated around a mean of the same parts is low by about one of them. */
struct spread {
    double variance, alike;
    double workers, parts, sum; /* of the parts' means */
};

static struct spread spread_of(const struct parts *parts, size_t count) {
    double squares = 0, products = 0, freedom = 0, all = 0, sum = 0;
    for (size_t w = 0; w < count; w++) {
        double before = 0;
        for (size_t p = 0; p < parts[w].count; p++) {
            double here = parts[w].means[p] - parts[w].mean;
            squares += here * here;
            products += here * before; /* 0 to begin with */
            before = here;
        }
        freedom += parts[w].count > 0 ? (double)parts[w].count - 1 : 0;
        all += (double)parts[w].count;
        sum += parts[w].mean * (double)parts[w].count;
    }
    double alike = squares > 0 && all > 0 ? products / squares + (double)count / all : 0;
    return (struct spread){freedom > 0 ? squares / freedom : 0, fmin(fmax(alike, 0), ALIKE_MOST), (double)count, all,
                           sum};
}

/* Chance that the worker's parts stand so far above those of all others (Student): parts that resemble the ones before
 * them count for fewer. */
static double chance_above(const struct parts *own, const struct spread *spread) {
    double share = (1 - spread->alike) / (1 + spread->alike), mine = (double)own->count, others = spread->parts - mine;
    double freedom = spread->parts * share - spread->workers;
    if (mine == 0 || others == 0 || freedom < 1 || spread->variance <= 0)
        return 1;
    double above = own->mean - (spread->sum - own->mean * mine) / others;
    double t = above / sqrt(spread->variance * (1 / (mine * share) + 1 / (others * share)));
    double tails = student_both_tails(t, (unsigned)freedom);
    return t > 0 ? tails / 2 : 1 - tails / 2;
}

/* How many of ascending values are below `bound`. */
static size_t count_below(const int64_t *values, size_t count, int64_t bound) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (values[middle] < bound)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The median task of all others, the lower one of two: the first of all that has half of them at or below it. */
static double median_of_others(const struct workers *workers, const struct worker *worker) {
    const int64_t *own = workers->own_ns + worker->first;
    size_t others = workers->task_count - worker->count, low = 0, high = workers->task_count;
    while (others > 0 && low < high) {
        size_t middle = low + (high - low) / 2;
        int64_t value = workers->sorted[middle];
        size_t upto =
            count_below(workers->sorted, workers->task_count, value + 1) - count_below(own, worker->count, value + 1);
        if (upto > (others - 1) / 2)
            high = middle;
        else
            low = middle + 1;
    }
    return others > 0 ? (double)workers->sorted[low] : 0;
}

static double mean_of_others(const struct workers *workers, const struct worker *worker) {
    double tasks = workers->tasks - worker->tasks;
    return tasks > 0 ? (workers->own_sum_ns - worker->own_ns * worker->tasks) / tasks : 0;
}

/* Returns false when memory is short. */
static bool judge_workers(struct workers *workers) {
    struct significance **list = calloc(workers->count + 1, sizeof *list);
    struct parts *parts = calloc(workers->count + 1, sizeof *parts);
    bool done = list && parts && rank_tasks(workers);
    for (size_t w = 0; done && w < workers->count; w++)
        parts[w] = parts_of(workers, &workers->items[w]);
    struct spread spread = done ? spread_of(parts, workers->count) : (struct spread){0};
    for (size_t w = 0; done && w < workers->count; w++) {
        struct worker *worker = &workers->items[w];
        double own = worker->count > 0 ? (double)median_low_int64(workers->own_ns + worker->first, worker->count) : 0;
        double median = median_of_others(workers, worker), mean = mean_of_others(workers, worker);
        worker->ratio = median > 0 && mean > 0 ? fmin(own / median, worker->own_ns / mean) : 1;
        workers->verdicts[w] = (struct significance){.ratio = worker->ratio, .p = chance_above(&parts[w], &spread)};
        list[w] = &workers->verdicts[w];
    }
    done = done && significance_correct(list, workers->count);
    free(list);
    free(parts);
    return done;
}

/* ---- what it costs ----------------------------------------------------------------------------------------------- */

/* The share of its time that the busiest other rank of the group has nothing left in: the master's, who hands out no
 * more tasks than that. */
static double busy_share(const struct straggler_analysis *analysis, uint32_t group) {
    double most = 0;
    for (size_t d = 0; d < analysis->directory->dump_count; d++) {
        const struct rank_times *times = &analysis->times[d];
        bool other = analysis->comparison_groups.group_of[d] == group && !is_worker(analysis, d, group);
        if (other && times->window_ns > 0)
            most = fmax(most, (double)times->self_ns / (double)times->window_ns);
    }
    return most;
}

/* How many times as many tasks all get done in a time when this one's take as long as those of the others. */
static double gain_of(const struct workers *workers, const struct worker *slow, double busy) {
    double now = 0, mended = 0;
    for (size_t w = 0; w < workers->count; w++) {
        const struct worker *worker = &workers->items[w];
        double saved = worker == slow ? worker->own_ns * (1 - 1 / worker->ratio) : 0;
        now += 1 / worker->cycle_ns;
        mended += 1 / (worker->cycle_ns - saved);
    }
    double gain = mended / now;
    return busy > 0 ? fmin(gain, 1 / busy) : gain;
}

/* ---- naming ------------------------------------------------------------------------------------------------------ */

static void name_worker(struct workers *workers, size_t w, double gain) {
    struct straggler_analysis *analysis = workers->analysis;
    const struct worker *worker = &workers->items[w];
    analysis->workers_named[worker->dump] = worker->dump;
    analysis->stragglers[analysis->straggler_count++] =
        (struct straggler){.kind = STRAGGLER_RANK,
                           .host = analysis->clock->host_of[worker->dump],
                           .dumps = &analysis->workers_named[worker->dump],
                           .dump_count = 1,
                           .imposed_ns = analysis->delay_costs.ranks[worker->dump].imposed_ns,
                           .waited_for_ns = analysis->waits.ranks[worker->dump].waited_for_ns,
                           .extra_ns = (int64_t)(worker->own_ns * worker->tasks * (1 - 1 / worker->ratio)),
                           .work_ns = (int64_t)worker->own_ns,
                           .others_work_ns = (int64_t)mean_of_others(workers, worker),
                           .slowdown_ratio = worker->ratio,
                           .persistence = 1,
                           .confidence = workers->verdicts[w].confidence,
                           .estimated_speedup = gain,
                           .what_if_speedup = gain,
                           .batches = (size_t)worker->tasks,
                           .by_tasks = true,
                           .communicator = NOWHERE};
    analysis->ranks[worker->dump].ratio = worker->ratio;
    analysis->ranks[worker->dump].confidence = workers->verdicts[w].confidence;
    analysis->named_speedup = fmax(analysis->named_speedup, gain);
    analysis->even_speedup = fmax(analysis->even_speedup, gain);
}

static void name_slow(struct workers *workers, uint32_t group) {
    double busy = busy_share(workers->analysis, group);
    for (size_t w = 0; w < workers->count; w++) {
        const struct worker *worker = &workers->items[w];
        if (worker->ratio < SLOW_RATIO || workers->verdicts[w].confidence < CONFIDENCE_VERDICT ||
            straggler_analysis_speaks_of(workers->analysis, worker->dump))
            continue;
        double gain = gain_of(workers, worker, busy);
        if ((1 - 1 / gain) * VERDICT_SHARE >= 1)
            name_worker(workers, w, gain);
    }
}

bool task_times_judge(struct straggler_analysis *analysis) {
    size_t dumps = analysis->directory->dump_count, room = 1;
    for (size_t d = 0; analysis->tasks && d < dumps; d++)
        room += (size_t)analysis->tasks[d].sampled.count * SAMPLED_SEGMENT;
    if (!analysis->tasks)
        return true;
    struct workers workers = {.analysis = analysis,
                              .items = calloc(dumps, sizeof *workers.items),
                              .verdicts = calloc(dumps, sizeof *workers.verdicts),
                              .own_ns = malloc(room * sizeof *workers.own_ns),
                              .ranks = malloc(room * sizeof *workers.ranks),
                              .sorted = malloc(room * sizeof *workers.sorted)};
    analysis->workers_named = calloc(dumps, sizeof *analysis->workers_named);
    bool done = workers.items && workers.verdicts && workers.own_ns && workers.ranks && workers.sorted &&
                analysis->workers_named;
    for (uint32_t group = 0; done && group < analysis->comparison_groups.count; group++) {
        list_workers(&workers, group);
        if (workers.count < 2)
            continue;
        done = judge_workers(&workers);
        if (done)
            name_slow(&workers, group);
    }
    free(workers.items);
    free(workers.verdicts);
    free(workers.own_ns);
    free(workers.ranks);
    free(workers.sorted);
    return done;
}
