/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of the life of a process that wrote a dump.
 * Lives here: the answers. Must not live here: how they are found (process.h).
 */
#ifndef COMMTAP_DIAGNOSE_PROCESS_STATE_H
#define COMMTAP_DIAGNOSE_PROCESS_STATE_H

enum process_state {
    PROCESS_GONE = 0,
    PROCESS_RUNS,
    PROCESS_STOPPED,   /* by a signal or a debugger */
    PROCESS_ELSEWHERE, /* on another host: not known */
};

/* How the first process ended that died; -1 not known. */
struct death {
    int signal; /* that ended it */
    int status; /* with which it exited */
};

#endif
