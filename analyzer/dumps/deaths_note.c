/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/dumps/deaths_note.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"
#include "analyzer/dumps/set.h"

bool deaths_note_read(const struct dump *dump, char *text, size_t size) {
    char *path = dump_set_beside(dump, FORMAT_DEATHS_SUFFIX);
    if (!path)
        return false;
    int file = regular_file_open(AT_FDCWD, path, 0);
    ssize_t length = file < 0 ? -1 : read(file, text, size - 1);
    if (file >= 0)
        close(file);
    free(path);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}
