/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of the life of processes that wrote dumps.
 * Lives here: the answers. Must not live here: how they are found (process.h).
 */
#ifndef COMMTAP_DUMPS_PROCESS_STATE_H
#define COMMTAP_DUMPS_PROCESS_STATE_H

enum process_state {
    PROCESS_GONE = 0,
    PROCESS_RUNS,
    PROCESS_STOPPED,   /* by a signal or a debugger */
    PROCESS_ELSEWHERE, /* on another host, or in a container that is not seen from here: not known */
};

#endif
