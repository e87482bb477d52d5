/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/planted_path.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shim/base/planted_link.h"

bool planted_path_cut(char *path) {
    struct stat above, itself;
    bool planted = false, known = stat(path[0] == '/' ? "/" : ".", &above) == 0;
    for (char *end = path; !planted && known && *end;) {
        char *next = end + strspn(end, "/");
        next += strcspn(next, "/");
        char after = *next;
        *next = '\0';
        planted = lstat(path, &itself) == 0 && is_planted_link(&itself, &above);
        known = stat(path, &above) == 0;
        if (!planted)
            *next = after;
        end = next;
    }
    return planted;
}

bool planted_path(const char *path) {
    char *copy = strdup(path);
    bool planted = copy && planted_path_cut(copy);
    free(copy);
    return planted;
}

int planted_path_open(const char *path) {
    if (planted_path(path)) {
        errno = ERROR_PLANTED;
        return -1;
    }
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}
