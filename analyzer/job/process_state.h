/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of the life of processes that wrote dumps.
 * Lives here: the answers. Must not live here: how they are found (process.h).
 */
#ifndef COMMTAP_JOB_PROCESS_STATE_H
#define COMMTAP_JOB_PROCESS_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum process_state {
    PROCESS_GONE = 0,
    PROCESS_RUNS,
    PROCESS_STOPPED,   /* by a signal or a debugger */
    PROCESS_ELSEWHERE, /* on another host: not known */
};

/* What somebody who was there noted of a job's end (format.h, FORMAT_DEATHS_SUFFIX). */
struct job_end {
    bool dead_known;      /* the next four are */
    size_t dead;          /* the job's dump whose process ended before all others */
    bool sure;            /* of itself; else the others went the same way at the same moment */
    int signal, status;   /* how; -1 not known */
    int64_t monotonic_ns; /* when the first process was seen to have ended, on the host of that boot; 0 not known */
    char boot_id[41];
};

#endif
