/* SPDX-License-Identifier: Apache-2.0
 *
 * The analyzer as a function: what `commtap` and `commtap-mpi` have in common.
 * Lives here: running a command line. Must not live here: how processes come to be.
 */
#ifndef COMMTAP_PROGRAM_H
#define COMMTAP_PROGRAM_H

#include "analyzer/base/team.h"

/* Does what the command line says and returns an enum exit_code. `team`: the processes that do it together, NULL for
 * commtap itself. */
int program_run(int argc, char **argv, struct team *team);

#endif
