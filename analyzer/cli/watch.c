/* SPDX-License-Identifier: Apache-2.0
 *
 * From a directory to a diagnosis.
 * Lives here: opening, waiting between looks, comparing them.
 * Must not live here: judging, printing of results.
 */
#include "analyzer/cli/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/cli/changes.h"
#include "analyzer/cli/command.h"
#include "analyzer/job/deaths.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/processes.h"
#include "analyzer/cli/selection.h"
#include "analyzer/dumps/deaths_note.h"
#include "analyzer/dumps/process.h"

/* ---- one look -------------------------------------------------------------------------------- */

static enum process_state *ask_for_states(const struct job *job) {
    enum process_state *states = calloc(job->count + 1, sizeof *states);
    if (states)
        process_states(job->dumps, job->count, states);
    return states;
}

static int choose_job(struct watch *watch, const struct options *options) {
    int code = selection_choose_job(&watch->job, &watch->set, options, process_is_alive);
    if (code != EXIT_FINE)
        return code;
    watch->states = ask_for_states(&watch->job);
    return watch->states ? EXIT_FINE : input_no_memory();
}

/* Whether a process that has not ended properly may still run. */
static bool may_live(const struct job *job, const enum process_state *states) {
    for (size_t d = 0; d < job->count; d++)
        if (!(job->dumps[d]->header->state & (STATE_FINALISED | STATE_EXITED | STATE_COPIED)) &&
            states[d] != PROCESS_GONE)
            return true;
    return false;
}

static void close_look(struct watch *watch) {
    job_free(&watch->job);
    dump_set_close(&watch->set);
    free(watch->states);
    watch->states = NULL;
}

/* ---- two looks ------------------------------------------------------------------------------- */

/* What the first look saw of each dump, by path. */
struct seen {
    char *path;
    uint64_t look, beat;
    enum process_state state;
};

static int compare_seen(const void *a, const void *b) {
    return strcmp(((const struct seen *)a)->path, ((const struct seen *)b)->path);
}

/* Beats are that far apart, and there is one between two looks of a job of which no process is seen from here. */
#define BEATS_APART (1.25 * BEAT_NS / 1e9)

/* The last one that the process has noted; 0: it notes none. */
static uint64_t last_beat(const struct dump *dump) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < dump->beat_count; i++) {
        uint64_t seen = __atomic_load_n(&dump->beats[i].seen_ns, __ATOMIC_RELAXED);
        last = seen > last ? seen : last;
    }
    return last;
}

static bool any_is_alive(const struct job *job, const enum process_state *states) {
    for (size_t d = 0; d < job->count; d++)
        if (states[d] == PROCESS_RUNS || states[d] == PROCESS_STOPPED)
            return true;
    return false;
}

/* Whether what does not change stands: of who may have ended that tells nothing. An import is of a moment at which its
 * recorder ran. */
static bool is_seen_to_stand(const struct job *job, const enum process_state *states) {
    return any_is_alive(job, states) || (job->count > 0 && job->dumps[0]->header->pid == 0);
}

static double between_looks(const struct job *job, const enum process_state *states, double wait) {
    return !is_seen_to_stand(job, states) && wait < BEATS_APART ? BEATS_APART : wait;
}

static struct seen *note_look(const struct job *job, const enum process_state *states) {
    struct seen *seen = calloc(job->count + 1, sizeof *seen);
    for (size_t d = 0; seen && d < job->count; d++) {
        seen[d] =
            (struct seen){strdup(job->dumps[d]->path), dump_look(job->dumps[d]), last_beat(job->dumps[d]), states[d]};
        if (!seen[d].path) {
            for (size_t i = 0; i < d; i++)
                free(seen[i].path);
            free(seen);
            return NULL;
        }
    }
    if (seen)
        qsort(seen, job->count, sizeof *seen, compare_seen);
    return seen;
}

/* Ranks whose dump looks different now, or was not there before. */
static size_t find_moving(const struct job *job, const struct seen *seen, size_t seen_count, int32_t *ranks) {
    size_t count = 0;
    for (size_t d = 0; d < job->count; d++) {
        const struct seen key = {.path = job->dumps[d]->path};
        const struct seen *before = bsearch(&key, seen, seen_count, sizeof *seen, compare_seen);
        dump_refresh(job->dumps[d]);
        if (!before || before->look != dump_look(job->dumps[d]))
            ranks[count++] = job->dumps[d]->header->rank;
    }
    return count;
}

/* Where a launcher took everybody down between the looks, the first one still knows who had gone before. Who noted a
 * beat meanwhile lives, wherever that is. */
