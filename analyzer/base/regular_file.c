/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/regular_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/planted_path.h"
#include "shim/base/planted_link.h"

/* The directory is looked at where the name itself is a link: what it leads to is then somebody's choice. */
static bool is_planted(int directory, const char *path, int flags) {
    struct stat itself, above;
    if (flags & O_NOFOLLOW || fstatat(directory, path, &itself, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISLNK(itself.st_mode))
        return false;
    const char *slash = strrchr(path, '/');
    char *parent = slash == path ? strdup("/") : slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
    bool planted = !parent || fstatat(directory, parent, &above, 0) != 0 || is_planted_link(&itself, &above);
    free(parent);
    return planted;
}

/* The look before opening spares devices, some of which act on being opened. The look afterwards is the one that
 * counts: the name may have been given to something else in between. */
int regular_file_open(int directory, const char *path, int flags) {
    struct stat status;
    if (is_planted(directory, path, flags)) {
        errno = ERROR_PLANTED;
        return -1;
    }
    if (fstatat(directory, path, &status, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) != 0)
        return -1;
    if (!S_ISREG(status.st_mode)) {
        errno = S_ISLNK(status.st_mode) ? ELOOP : ERROR_NOT_REGULAR;
        return -1;
    }
    int file = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    if (file < 0)
        return -1;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode))
        return file;
    close(file);
    errno = ERROR_NOT_REGULAR;
    return -1;
}

const char *regular_file_error(int error) {
    return error == ERROR_NOT_REGULAR ? "is no regular file"
           : error == ERROR_PLANTED   ? "is behind a link that another user has put there"
                                      : strerror(error);
}
