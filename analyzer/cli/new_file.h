/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that takes its name only once it is whole.
 * Lives here: writing beside it, not taking the place of somebody else's file, putting it in place.
 * Must not live here: what is written.
 *
 * What is no regular file (a pipe, a device) is written to as it is.
 */
#ifndef COMMTAP_CLI_NEW_FILE_H
#define COMMTAP_CLI_NEW_FILE_H

#include <stdbool.h>
#include <stdio.h>

struct new_file {
    FILE *stream;
    /* private */
    char *path;      /* links followed */
    char *temporary; /* beside it; NULL: written to as it is */
};

enum { NEW_FILE_LOOK = 256 }; /* bytes of the file there is that is_ours sees */

/* Opens a file beside `path`. Where there is one already that is not empty, is_ours has to know it, or `force` be set.
 * Returns EXIT_FINE, or after one message EXIT_USAGE (not ours) or EXIT_OUTPUT; then nothing is open. */
int new_file_open(struct new_file *file, const char *path, bool (*is_ours)(const char *first, size_t count),
                  bool force);
/* Where `code` is EXIT_FINE and all could be written, puts the file in place; else takes it away and leaves what was
 * there. Returns `code`, or EXIT_OUTPUT after one message. */
int new_file_close(struct new_file *file, int code);

#endif