static void recall_states(struct watch *watch, const struct seen *seen, size_t seen_count) {
    const bool any_alive = any_is_alive(&watch->job, watch->states);
    for (size_t d = 0; d < watch->job.count; d++) {
        const struct seen key = {.path = watch->job.dumps[d]->path};
        const struct seen *before = bsearch(&key, seen, seen_count, sizeof *seen, compare_seen);
        if (before && !any_alive)
            watch->states[d] = before->state;
        if (before && watch->states[d] == PROCESS_ELSEWHERE && last_beat(watch->job.dumps[d]) > before->beat)
            watch->states[d] = PROCESS_RUNS;
    }
}

static void sleep_for(double seconds) {
    struct timespec rest = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}

/* Opens everything anew: files may have grown and new ones come. */
static int look_again(struct watch *watch, const struct options *options) {
    close_look(watch);
    enum dump_set_result result =
        dump_set_open_together(options->team, false, options->arguments, options->argument_count, &watch->set);
    if (result != DUMP_SET_OK)
        return input_refuse(options->arguments, options->argument_count, result, &watch->set);
    int code = processes_compare_input(options->team, &watch->set);
    return code == EXIT_FINE ? choose_job(watch, options) : code;
}

bool watch_read_end(const struct job *job, struct job_end *end) {
    char note[DEATHS_NOTE_TEXT];
    return job->count > 0 && deaths_note_read(job->dumps[0], note, sizeof note) && deaths_read(note, job, end);
}

/* When a job was looked at, for processes of this host and of others. */
struct looked_at {
    char boot_id[65];
    struct moment moment;
};

static int64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static const struct moment *look_at_clock(struct looked_at *now) {
    if (!process_boot_id(now->boot_id, sizeof now->boot_id))
        now->boot_id[0] = '\0';
    now->moment = (struct moment){now->boot_id, read_clock(CLOCK_MONOTONIC), read_clock(CLOCK_REALTIME)};
    return &now->moment;
}

static int judge_looks(struct watch *watch, const struct options *options, const int32_t *moving, size_t moving_count) {
    struct call_sites sites;
    int code = call_sites_open(&sites, options, watch->job.dumps, watch->job.count);
    struct site_labels *labels = code == EXIT_FINE ? site_labels_new(sites.symbols, &sites.skip) : NULL;
    struct diagnose_request request = {.states = watch->states,
                                       .settled = watch->looks > 1 && moving_count == 0 &&
                                                  is_seen_to_stand(&watch->job, watch->states),
                                       .moving = moving,
                                       .moving_count = moving_count};
    struct looked_at looked_at;
    struct job_end end;
    if (request.settled)
        request.now = look_at_clock(&looked_at);
    if (watch_read_end(&watch->job, &end))
        request.end = &end;
    if (code == EXIT_FINE)
        code = labels && diagnose(&watch->diagnosis, &watch->job, &request) &&
                       diagnosis_text_make(&watch->text, &watch->diagnosis, &request, labels)
                   ? EXIT_FINE
                   : input_no_memory();
    site_labels_free(labels);
    call_sites_close(&sites);
    return code;
}

/* Live dumps may change while they are judged: what was found holds only if those that stood still do. */
static int judge_until_still(struct watch *watch, const struct options *options, const struct seen *seen, size_t count,
                             int32_t *moving) {
    for (;;) {
        size_t before = find_moving(&watch->job, seen, count, moving);
        int code = judge_looks(watch, options, moving, before);
        if (code != EXIT_FINE || watch->diagnosis.verdict == VERDICT_OK ||
            find_moving(&watch->job, seen, count, moving) <= before)
            return code;
        diagnosis_text_free(&watch->text);
        diagnosis_free(&watch->diagnosis);
    }
}

static int look_twice(struct watch *watch, const struct options *options, double wait) {
    size_t count = watch->job.count;
    struct seen *seen = note_look(&watch->job, watch->states);
    if (!seen)
        return input_no_memory();
    sleep_for(between_looks(&watch->job, watch->states, wait));
    int code = look_again(watch, options);
    int32_t *moving = code == EXIT_FINE ? calloc(watch->job.count + 1, sizeof *moving) : NULL;
    if (moving) {
        watch->looks = 2;
        recall_states(watch, seen, count);
        code = judge_until_still(watch, options, seen, count, moving);
    } else if (code == EXIT_FINE) {
        code = input_no_memory();
    }
    for (size_t i = 0; i < count; i++)
        free(seen[i].path);
    free(seen);
    free(moving);
    return code;
}

