/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: when dumps are opened, refreshed, judged. Must not live here: what follows from them (live/).
 */
#include "analyzer/screen/live_job.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/cli/input.h"
#include "analyzer/cli/selection.h"
#include "analyzer/cli/watch.h"
#include "analyzer/dumps/process.h"
#include "analyzer/render/escape.h"

/* Ranks that start later, and anchors of clocks, are found when all is opened anew. That takes as much time as some 20
 * looks do. */
#define REOPEN_NS INT64_C(10000000000)

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- opening --------------------------------------------------------------------------------- */

static const char *name_in(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether a copy of what the stub stands for is among the dumps. */
static bool has_copy(const struct dump_set *set, const struct dump_stub *stub) {
    const char *name = name_in(stub->path);
    size_t stem = strlen(name) > strlen(FORMAT_STUB_SUFFIX) ? strlen(name) - strlen(FORMAT_STUB_SUFFIX) : 0;
    for (size_t i = 0; i < set->count; i++) {
        const char *dump = name_in(set->dumps[i]->path);
        if (strncmp(dump, name, stem) == 0 && strcmp(dump + stem, FORMAT_FILE_SUFFIX) == 0)
            return true;
    }
    return false;
}

/* commtap.<run id>.<16 hex>.stub; without any dump all runs are meant, or the one that was asked for. */
static bool is_of_job(const struct live_job *live, const struct dump_stub *stub) {
    const char *name = name_in(stub->path);
    const char *run = live->job.count > 0 ? live->job.dumps[0]->run_id : option_text(live->options, "run");
    if (!run)
        return true;
    size_t prefix = strlen(FORMAT_FILE_PREFIX), length = strcspn(run, "/"); /* a job's number may follow */
    return strncmp(name, FORMAT_FILE_PREFIX, prefix) == 0 && strncmp(name + prefix, run, length) == 0 &&
           name[prefix + length] == '.';
}

static bool take_stubs(struct live_job *live) {
    live->stubs = calloc(live->set.stub_count + 1, sizeof *live->stubs);
    for (size_t i = 0; live->stubs && i < live->set.stub_count; i++)
        if (is_of_job(live, &live->set.stubs[i]) && !has_copy(&live->set, &live->set.stubs[i]))
            live->stubs[live->stub_count++] = live->set.stubs[i];
    return live->stubs != NULL;
}

static void close_set(struct live_job *live) {
    free(live->stubs);
    live->stubs = NULL;
    live->stub_count = 0;
    free(live->states);
    live->states = NULL;
    job_free(&live->job);
    dump_set_close(&live->set);
}

static int take_job(struct live_job *live) {
    if (live->set.count > 0) {
        int code = selection_choose_job(&live->job, &live->set, live->options, process_is_alive);
        if (code != EXIT_FINE)
            return code;
    }
    live->states = calloc(live->job.count + 1, sizeof *live->states);
    return live->states && take_stubs(live) ? EXIT_FINE : input_no_memory();
}

static int open_set(struct live_job *live) {
    live->opened_ns = clock_ns(CLOCK_MONOTONIC);
    enum dump_set_result result = dump_set_open_all(live->places, live->place_count, &live->set);
    if (result != DUMP_SET_OK)
        return input_refuse(live->places, live->place_count, result, &live->set);
    return take_job(live);
}

int live_job_open(struct live_job *live) {
    process_boot_id(live->boot_id, sizeof live->boot_id);
    int code = open_set(live);
    if (code == EXIT_FINE && live->set.count == 0 && live->stub_count == 0) {
        dump_set_close(&live->set);
        return input_open(NULL, live->places, live->place_count, &live->set); /* says why nothing is usable */
    }
    return code;
}

static bool is_another_that_lives(const struct live_job *live, const struct listed_job *job, bool whole_runs) {
    const struct dump *first = live->set.dumps[job->first];
    if (job == live->job.listed || (whole_runs && strcmp(first->run_id, live->job.dumps[0]->run_id) == 0))
        return false;
    for (size_t i = 0; i < job->count; i++)
        if (process_is_alive(live->set.dumps[job->first + i]))
            return true;
    return false;
}

void live_job_name_others(const struct live_job *live, bool whole_runs) {
    size_t count = 0;
    for (size_t i = 0; live->job.count > 0 && !option_text(live->options, "run") && i < live->job.list.count; i++) {
        const struct listed_job *job = &live->job.list.items[i];
        if (!is_another_that_lives(live, job, whole_runs))
            continue;
        if (count++ == 0) {
            fprintf(stderr, "commtap %s: this is ", live->options->command->name);
            escape_text(stderr, live->job.listed->id);
            fputs("; --run takes what else runs there:", stderr);
        }
        fputs(count > 1 ? ", " : " ", stderr);
        escape_text(stderr, job->id);
    }
    if (count > 0)
        fputc('\n', stderr);
}

void live_job_reopen(struct live_job *live) {
    live->opened_ns = INT64_MIN / 2;
}

void live_job_close(struct live_job *live) {
    live_rows_free(&live->rows);
    live_sample_free(&live->now);
    close_set(live);
}

/* ---- looking --------------------------------------------------------------------------------- */

static int refresh(struct live_job *live) {
    bool complete = clock_ns(CLOCK_MONOTONIC) - live->opened_ns < REOPEN_NS;
    for (size_t d = 0; d < live->job.count; d++)
        complete &= dump_refresh_counters(live->job.dumps[d]);
    if (complete)
        return EXIT_FINE;
    close_set(live);
    return open_set(live);
}

static void ask_for_states(struct live_job *live) {
    process_states(live->job.dumps, live->job.count, live->states);
    for (size_t d = 0; d < live->job.count; d++)
        if (live->states[d] == PROCESS_ELSEWHERE && live->is_used && live->is_used(live->context, live->job.dumps[d]))
            live->states[d] = PROCESS_RUNS;
}

static bool anybody_lives(const struct live_job *live) {
    for (size_t d = 0; d < live->job.count; d++)
        if (live->states[d] == PROCESS_RUNS || live->states[d] == PROCESS_STOPPED)
            return true;
    return false;
}

/* Of a job that is over the verdict is the one of commtap diagnose; of one that lives it takes two looks, between which
 * some have not come on. */
static bool judge(struct live_job *live) {
    int32_t *moving = calloc(live->now.count + 1, sizeof *moving);
    struct diagnose_request request = {.states = live->states, .moving = moving};
    const struct moment now = {live->boot_id, clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_REALTIME)};
    struct diagnosis diagnosis;
    struct job_end end;
    if (!moving)
        return false;
    if (watch_read_end(&live->job, &end))
        request.end = &end;
    bool alive = anybody_lives(live), done = true;
    if (alive) {
        request.moving_count = live_moving(&live->now, moving);
        request.settled = request.moving_count == 0;
        request.now = &now;
    }
    if (live->job.count > 0 && request.moving_count < live->job.count) {
        done = diagnose(&diagnosis, &live->job, &request);
        live_summary_judge(&live->summary, &diagnosis);
        diagnosis_free(&diagnosis);
    }
    free(moving);
    return done;
}

