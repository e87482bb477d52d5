/* SPDX-License-Identifier: Apache-2.0
 *
 * From a directory to a judged job.
 * Lives here: running the stages, progress, --fail-on.
 * Must not live here: the stages, printing of results.
 */
#include "analyzer/cli/session.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/align/align.h"
#include "analyzer/base/side_by_side.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/progress.h"
#include "analyzer/dumps/process.h"
#include "analyzer/match/match.h"
#include "analyzer/render/escape.h"
#include "analyzer/steps/step_waits.h"

/* ---- the stages ------------------------------------------------------------------------------ */

unsigned session_workers(const struct options *options) {
    const char *text = option_text(options, "threads");
    long count = text            ? strtol(text, NULL, 10)
                 : options->team ? (long)options->team->threads
                                 : sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > MATCH_THREADS_MAX ? MATCH_THREADS_MAX : (unsigned)count;
}

static bool judge(struct session *session, struct team *team, unsigned workers, size_t path_parts) {
    struct progress_line line = progress_begin("reading");
    const struct scope *scope = &session->scope;
    const struct filter *filter = &session->selection.filter;
    struct straggler_request request = {.workers = workers,
                                        .team = team,
                                        .limited = scope->limited,
                                        .from_ns = scope->from_ns,
                                        .to_ns = scope->to_ns,
                                        .shown = filter_chooses_calls(filter) ? filter : NULL,
                                        .path_parts = path_parts,
                                        .progress = progress_show,
                                        .progress_context = &line};
    bool done = straggler_analyse(&session->analysis, &session->clock, &session->directory, &request);
    progress_end(&line);
    return done;
}

struct judging {
    struct session *session;
    struct team *team;
    unsigned workers, step_workers;
    size_t path_parts;
    bool judged, found;
};

static bool find_steps(struct session *session, struct team *team, unsigned workers) {
    const struct filter *filter = &session->selection.filter;
    const struct steps_request request = {
        .marker = &session->selection.marker, .counted = filter, .team = team, .threads = workers};
    return steps_find_as_asked(&session->steps, &session->clock, &request) &&
           step_waits_fill(&session->steps, &session->clock, &session->directory, filter, team, workers);
}

static void judge_or_find(void *context, size_t number) {
    struct judging *judging = context;
    if (number == 0)
        judging->judged = judge(judging->session, judging->team, judging->workers, judging->path_parts);
    else
        judging->found = find_steps(judging->session, judging->team, judging->step_workers);
}

/* Judging and looking for steps know nothing of each other, and each has long stretches on one processor: side by side
 * they take little longer than the longer of the two. Judging takes longer: it has all workers, whatever steps take.
 * Processes that share both do one after the other: only one thread of each may talk to the others. */
static bool judge_session(struct session *session, const struct options *options, const struct session_wish *wish) {
    unsigned workers = session_workers(options);
    bool shared = team_is_shared(options->team);
    unsigned step_workers = shared || workers == 1 ? workers : workers / 2;
    struct judging judging = {session, options->team, workers, step_workers, wish->path_parts, false, !wish->steps};
    side_by_side(shared ? 1 : workers, wish->steps ? 2 : 1, judge_or_find, &judging);
    return judging.judged && judging.found;
}

/* Names the call sites that the findings speak of. */
static bool name_sites(struct session *session) {
    session->labels = site_labels_new(session->sites.symbols, &session->sites.skip);
    session->analysis.labels = session->labels;
    return session->labels &&
           hot_sites_build(&session->hot, &session->analysis.waits.sites, session->sites.symbols, session->labels) &&
           critical_path_sites_build(&session->path, &session->analysis.delay_costs, &session->directory,
                                     session->sites.symbols, session->labels);
}

static int run_stages(struct session *session, const struct options *options, const struct session_wish *wish) {
    int code = selection_choose_job(&session->job, &session->set, options, process_is_alive);
    if (code == EXIT_FINE && !job_split(&session->job))
        code = input_no_memory();
    if (code == EXIT_FINE)
        code = call_sites_open(&session->sites, options, session->job.dumps, session->job.count);
    if (code != EXIT_FINE)
        return code;
    bool done = common_clock_build(&session->clock, session->job.dumps, session->job.count) &&
                match_directory_build(&session->directory, session->job.dumps, session->job.count);
    if (done) {
        job_span(&session->job, &session->clock, &session->start_ns, &session->end_ns);
        done = scope_build(&session->scope, &session->job, &session->clock, &session->selection.filter,
                           &session->selection.marker) &&
               judge_session(session, options, wish);
    }
    done = done && name_sites(session);
    if (done)
        findings_collect(&session->findings, &session->set, &session->job, &session->analysis);
    return done && !session->findings.no_memory ? EXIT_FINE : input_no_memory();
}

int session_open_with(struct session *session, const struct options *options, const struct session_wish *wish) {
    *session = (struct session){0};
    int code = session_check_options(options);
    if (code == EXIT_FINE)
        code = selection_read(&session->selection, options);
    if (code == EXIT_FINE)
        code = input_open_arguments(options, &session->set);
    if (code != EXIT_FINE) {
        selection_free(&session->selection);
        return code;
    }
    code = run_stages(session, options, wish);
    if (code != EXIT_FINE)
        session_close(session);
    return code;
}

int session_open(struct session *session, const struct options *options) {
    return session_open_with(session, options, &(struct session_wish){0});
}

void session_close(struct session *session) {
    steps_free(&session->steps);
    findings_free(&session->findings);
    hot_sites_free(&session->hot);
    critical_path_sites_free(&session->path);
    site_labels_free(session->labels);
    call_sites_close(&session->sites);
    straggler_analysis_free(&session->analysis);
    match_directory_free(&session->directory);
    scope_free(&session->scope);
    common_clock_free(&session->clock);
    job_free(&session->job);
    dump_set_close(&session->set);
    selection_free(&session->selection);
}

/* ---- options --------------------------------------------------------------------------------- */

static bool find_severity(const char *text, enum severity *severity) {
    for (int i = SEVERITY_INFO; i <= SEVERITY_ERROR; i++)
        if (strcmp(text, severity_name((enum severity)i)) == 0) {
            *severity = (enum severity)i;
            return true;
        }
    return false;
}

int session_check_options(const struct options *options) {
    size_t position = 0;
    const char *what;
    enum severity least;
    while ((what = option_next(options, "fail-on", &position)) != NULL)
        if (!find_severity(what, &least) && !finding_code_known(what)) {
            fprintf(stderr, "commtap %s: --fail-on takes info, warning, error or a finding's code, not '%.64s'\n",
                    options->command->name, what);
            return EXIT_USAGE;
        }
    const char *threads = option_text(options, "threads");
    if (threads && (!isdigit((unsigned char)threads[0]) || strtol(threads, NULL, 10) < 1)) {
        fprintf(stderr, "commtap %s: --threads takes a number from 1 up\n", options->command->name);
        return EXIT_USAGE;
    }
    return EXIT_FINE;
}

int session_verdict(const struct session *session, const struct options *options) {
    size_t position = 0;
    const char *what;
    while ((what = option_next(options, "fail-on", &position)) != NULL)
        for (size_t i = 0; i < session->findings.count; i++) {
            const struct finding *finding = &session->findings.items[i];
            enum severity least;
            if (find_severity(what, &least) ? finding->severity >= least : strcmp(what, finding->code) == 0)
                return EXIT_FINDINGS;
        }
    return EXIT_FINE;
}
