/* SPDX-License-Identifier: Apache-2.0
 *
 * From a directory to a judged job.
 * Lives here: running the stages, progress, --fail-on.
 * Must not live here: the stages, printing of results.
 */
#include "analyzer/session.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/input.h"
#include "analyzer/process.h"
#include "analyzer/render/escape.h"

/* ---- the stages ------------------------------------------------------------------------------ */

static void show_progress(void *context, unsigned permille) {
    unsigned *shown = context;
    if (permille / 10 == *shown)
        return;
    *shown = permille / 10;
    fprintf(stderr, "\rcommtap: reading %u %%", *shown);
    fflush(stderr);
}

static unsigned worker_count(const struct options *options) {
    const char *text = option_text(options, "threads");
    long count = text ? strtol(text, NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > MATCH_WORKERS_MAX ? MATCH_WORKERS_MAX : (unsigned)count;
}

/* Seconds into the job -> common ns. */
static int64_t moment(const struct session *session, const char *text, int64_t standard) {
    return text ? add_ns(session->start_ns, (int64_t)(strtod(text, NULL) * 1e9)) : standard;
}

static bool judge(struct session *session, const struct options *options) {
    unsigned shown = 0;
    bool terminal = isatty(STDERR_FILENO);
    const char *from = option_text(options, "from"), *to = option_text(options, "to");
    struct straggler_request request = {.workers = worker_count(options),
                                        .limited = from || to,
                                        .from_ns = moment(session, from, -NS_MOST),
                                        .to_ns = moment(session, to, NS_MOST),
                                        .progress = terminal ? show_progress : NULL,
                                        .progress_context = &shown};
    bool done = straggler_analyse(&session->analysis, &session->clock, &session->directory, &request);
    if (terminal && shown > 0)
        fputs("\r\033[K", stderr);
    return done;
}

/* Names the call sites that the findings speak of. */
static bool name_sites(struct session *session) {
    session->labels = site_labels_new(session->sites.symbols, &session->sites.skip);
    session->analysis.labels = session->labels;
    return session->labels && !session->analysis.waits.sites.no_memory &&
           hot_sites_build(&session->hot, &session->analysis.waits.sites, session->sites.symbols, session->labels);
}

static int run_stages(struct session *session, const struct options *options) {
    int selected = job_select(&session->job, &session->set, option_text(options, "run"), process_is_alive);
    if (selected == -1) {
        fputs("commtap: no dump of run '", stderr);
        escape_text(stderr, option_text(options, "run"));
        fputs("' in ", stderr);
        escape_text(stderr, options->arguments[0]);
        fputc('\n', stderr);
        return EXIT_UNUSABLE;
    }
    if (selected != 0)
        return input_no_memory();
    int code = call_sites_open(&session->sites, options, session->job.dumps, session->job.count);
    if (code != EXIT_FINE)
        return code;
    bool done = common_clock_build(&session->clock, session->job.dumps, session->job.count) &&
                match_directory_build(&session->directory, session->job.dumps, session->job.count);
    if (done) {
        job_span(&session->job, &session->clock, &session->start_ns, &session->end_ns);
        done = judge(session, options);
    }
    done = done && name_sites(session);
    if (done)
        findings_collect(&session->findings, &session->set, &session->job, &session->analysis);
    return done && !session->findings.no_memory ? EXIT_FINE : input_no_memory();
}

int session_open(struct session *session, const struct options *options) {
    *session = (struct session){0};
    int code = session_check_options(options);
    if (code != EXIT_FINE)
        return code;
    code = input_open(options->arguments[0], &session->set);
    if (code != EXIT_FINE)
        return code;
    code = run_stages(session, options);
    if (code != EXIT_FINE)
        session_close(session);
    return code;
}

void session_close(struct session *session) {
    findings_free(&session->findings);
    hot_sites_free(&session->hot);
    site_labels_free(session->labels);
    call_sites_close(&session->sites);
    straggler_analysis_free(&session->analysis);
    match_directory_free(&session->directory);
    common_clock_free(&session->clock);
    job_free(&session->job);
    dump_set_close(&session->set);
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

/* A number of seconds: digits with at most one dot, short enough for any arithmetic. */
static bool is_seconds(const char *text) {
    size_t digits = strspn(text, "0123456789");
    size_t fraction = text[digits] == '.' ? 1 + strspn(text + digits + 1, "0123456789") : 0;
    return digits > 0 && digits < 10 && text[digits + fraction] == '\0';
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
    static const char *const moments[] = {"from", "to"};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        const char *text = option_text(options, moments[i]);
        if (text && !is_seconds(text)) {
            fprintf(stderr, "commtap %s: --%s takes seconds since the start of the job\n", options->command->name,
                    moments[i]);
            return EXIT_USAGE;
        }
    }
    const char *from = option_text(options, "from"), *to = option_text(options, "to");
    if (from && to && strtod(from, NULL) >= strtod(to, NULL)) {
        fprintf(stderr, "commtap %s: --from %s is not before --to %s\n", options->command->name, from, to);
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