/* A verdict rests on records, which are read when a dump is opened. */
static bool records_are_older(const struct live_job *live) {
    return live->summary.standing_ns >= LIVE_STANDS_NS && live_last_move_ns(&live->now) > live->opened_ns;
}

static bool read_all(struct live_job *live, struct live_sample *sample) {
    const struct diagnose_request request = {.states = live->states};
    struct diagnosis waits;
    bool done = diagnose_waits(&waits, &live->job, &request);
    struct live_head *heads = done ? live_heads_read(&waits.world) : NULL;
    struct live_clock clock = {live->boot_id, clock_ns(CLOCK_MONOTONIC), live->elsewhere_realtime_ns};
    if (clock.elsewhere_realtime_ns == 0)
        clock.elsewhere_realtime_ns = clock_ns(CLOCK_REALTIME);
    done = heads && live_sample_take(sample, &live->job, &clock, &live->now);
    if (done) {
        const struct live_request rows = {.job = &live->job,
                                          .waits = &waits,
                                          .now = sample,
                                          .heads = heads,
                                          .stubs = live->stubs,
                                          .stub_count = live->stub_count};
        live_rows_free(&live->rows);
        done = live_rows_make(&live->rows, &rows);
        live_summary_make(&live->summary, &live->rows, &rows);
    }
    free(heads);
    diagnosis_free(&waits);
    return done;
}

int live_job_look(struct live_job *live) {
    struct live_sample sample = {0};
    int code = refresh(live);
    if (code != EXIT_FINE)
        return code;
    ask_for_states(live);
    if (!read_all(live, &sample)) {
        live_sample_free(&sample);
        return input_no_memory();
    }
    live_sample_free(&live->now);
    live->now = sample;
    if (records_are_older(live)) {
        close_set(live);
        code = open_set(live);
        if (code == EXIT_FINE)
            ask_for_states(live);
    }
    if (code == EXIT_FINE && !judge(live))
        code = input_no_memory();
    return code;
}
