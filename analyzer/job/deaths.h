/* SPDX-License-Identifier: Apache-2.0
 *
 * How a job ended and who died first, as `commtap run` saw it.
 * Lives here: reading its note beside the dumps (format.h, FORMAT_DEATHS_SUFFIX). Must not live here: what follows.
 */
#ifndef COMMTAP_JOB_DEATHS_H
#define COMMTAP_JOB_DEATHS_H

#include "analyzer/job/job.h"
#include "analyzer/job/process_state.h"

/* Reads the note beside the job's first dump. Returns false when there is none, or none that can be read; a death of a
 * process outside of the job is left out. */
bool deaths_read(const struct job *job, struct job_end *end);

#endif
