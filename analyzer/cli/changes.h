/* SPDX-License-Identifier: Apache-2.0
 *
 * Dumps that somebody truncates or overwrites while a command reads them.
 * Lives here: looking for them before anything is printed, beginning anew, giving up on those that change again.
 * Must not live here: how a read of missing bytes is survived (load/mapping.h).
 *
 * What a command found out from such a file may not fit together. It has not printed anything yet when it asks here:
 * it ends with EXIT_AGAIN, is run again over the files as they are by then, and a file that changed in every try is
 * left out of the next.
 */
#ifndef COMMTAP_CLI_CHANGES_H
#define COMMTAP_CLI_CHANGES_H

#include "analyzer/cli/command.h"
#include "analyzer/cli/options.h"

/* Runs the command, again where its dumps changed before it had printed anything. */
int changes_run(const struct command *command, const struct options *options);

/* EXIT_FINE, or EXIT_AGAIN where files of open dumps changed since they were opened: in any process of the team, all of
 * which come to it. NULL: nobody else does. */
int changes_check(struct team *team);

/* The same where a process may know for other reasons that it has to begin anew, by EXIT_AGAIN: all do then. Another
 * code stays. */
int changes_agree(struct team *team, int code);

/* For a command that prints while it reads: says which files changed meanwhile. Returns `code`, or EXIT_UNUSABLE where
 * any did. */
int changes_tell(int code);

#endif
