/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/output_mode.h"
#include "analyzer/base/regular_file.h"
#include "analyzer/cli/command.h"
#include "analyzer/cli/input.h"
#include "analyzer/render/escape.h"

static int complain(const char *path, const char *what) {
    fputs("commtap: ", stderr);
    escape_text(stderr, path);
    fprintf(stderr, ": %s\n", what);
    return EXIT_OUTPUT;
}

static void forget(struct new_file *file) {
    free(file->path);
    free(file->temporary);
    *file = (struct new_file){0};
}

/* Whether nobody's file would be lost: the one at `path` is empty, or one of commtap's own. */
static bool may_replace(const char *path, bool (*is_ours)(const char *first, size_t count)) {
    char first[NEW_FILE_LOOK];
    int fd = regular_file_open(AT_FDCWD, path, 0);
    ssize_t count = fd >= 0 ? read(fd, first, sizeof first) : -1;
    if (fd >= 0)
        close(fd);
    return count == 0 || (count > 0 && is_ours(first, (size_t)count));
}

static int open_as_it_is(struct new_file *file) {
    file->stream = fopen(file->path, "we");
    return file->stream ? EXIT_FINE : complain(file->path, strerror(errno));
}

static int open_beside(struct new_file *file, mode_t mode) {
    if (asprintf(&file->temporary, "%s.XXXXXX", file->path) < 0) {
        file->temporary = NULL;
        return input_no_memory();
    }
    int fd = mkostemp(file->temporary, O_CLOEXEC);
    if (fd >= 0)
        output_give_mode(fd, mode);
    file->stream = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file->stream)
        return EXIT_FINE;
    int code = complain(file->path, strerror(errno));
    if (fd >= 0) {
        close(fd);
        unlink(file->temporary);
    }
    return code;
}

/* At file->path, which is how `path` was followed. */
static int open_there(struct new_file *file, const char *path, bool (*is_ours)(const char *first, size_t count),
                      bool force) {
    struct stat there;
    bool exists = stat(file->path, &there) == 0;
    if (exists && !S_ISREG(there.st_mode))
        return open_as_it_is(file);
    if (exists && !force && !may_replace(file->path, is_ours)) {
        complain(path, "is there already and was not written by this command: --force overwrites it");
        return EXIT_USAGE;
    }
    return open_beside(file, exists ? there.st_mode & 07777 : output_file_mode(getenv("COMMTAP_MODE")));
}

int new_file_open(struct new_file *file, const char *path, bool (*is_ours)(const char *first, size_t count),
                  bool force) {
    char *followed = realpath(path, NULL);
    *file = (struct new_file){.path = followed ? followed : strdup(path)};
    int code = file->path ? open_there(file, path, is_ours, force) : input_no_memory();
    if (code != EXIT_FINE)
        forget(file);
    return code;
}

int new_file_close(struct new_file *file, int code) {
    bool written = fflush(file->stream) == 0 && !ferror(file->stream);
    int error = errno;
    if (fclose(file->stream) != 0 && written) {
        written = false;
        error = errno;
    }
    if (written && code == EXIT_FINE && file->temporary && rename(file->temporary, file->path) != 0) {
        written = false;
        error = errno;
    }
    if (file->temporary && (!written || code != EXIT_FINE))
        unlink(file->temporary);
    if (!written)
        code = complain(file->path, strerror(error));
    forget(file);
    return code;
}
