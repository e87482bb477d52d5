/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/regular_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The look before opening spares devices, some of which act on being opened. The look afterwards is the one that
 * counts: the name may have been given to something else in between. */
int regular_file_open(int directory, const char *path, int flags) {
    struct stat status;
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
    return error == ERROR_NOT_REGULAR ? "is no regular file" : strerror(error);
}
