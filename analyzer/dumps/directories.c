/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/dumps/directories.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/archive/archive.h"
#include "analyzer/base/grow.h"
#include "analyzer/base/planted_path.h"
#include "analyzer/base/statistics.h"
#include "analyzer/base/text.h"
#include "shim/format.h"

enum { LEVELS = 5 }; /* %j, %u, %h, %p and %r, each in a directory of its own */

bool names_add(struct names *names, char *name) {
    if (!name || !grow_by_one(names->items, names->count, names->room)) {
        free(name);
        return false;
    }
    names->items[names->count++] = name;
    return true;
}

void names_sort(struct names *names) {
    if (names->count > 0)
        qsort(names->items, names->count, sizeof *names->items, compare_text);
}

void names_free(struct names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct names){0};
}

/* A dump, or what stands for one. */
static bool is_of_a_dump(const char *name) {
    static const char *const suffixes[] = {FORMAT_FILE_SUFFIX, FORMAT_STUB_SUFFIX, FORMAT_STAGED_SUFFIX,
                                           FORMAT_FILE_SUFFIX FORMAT_UNFINISHED_SUFFIX};
    if (archive_is_one(name))
        return true;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (text_ends_in(name, suffixes[i]))
            return true;
    return false;
}

static bool is_directory(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Lists `place`: whether it holds dumps, and the directories in it where it does not. */
static enum directories_result look_into(const char *place, bool *holds_dumps, struct names *below) {
    DIR *stream = opendir(place);
    if (!stream)
        return DIRECTORIES_UNREADABLE;
    enum directories_result result = DIRECTORIES_FOUND;
    *holds_dumps = false;
    for (struct dirent *entry; result == DIRECTORIES_FOUND && !*holds_dumps && (entry = readdir(stream));) {
        char *path = NULL;
        *holds_dumps = is_of_a_dump(entry->d_name);
        if (*holds_dumps || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (asprintf(&path, "%s/%s", place, entry->d_name) < 0)
            result = DIRECTORIES_NO_MEMORY;
        else if (!is_directory(path))
            free(path);
        else if (!names_add(below, path))
            result = DIRECTORIES_NO_MEMORY;
    }
    closedir(stream);
    names_sort(below);
    return result;
}

static enum directories_result find_from(const char *place, int levels, struct names *found) {
    struct names below = {0};
    bool holds_dumps = false;
    enum directories_result result = look_into(place, &holds_dumps, &below);
    if (result == DIRECTORIES_FOUND && holds_dumps && !names_add(found, strdup(place)))
        result = DIRECTORIES_NO_MEMORY;
    for (size_t i = 0; result == DIRECTORIES_FOUND && !holds_dumps && levels > 0 && i < below.count; i++)
        if (find_from(below.items[i], levels - 1, found) == DIRECTORIES_NO_MEMORY)
            result = DIRECTORIES_NO_MEMORY;
    names_free(&below);
    return result;
}

enum directories_result directories_find(const char *place, struct names *found) {
    if (planted_path(place)) {
        errno = ERROR_PLANTED;
        return DIRECTORIES_UNREADABLE;
    }
    return find_from(place, LEVELS, found);
}
