/* SPDX-License-Identifier: Apache-2.0
 *
 * From a directory to a diagnosis: one look at a job that is over, two at one that may live.
 * Lives here: opening, asking for processes, waiting between looks.
 * Must not live here: judging, printing of results.
 */
#ifndef COMMTAP_CLI_WATCH_H
#define COMMTAP_CLI_WATCH_H

#include "analyzer/cli/call_sites.h"
#include "analyzer/findings/diagnosis_text.h"

struct watch {
    struct dump_set set;
    struct job job;
    enum process_state *states; /* per dump of the job */
    struct diagnosis diagnosis;
    struct diagnosis_text text; /* the same in words */
    unsigned looks;
};

/* Opens the directory that is the first argument, looks at its newest job (or that of --run), a second time after
 * `wait` seconds where processes may live, and judges it. Returns EXIT_FINE; otherwise a message was printed. The
 * caller ends with watch_close in every case. */
int watch_open(struct watch *watch, const struct options *options, double wait);
void watch_close(struct watch *watch);

/* The same for a job that is open already; a second look, where it is needed, is at the same dumps. EXIT_AGAIN: the job
 * has ended since it was opened, and went on until then, so that what was read is not how it ended. The caller frees
 * with diagnosis_free and diagnosis_text_free in every case. */
int watch_job(struct diagnosis *diagnosis, struct diagnosis_text *text, const struct job *job, double wait,
              struct site_labels *labels);

/* What was noted of the job's end beside its dumps; false where nothing was. */
bool watch_read_end(const struct job *job, struct job_end *end);

#endif
