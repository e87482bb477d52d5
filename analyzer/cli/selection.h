/* SPDX-License-Identifier: Apache-2.0
 *
 * What part of a job a command was asked to look at: the filter options (OPTIONS_FILTER), read once for all commands.
 * Lives here: reading them, from a selected job to its scope.
 * Must not live here: what a command does with the part.
 */
#ifndef COMMTAP_CLI_SELECTION_H
#define COMMTAP_CLI_SELECTION_H

#include "analyzer/profile/scope.h"
#include "analyzer/cli/options.h"

struct selection {
    struct filter filter;
    struct step_marker marker; /* what begins a step; points into the options */
};

/* Reads --from, --to, --step, --marker, --anchor, --rank, --comm, --op and --sizes. Returns EXIT_FINE, or EXIT_USAGE
 * (EXIT_OUTPUT when memory is short) after one message. The caller frees with selection_free in every case. */
int selection_read(struct selection *selection, const struct options *options);
void selection_free(struct selection *selection);

/* Chooses the newest run of a set, or the one that --run names. Returns EXIT_FINE, or EXIT_UNUSABLE (EXIT_OUTPUT) after
 * one message. The caller frees with job_free in every case. `alive` as for job_select. */
int selection_choose_job(struct job *job, const struct dump_set *set, const struct options *options,
                         bool (*alive)(const struct dump *));
/* The same with the id itself, NULL = none. */
int selection_choose_run(struct job *job, const struct dump_set *set, const char *id,
                         bool (*alive)(const struct dump *));

/* A job's clock and what of its time was asked for. */
struct selected_time {
    struct common_clock clock; /* only built where the scope is limited */
    struct scope scope;
};

/* Works out the time that `selection` asks for; nothing is read where it asks for all of it. Returns EXIT_FINE, or
 * EXIT_OUTPUT after one message. The caller frees with selected_time_free in every case. */
int selected_time_find(struct selected_time *time, const struct job *job, const struct selection *selection);
void selected_time_free(struct selected_time *time);

#endif
