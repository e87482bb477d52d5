/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap metrics: a job for Prometheus, once or again and again while it runs.
 * Lives here: options, when to write. Must not live here: which metrics there are (metrics/).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "analyzer/base/text.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/session.h"
#include "analyzer/dumps/process.h"
#include "analyzer/metrics/metrics.h"

/* Those that are still in MPI_Init included, unlike in what became of them. */
static size_t ranks_running(const struct session *session) {
    size_t running = 0;
    for (size_t d = 0; d < session->job.count; d++)
        running += !(session->job.dumps[d]->header->state & STATE_EXITED) && process_is_alive(session->job.dumps[d]);
    return running;
}

static int write_metrics(const struct options *options, const struct session *session, size_t running) {
    struct output output;
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    bool done = metrics_print(output.stream, session, running, option_given(options, "per-rank"));
    return output_close(&output, done ? EXIT_FINE : input_no_memory());
}

/* *running: so many of the job's ranks. */
static int look_once(const struct options *options, size_t *running) {
    struct session session;
    int code = session_open(&session, options);
    if (code != EXIT_FINE)
        return code;
    *running = ranks_running(&session);
    code = write_metrics(options, &session, *running);
    session_close(&session);
    return code;
}

static void sleep_for(double seconds) {
    double whole = floor(seconds);
    struct timespec rest = {(time_t)whole, (long)((seconds - whole) * 1e9)};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}

enum { INTERVAL_MOST = 86400 };

/* 0: once. */
static int read_interval(const struct options *options, double *interval) {
    const char *text = option_text(options, "interval");
    *interval = 0;
    if (!text || text_seconds(text, 0.1, INTERVAL_MOST, interval))
        return EXIT_FINE;
    fprintf(stderr, "commtap metrics: --interval takes seconds from 0.1 to %d, not '%.64s'\n", INTERVAL_MOST, text);
    return EXIT_USAGE;
}

/* In later rounds dumps that change while they are read are nothing to end for: the next round reads them anew. */
static int run(const struct options *options) {
    double interval;
    size_t running = 0;
    int code = read_interval(options, &interval);
    if (code == EXIT_FINE && interval > 0 && !option_given(options, "textfile")) {
        fputs("commtap metrics: --interval needs --textfile\n", stderr);
        return EXIT_USAGE;
    }
    if (code == EXIT_FINE)
        code = look_once(options, &running);
    while (code == EXIT_FINE && interval > 0 && running > 0) {
        sleep_for(interval);
        code = look_once(options, &running);
        if (code == EXIT_AGAIN)
            code = EXIT_FINE;
    }
    return code;
}

static const struct option option_rows[] = {
    {.name = "textfile",
     .argument = "FILE",
     .doc = "write there instead of standard output; the file is replaced whole. NAME.prom in the directory of node "
            "exporter's textfile collector is taken up by it"},
    {.name = "interval",
     .argument = "SECONDS",
     .doc = "write again so often, 0.1 to 86400, until no process of the job runs any more, that time included"},
    {.name = "per-rank", .doc = "operations of every rank, not summed over ranks"},
    OPTION_RUN,
    OPTION_THREADS,
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap metrics --textfile /var/lib/prometheus/node-exporter/job.prom --interval 30 DIR",
     "figures of a running job for node exporter, every half minute"},
    {"commtap metrics DIR", "the same of now, on standard output"},
    {NULL, NULL},
};

const struct command command_metrics = {
    .name = "metrics",
    .summary = "a job in Prometheus' text format, for node exporter's textfile collector; also while it runs",
    .arguments = "DIR...",
    .details =
        "Format 0.0.4, without timestamps. Counters (_total) hold every call of every rank; what is said of waits and\n"
        "stragglers is that of commtap report and rests on the events that are still there. Sizes of messages are put\n"
        "together by powers of two (message_size_min is the least of each). doc/grafana-dashboard.json shows them.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .examples = examples,
    .run = run,
};
