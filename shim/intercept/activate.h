/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning and the end of recording in a process: at its first communication call, at its exit.
 * Lives here: opening the dump, starting what every call needs. Must not live here: what one library needs besides
 * (wrap_mpi.c, nccl/nccl_begin.h).
 */
#ifndef COMMTAP_SHIM_INTERCEPT_ACTIVATE_H
#define COMMTAP_SHIM_INTERCEPT_ACTIVATE_H

#include <stdbool.h>

/* Opens the dump and arms the process. Safe to race: one caller wins, the others go unrecorded meanwhile. Returns
 * whether the process records now. */
bool activate_process(void);

/* At the library's end: marks the normal exit and delivers a staged dump. */
void activation_end(void);

/* The size of the world is known better than at activation: the dump's share of the quotas follows. */
void activation_share_quota(void);

#endif
