/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/collect/mapped.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/grow.h"
#include "shim/format.h"

static bool add_mapping(struct mapped *mapped, const char *path) {
    if (mapped->count > 0 && strcmp(mapped->paths[mapped->count - 1], path) == 0)
        return true; /* one file, many sections */
    if (!grow_list(mapped->paths, mapped->count))
        return false;
    mapped->paths[mapped->count] = strdup(path);
    return mapped->paths[mapped->count++] != NULL;
}

static bool list_process(struct mapped *mapped, int proc, const char *pid) {
    char name[300], *line = NULL;
    size_t size = 0;
    bool enough_memory = true;
    snprintf(name, sizeof name, "%s/maps", pid);
    int file = openat(proc, name, O_RDONLY | O_CLOEXEC);
    FILE *stream = file < 0 ? NULL : fdopen(file, "r");
    if (!stream) {
        if (file >= 0)
            close(file);
        return true; /* somebody else's, or ended */
    }
    while (enough_memory && getline(&line, &size, stream) > 0) {
        char *path = strchr(line, '/');
        if (!path || !strstr(path, "/" FORMAT_FILE_PREFIX))
            continue;
        path[strcspn(path, "\n")] = '\0';
        enough_memory = add_mapping(mapped, path);
    }
    free(line);
    fclose(stream);
    return enough_memory;
}

bool mapped_list(struct mapped *mapped) {
    *mapped = (struct mapped){0};
    DIR *proc = opendir("/proc");
    bool enough_memory = true;
    for (struct dirent *entry; proc && enough_memory && (entry = readdir(proc));)
        if (isdigit((unsigned char)entry->d_name[0]))
            enough_memory = list_process(mapped, dirfd(proc), entry->d_name);
    if (proc)
        closedir(proc);
    return enough_memory;
}

bool mapped_holds(const struct mapped *mapped, const char *path) {
    for (size_t i = 0; i < mapped->count; i++)
        if (strcmp(mapped->paths[i], path) == 0)
            return true;
    return false;
}

void mapped_free(struct mapped *mapped) {
    for (size_t i = 0; i < mapped->count; i++)
        free(mapped->paths[i]);
    free(mapped->paths);
    *mapped = (struct mapped){0};
}
