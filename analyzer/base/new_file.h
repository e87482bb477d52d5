/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that takes its name only once it is whole.
 * Lives here: a name beside it to write to, not taking the place of somebody else's file, putting it in place.
 * Must not live here: what is written, messages.
 *
 * What is no regular file (a pipe, a device) is written in place; so is a file in a directory that nothing can be made
 * in. Links are followed; one that leads nowhere stays as it is, and
 * nothing is written.
 */
#ifndef COMMTAP_BASE_NEW_FILE_H
#define COMMTAP_BASE_NEW_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct new_file {
    char *path;   /* links followed */
    char *beside; /* what will be called so; NULL: it is written in place */
};

enum { NEW_FILE_LOOK = 256 }; /* bytes of the file there is that `is_ours` sees */
typedef bool (*new_file_is_ours)(const char *first, size_t count);

/* Where there is a file already that is not empty, `is_ours` (NULL: anything is) has to know it, or `force` be set. The
 * new one has the mode of the one that was there, else as open with O_CREAT gives it. Returns NULL, or why it cannot
 * be; then nothing was made. */
const char *new_file_begin(struct new_file *file, const char *path, new_file_is_ours is_ours, bool force);

/* What to open for writing: it is there already where it is not written in place. */
static inline const char *new_file_name(const struct new_file *file) {
    return file->beside ? file->beside : file->path;
}

/* Gives it its name. Returns NULL, or why not. */
const char *new_file_place(struct new_file *file);
/* Frees; what has not got its name is removed. */
void new_file_end(struct new_file *file);

#endif
