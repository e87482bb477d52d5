/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"

static bool is_known(const char *path, new_file_is_ours is_ours) {
    char first[NEW_FILE_LOOK];
    int fd = regular_file_open(AT_FDCWD, path, 0);
    ssize_t count = fd >= 0 ? read(fd, first, sizeof first) : -1;
    if (fd >= 0)
        close(fd);
    return count == 0 || (count > 0 && is_ours(first, (size_t)count));
}

static mode_t mode_by_umask(void) {
    mode_t hidden = umask(0);
    umask(hidden);
    return 0666 & ~hidden;
}

/* False: nothing can be made there. */
static bool make_beside(struct new_file *file, mode_t mode) {
    if (asprintf(&file->beside, "%s.XXXXXX", file->path) < 0) {
        file->beside = NULL;
        return false;
    }
    int fd = mkostemp(file->beside, O_CLOEXEC);
    if (fd < 0) {
        free(file->beside);
        file->beside = NULL;
        return false;
    }
    if (fchmod(fd, mode) != 0) /* it is readable for its owner alone */
        errno = 0;
    close(fd);
    return true;
}

static const char *begin(struct new_file *file, new_file_is_ours is_ours, bool force) {
    struct stat there;
    bool exists = stat(file->path, &there) == 0;
    if (!exists && lstat(file->path, &there) == 0) /* the new file would take the place of the link */
        return "is a link to a file that is not there";
    if (exists && !S_ISREG(there.st_mode))
        return NULL;
    if (exists && !force && is_ours && !is_known(file->path, is_ours))
        return "is there already and was not written by this command: --force overwrites it";
    if (exists && access(file->path, W_OK) != 0)
        return strerror(errno);
    if (make_beside(file, exists ? there.st_mode & 07777 : mode_by_umask()) || exists)
        return NULL;
    return strerror(errno);
}

const char *new_file_begin(struct new_file *file, const char *path, new_file_is_ours is_ours, bool force) {
    char *followed = realpath(path, NULL);
    *file = (struct new_file){.path = followed ? followed : strdup(path)};
    const char *reason = file->path ? begin(file, is_ours, force) : strerror(ENOMEM);
    if (reason)
        new_file_end(file);
    return reason;
}

const char *new_file_place(struct new_file *file) {
    if (file->beside && rename(file->beside, file->path) != 0)
        return strerror(errno);
    free(file->beside);
    file->beside = NULL;
    return NULL;
}

void new_file_end(struct new_file *file) {
    if (file->beside)
        unlink(file->beside);
    free(file->beside);
    free(file->path);
    *file = (struct new_file){0};
}
