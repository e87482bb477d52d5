/* SPDX-License-Identifier: Apache-2.0
 *
 * From a directory to a judged job: what `report` and `stragglers` do before they print.
 * Lives here: running the stages one after the other, with progress on a terminal.
 * Must not live here: the stages, printing of results.
 */
#ifndef COMMTAP_CLI_SESSION_H
#define COMMTAP_CLI_SESSION_H

#include "analyzer/findings/findings.h"
#include "analyzer/waits/hot_sites.h"
#include "analyzer/waits/critical_path_sites.h"
#include "analyzer/cli/call_sites.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/selection.h"
#include "analyzer/steps/steps.h"

struct session {
    struct selection selection;
    struct scope scope; /* what of the time was asked for */
    struct dump_set set;
    struct job job;
    struct common_clock clock;
    struct match_directory directory;
    struct straggler_analysis analysis;
    struct findings findings;
    struct call_sites sites;
    struct site_labels *labels;
    struct hot_sites hot;
    struct critical_path_sites path;
    struct steps steps; /* with their waits, where they were asked for; of the functions and communicators chosen */
    int64_t start_ns, end_ns; /* of the job, common clock */
};

/* What a command wants beside the judgement. */
struct session_wish {
    size_t path_parts; /* of the critical path that are kept (analysis.delay_costs.parts) */
    bool steps;        /* the job's steps: found while it is judged, where there are two workers or more */
};

/* clang-format off */
#define OPTION_RUN \
    {.name = "run", .argument = "ID", \
     .doc = "this one of several runs, or of several jobs of a run (RUN/2), which an ID that there is not lists; default: the newest"}, \
    OPTION_GENERATION
#define OPTION_GENERATION \
    {.name = "generation", .argument = "N", \
     .doc = "of a run that was restarted this start, as its launcher counts them or, where it does not, from 0; default: the newest"}
/* clang-format on */
#define OPTION_THREADS                                                                                                 \
    { .name = "threads", .argument = "N", .doc = "worker threads; the result does not depend on them" }
#define OPTION_FAIL_ON                                                                                                 \
    {                                                                                                                  \
        .name = "fail-on", .argument = "WHAT", .repeats = true,                                                        \
        .doc = "exit with 1 on findings: a severity (info, warning, error: that or worse) or a finding's code, one "   \
               "of these",                                                                                             \
        .listed = finding_code_at                                                                                      \
    }

/* Opens and judges the directory that is the first argument. Returns EXIT_FINE; otherwise a message was printed and
 * nothing is left open. The caller ends with session_close. Where a part of the time was asked for, only that is
 * judged: one window for all ranks, with what reaches into it. --rank, --comm, --op and --sizes take nothing from the
 * judgement: who is to blame does not depend on who is shown. */
int session_open(struct session *session, const struct options *options);
int session_open_with(struct session *session, const struct options *options, const struct session_wish *wish);
void session_close(struct session *session);

/* Worker threads to use: as many as --threads says, where the command has it, else one per processor that no other
 * process of the team uses. */
unsigned session_workers(const struct options *options);

/* EXIT_FINDINGS where --fail-on asks for it, else EXIT_FINE. */
int session_verdict(const struct session *session, const struct options *options);
/* Checks --fail-on and --threads before any work. Returns EXIT_FINE, or EXIT_USAGE after one message. */
int session_check_options(const struct options *options);

#endif
