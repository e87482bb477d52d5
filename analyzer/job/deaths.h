/* SPDX-License-Identifier: Apache-2.0
 *
 * How a job ended and who died first, as `commtap run` saw it.
 * Lives here: understanding its note beside the dumps (format.h, FORMAT_DEATHS_SUFFIX). Must not live here: opening it
 * (dumps/deaths_note.h), what follows from it.
 */
#ifndef COMMTAP_JOB_DEATHS_H
#define COMMTAP_JOB_DEATHS_H

#include "analyzer/job/job.h"

/* What somebody who was there noted of a job's end (format.h, FORMAT_DEATHS_SUFFIX). */
struct job_end {
    bool dead_known;      /* the next four are */
    size_t dead;          /* the job's dump whose process ended before all others */
    bool sure;            /* of itself; else the others went the same way at the same moment */
    int signal, status;   /* how; -1 not known */
    int64_t monotonic_ns; /* when the first process was seen to have ended, on the host of that boot; 0 not known */
    char boot_id[41];
};

/* Understands the text of a note, which is changed by that. Returns false where it tells nothing; a death of a process
 * outside of the job is left out. */
bool deaths_read(char *note, const struct job *job, struct job_end *end);

#endif
