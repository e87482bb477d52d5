/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening files whose names come from a directory, a dump or a command line, and which may be anything by now.
 * Lives here: what keeps a FIFO from blocking us and a device from being touched.
 * Must not live here: what is in the files.
 */
#ifndef COMMTAP_BASE_REGULAR_FILE_H
#define COMMTAP_BASE_REGULAR_FILE_H

#include <errno.h>

#define ERROR_NOT_REGULAR EMEDIUMTYPE /* no system call on a path returns it */

/* Opens the regular file at `path` (below `directory` where it is relative, as in openat) for reading. Never waits for
 * the other end of a FIFO and never opens a device. `flags`: 0, or O_NOFOLLOW to refuse a symbolic link, or O_RDWR to
 * write into it as well. Returns a descriptor, or -1 with errno set: ERROR_NOT_REGULAR where it is something else,
 * ELOOP for a refused link, ERROR_PLANTED (planted_path.h) for a link that another user has put into a directory that
 * all may write to. */
int regular_file_open(int directory, const char *path, int flags);

/* Words for an errno of regular_file_open or planted_path_open. */
const char *regular_file_error(int error);

#endif