int watch_open(struct watch *watch, const struct options *options, double wait) {
    *watch = (struct watch){.looks = 1};
    int code = input_open(options->team, options->arguments, options->argument_count, &watch->set);
    if (code == EXIT_FINE)
        code = choose_job(watch, options);
    if (code != EXIT_FINE)
        return code;
    return may_live(&watch->job, watch->states) ? look_twice(watch, options, wait)
                                                : judge_looks(watch, options, NULL, 0);
}

void watch_close(struct watch *watch) {
    diagnosis_text_free(&watch->text);
    diagnosis_free(&watch->diagnosis);
    close_look(watch);
}

/* ---- a job that is open ---------------------------------------------------------------------- */

/* The ranks of a job whose dumps look different from when they were opened: of other hosts' processes that they live.
 */
static void find_changed(const struct job *job, enum process_state *states, int32_t *moving, size_t *count) {
    *count = 0;
    for (size_t d = 0; d < job->count; d++) {
        dump_refresh(job->dumps[d]);
        if (dump_look(job->dumps[d]) == job->dumps[d]->look)
            continue;
        moving[(*count)++] = job->dumps[d]->header->rank;
        states[d] = states[d] == PROCESS_ELSEWHERE ? PROCESS_RUNS : states[d];
    }
}

/* As judge_until_still. */
static bool judge_open_job(struct diagnosis *diagnosis, struct diagnosis_text *text, const struct job *job,
                           struct diagnose_request *request, bool twice, enum process_state *states, int32_t *moving,
                           struct site_labels *labels) {
    for (;;) {
        size_t before = request->moving_count, now;
        struct looked_at looked_at;
        request->settled = twice && before == 0 && is_seen_to_stand(job, request->states);
        request->now = request->settled ? look_at_clock(&looked_at) : NULL;
        if (!diagnose(diagnosis, job, request) || !diagnosis_text_make(text, diagnosis, request, labels))
            return false;
        if (!twice || diagnosis->verdict == VERDICT_OK)
            return true;
        find_changed(job, states, moving, &now);
        if (now <= before)
            return true;
        request->moving_count = now;
        diagnosis_text_free(text);
        diagnosis_free(diagnosis);
    }
}

/* Who lives after the second look; where a launcher took everybody down meanwhile, who did before. *may_go_on: somebody
 * does, as far as is known. */
static bool ask_again(const struct job *job, enum process_state **states, bool *may_go_on) {
    enum process_state *now = ask_for_states(job);
    bool any_alive = now && any_is_alive(job, now);
    *may_go_on = now && may_live(job, now);
    free(any_alive ? *states : now);
    *states = any_alive ? now : *states;
    return now != NULL;
}

/* As recall_states, of dumps that are open. */
static bool wait_and_ask_again(const struct job *job, enum process_state **states, double wait, bool *may_go_on) {
    uint64_t *beats = calloc(job->count + 1, sizeof *beats);
    for (size_t d = 0; beats && d < job->count; d++)
        beats[d] = last_beat(job->dumps[d]);
    if (beats)
        sleep_for(between_looks(job, *states, wait));
    bool done = beats && ask_again(job, states, may_go_on);
    for (size_t d = 0; done && d < job->count; d++)
        if ((*states)[d] == PROCESS_ELSEWHERE && last_beat(job->dumps[d]) > beats[d])
            (*states)[d] = PROCESS_RUNS;
    free(beats);
    return done;
}

int watch_job(struct diagnosis *diagnosis, struct diagnosis_text *text, const struct job *job, double wait,
              struct site_labels *labels) {
    *diagnosis = (struct diagnosis){0};
    *text = (struct diagnosis_text){0};
    enum process_state *states = ask_for_states(job);
    int32_t *moving = calloc(job->count + 1, sizeof *moving);
    bool done = states && moving, may_go_on = done && may_live(job, states), twice = may_go_on;
    struct diagnose_request request = {.moving = moving};
    struct job_end end;
    if (twice)
        done = wait_and_ask_again(job, &states, wait, &may_go_on);
    if (done)
        find_changed(job, states, moving, &request.moving_count);
    bool over = done && !may_go_on && request.moving_count > 0;
    request.states = states;
    if (watch_read_end(job, &end))
        request.end = &end;
    done = done && (over || judge_open_job(diagnosis, text, job, &request, twice, states, moving, labels));
    free(states);
    free(moving);
    if (over)
        changes_check(NULL); /* it may not have been its writer: such a file is counted, and left out in the end */
    return !done ? input_no_memory() : over ? EXIT_AGAIN : EXIT_FINE;
}
