/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fleet/below.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int below_open(int named, const char *path) {
    int at = openat(named, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (at >= 0 && *path) {
        size_t length = strcspn(path, "/");
        char *name = strndup(path, length);
        int next = name ? openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        int error = errno;
        free(name);
        close(at);
        errno = error;
        at = next;
        path += length + (path[length] == '/');
    }
    return at;
}
