/* SPDX-License-Identifier: Apache-2.0
 *
 * Links on the way to a place that was named which another user may have put there.
 * Lives here: walking the path by the library's rule (shim/base/planted_link.h), so that what it would not write
 * behind nothing reads or deletes either. Must not live here: opening files (regular_file.h).
 */
#ifndef COMMTAP_BASE_PLANTED_PATH_H
#define COMMTAP_BASE_PLANTED_PATH_H

#include <errno.h>
#include <stdbool.h>

#define ERROR_PLANTED EXDEV /* what opening a file to read it never gives; the library says the same by it */

/* Cuts `path` behind the first link on the way to it that is not to be followed. False where there is none: then `path`
 * is as it was. */
bool planted_path_cut(char *path);

/* Whether there is one. */
bool planted_path(const char *path);

/* Opens a directory that was named, as open does with O_DIRECTORY. Returns a descriptor, or -1 with errno set:
 * ERROR_PLANTED where such a link is on the way, for which regular_file_error has the words. */
int planted_path_open(const char *path);

#endif
