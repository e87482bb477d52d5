/* SPDX-License-Identifier: Apache-2.0
 *
 * Who died first, as `commtap run` saw it.
 * Lives here: reading its note beside the dumps (format.h, FORMAT_DEATHS_SUFFIX). Must not live here: what follows.
 */
#ifndef COMMTAP_DEATHS_H
#define COMMTAP_DEATHS_H

#include "analyzer/analyse/job.h"
#include "analyzer/diagnose/process_state.h"

/* Finds the note of a job, beside its first dump. Returns false when there is none, or none that can be read, or it is
 * about a process outside of the job; else *dump is the process's number in the job. */
bool deaths_read(const struct job *job, size_t *dump, struct death *death);

#endif
