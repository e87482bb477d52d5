/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fleet/own_files.h"

#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "analyzer/archive/archive.h"
#include "analyzer/archive/archive_write.h"
#include "analyzer/base/text.h"
#include "shim/format.h"

enum { BEGINNINGS = 5, BEGINNING_BYTES = 24 };

/* One of these follows the suffix of each. A dump that is being made has no header yet, or has it all. */
static const struct {
    const char *suffix, *beginnings[BEGINNINGS];
} kinds[] = {
    {FORMAT_SYMBOLS_SUFFIX, {"commtap symbols "}},
    {FORMAT_DEATHS_SUFFIX, {"died=", "first=", "ended "}},
    {FORMAT_STUB_SUFFIX, {"host=", "boot_id=", "path=", "pid=", "rank="}},
    {FORMAT_STAGED_SUFFIX, {"host=", "boot_id=", "path=", "pid=", "rank="}},
    {FORMAT_UNFINISHED_SUFFIX, {FORMAT_MAGIC, "\0"}},
};

/* Returns how many bytes it has of them; -1: it cannot be read. */
static ssize_t read_beginning(int directory, const char *name, char *text) {
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1 : pread(file, text, BEGINNING_BYTES, 0);
    if (file >= 0)
        close(file);
    return bytes;
}

static bool begins_with_one(const char *const *beginnings, const char *text, size_t bytes) {
    for (size_t i = 0; i < BEGINNINGS && beginnings[i]; i++) {
        size_t length = beginnings[i][0] ? strlen(beginnings[i]) : 1;
        if (bytes >= length && memcmp(text, beginnings[i], length) == 0)
            return true;
    }
    return bytes == 0;
}

bool own_file_begins(int directory, const char *name) {
    char text[BEGINNING_BYTES];
    if (archive_is_one(name) || text_ends_in(name, ARCHIVE_PART_SUFFIX))
        return archive_begins(directory, name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (text_ends_in(name, kinds[i].suffix)) {
            ssize_t bytes = read_beginning(directory, name, text);
            return bytes >= 0 && begins_with_one(kinds[i].beginnings, text, (size_t)bytes);
        }
    return true;
}
