/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that have a name of ours: whether what they hold begins like it.
 * Lives here: beginnings of all files but dumps (peek_dump reads more of those). Must not live here: names (fleet.h).
 */
#ifndef COMMTAP_FLEET_OWN_FILES_H
#define COMMTAP_FLEET_OWN_FILES_H

#include <stdbool.h>

/* Whether the file `name` in `directory` begins as files of that suffix do (format.h, doc/FORMAT.md, archive.h). An
 * empty one does: it is just being made. Links are not followed. */
bool own_file_begins(int directory, const char *name);

#endif
