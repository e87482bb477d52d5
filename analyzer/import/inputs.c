/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/inputs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/base/grow.h"
#include "shim/format.h"

/* Takes the path. */
static bool add_path(struct import_inputs *inputs, char *path) {
    struct stat status;
    if (!path || !grow_list(inputs->paths, inputs->count)) {
        free(path);
        errno = ENOMEM;
        return false;
    }
    inputs->paths[inputs->count++] = path;
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode))
        inputs->stored += (uint64_t)status.st_size;
    return true;
}

static char *join(const char *directory, const char *name) {
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", directory, name);
    return path;
}

static int is_no_dump(const struct dirent *entry) {
    const char *suffix = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && !(suffix && strcmp(suffix, FORMAT_FILE_SUFFIX) == 0);
}

static int compare_names(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool add_directory(struct import_inputs *inputs, const char *directory) {
    struct dirent **entries;
    struct stat status;
    int count = scandir(directory, &entries, is_no_dump, compare_names);
    bool done = count >= 0;
    for (int i = 0; i < count; i++) {
        char *path = done ? join(directory, entries[i]->d_name) : NULL;
        if (done && path && (stat(path, &status) != 0 || !S_ISREG(status.st_mode)))
            free(path);
        else if (done)
            done = add_path(inputs, path);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return done;
}

bool import_inputs_add(struct import_inputs *inputs, const char *path) {
    struct stat status;
    bool directory = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    return directory ? add_directory(inputs, path) : add_path(inputs, strdup(path));
}

void import_inputs_free(struct import_inputs *inputs) {
    for (size_t i = 0; i < inputs->count; i++)
        free(inputs->paths[i]);
    free(inputs->paths);
    *inputs = (struct import_inputs){0};
}
