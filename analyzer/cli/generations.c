/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/generations.h"

#include <stdint.h>

#include "analyzer/align/align.h"
#include "analyzer/cli/watch.h"
#include "analyzer/dumps/process.h"
#include "analyzer/wait_for_graph/deaths.h"

#define NO_PROCESS SIZE_MAX

static bool has_failed(enum rank_end end) {
    return end == END_KILLED || end == END_ABORTED || end == END_EXITED || end == END_IN_INIT;
}

/* Who ended before all others by the note of commtap run; without it, who alone was killed, or whom the others
 * outlived. Those that an agent ends seconds later are killed as well. */
static bool find_first(size_t *first, const struct job *job, const struct job_end *end) {
    struct first_death death;
    size_t killed = 0;
    *first = NO_PROCESS;
    if (end && end->dead_known && has_failed(job->ends[job->process_of[end->dead]])) {
        *first = job->process_of[end->dead];
        return true;
    }
    for (size_t p = 0; p < job->process_count; p++)
        if (job->ends[p] == END_KILLED) {
            killed++;
            *first = p;
        }
    if (killed == 1)
        return true;
    *first = NO_PROCESS;
    if (!first_death_of_job(&death, job, end))
        return false;
    if (death.known && (death.missed || death.of_itself) && has_failed(job->ends[job->process_of[death.party]]))
        *first = job->process_of[death.party];
    return true;
}

/* Of the processes: rows of GPUs are not what the others of the host have noted. */
static bool find_dead(struct generation_row *row, const struct session *session) {
    struct job job;
    struct job_end end;
    size_t first = NO_PROCESS;
    bool done = job_select(&job, &session->set, row->listed->id, process_is_alive) == 0 &&
                find_first(&first, &job, watch_read_end(&job, &end) ? &end : NULL);
    if (done && first != NO_PROCESS) {
        row->dead.rank = job.processes[first]->header->rank;
        row->dead.host = job.processes[first]->host;
    }
    job_free(&job);
    return done;
}

/* The costliest rank or host that is named; what turns, is a link, or is slow by design has no place that could go. */
static void find_slow(struct generation_row *row, const struct job *job, const struct straggler_analysis *analysis) {
    for (size_t i = 0; i < analysis->straggler_count; i++) {
        const struct straggler *straggler = &analysis->stragglers[i];
        if ((straggler->kind != STRAGGLER_RANK && straggler->kind != STRAGGLER_HOST) || straggler->dump_count == 0)
            continue;
        const struct dump *dump = job->dumps[straggler->dumps[0]];
        row->slow.rank = straggler->kind == STRAGGLER_RANK ? dump->header->rank : -1;
        row->slow.host = dump->host;
        row->slowdown_ratio = straggler->slowdown_ratio;
        return;
    }
}

static void take(struct generation_row *row, const struct job *job, const struct common_clock *clock,
                 const struct straggler_analysis *analysis) {
    row->hosts = clock->host_count;
    find_slow(row, job, analysis);
}

static bool judge(struct generation_row *row, const struct session *session, struct team *team, unsigned workers) {
    struct job job;
    struct common_clock clock = {0};
    struct match_directory directory = {0};
    struct straggler_analysis analysis = {0};
    const struct straggler_request request = {.workers = workers, .team = team};
    bool done = job_select(&job, &session->set, row->listed->id, process_is_alive) == 0 && job_split(&job) &&
                common_clock_build(&clock, job.dumps, job.count) &&
                match_directory_build(&directory, job.dumps, job.count) &&
                straggler_analyse(&analysis, &clock, &directory, &request);
    if (done) {
        take(row, &job, &clock, &analysis);
    }
    straggler_analysis_free(&analysis);
    match_directory_free(&directory);
    common_clock_free(&clock);
    job_free(&job);
    return done;
}

static bool is_start_of(const struct listed_job *job, const struct listed_job *of, const struct dump_set *set) {
    return generations_are_alike(set->dumps[job->first]->command, set->dumps[of->first]->command);
}

/* The starts of the run from the newest back, into rows in their order. */
static void list_rows(struct generations *generations, const struct job_list *list, const struct session *session) {
    const struct listed_job *of = session->job.listed, *newest = of, *found[GENERATIONS_MOST];
    for (size_t i = 0; i < list->count; i++) {
        const struct listed_job *job = job_list_generation(list, &session->set, of, list->items[i].generation);
        if (job && job->generation > newest->generation && is_start_of(job, of, &session->set))
            newest = job;
    }
    size_t count = 0;
    for (const struct listed_job *job = newest; job && is_start_of(job, of, &session->set);
         job = job_list_before(list, &session->set, job)) {
        if (count < GENERATIONS_MOST)
            found[count++] = job;
        else
            generations->left_out++;
    }
    for (size_t i = 0; i < count; i++)
        generations->rows[i] =
            (struct generation_row){.listed = found[count - 1 - i], .slow = {-1, NULL, 0}, .dead = {-1, NULL, 0}};
    generations->count = count > 1 ? count : 0;
}

bool generations_judge(struct generations *generations, const struct session *session, struct team *team,
                       unsigned workers) {
    *generations = (struct generations){.count = 0};
    list_rows(generations, &session->job.list, session);
    for (size_t i = 0; i < generations->count; i++) {
        struct generation_row *row = &generations->rows[i];
        if (row->listed == session->job.listed && !session->scope.limited)
            take(row, &session->job, &session->clock, &session->analysis);
        else if (!judge(row, session, team, workers))
            return false;
        if (!find_dead(row, session))
            return false;
    }
    generations_follow(generations->rows, generations->count, &session->set);
    return true;
}
