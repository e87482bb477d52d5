/* SPDX-License-Identifier: Apache-2.0
 *
 * Who this process is: host, command, launcher, run, world, provisional rank.
 * Lives here: reading /proc and the launchers' environment variables, once, at activation.
 * Must not live here: ranks as the communication library tells them (wrap_mpi's), output directories.
 */
#ifndef COMMTAP_SHIM_RECORD_IDENTITY_H
#define COMMTAP_SHIM_RECORD_IDENTITY_H

#include <stdbool.h>

#include "shim/format.h"

/* Fills the identity part of `header`. `run_id_knob` is COMMTAP_RUN_ID or "". Unknown ranks stay RANK_UNKNOWN. Without
 * `arguments` the command is the program's name alone. */
void identity_fill(struct dump_header *header, const char *run_id_knob, bool arguments);

#endif
