/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/generations.h"

#include "analyzer/align/align.h"
#include "analyzer/dumps/deaths_note.h"
#include "analyzer/dumps/process.h"
#include "analyzer/job/deaths.h"

static bool has_failed(enum rank_end end) {
    return end == END_KILLED || end == END_ABORTED || end == END_EXITED || end == END_IN_INIT;
}

/* By the note of commtap run; without it only where a single process was killed and the others were not. */
static void find_dead(struct generation_rank *dead, const struct job *job) {
    char note[DEATHS_NOTE_TEXT];
    struct job_end end;
    size_t killed = 0, which = 0;
    for (size_t p = 0; p < job->process_count; p++)
        if (job->ends[p] == END_KILLED) {
            killed++;
            which = p;
        }
    if (deaths_note_read(job->dumps[0], note, sizeof note) && deaths_read(note, job, &end) && end.dead_known &&
        has_failed(job->ends[job->process_of[end.dead]])) {
        killed = 1;
        which = job->process_of[end.dead];
    }
    if (killed == 1) {
        dead->rank = job->processes[which]->header->rank;
        dead->host = job->processes[which]->host;
    }
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
    find_dead(&row->dead, job);
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
        if (row->listed == session->job.listed && !session->scope.limited) {
            take(row, &session->job, &session->clock, &session->analysis);
        } else if (!judge(row, session, team, workers)) {
            return false;
        }
    }
    generations_follow(generations->rows, generations->count, &session->set);
    return true;
}
