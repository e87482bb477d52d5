/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose job it was.
 * Lives here: the name for a number. Must not live here: who owns files.
 */
#ifndef COMMTAP_CLI_USER_H
#define COMMTAP_CLI_USER_H

enum { USER_BYTES = 64 };

/* The name of the user that a dump tells of. A process whose environment named none has noted the number, for which the
 * name is asked here; where nobody has it, the number stays. Returns `user` or `name`. */
const char *user_named(const char *user, char name[USER_BYTES]);

#endif
