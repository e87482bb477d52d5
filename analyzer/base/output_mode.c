/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/output_mode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

mode_t output_file_mode(const char *text) {
    return text && strtol(text, NULL, 8) == 0640 ? 0640 : 0600;
}

void output_give_mode(int file, mode_t mode) {
    if (mode != 0600)
        fchmod(file, mode);
}

/* What a directory with the set-group-id bit hands on to those made in it stays. */
static int make_directory(const char *path, mode_t mode) {
    struct stat status;
    if (mkdir(path, 0700) != 0)
        return errno;
    if (mode != 0600 && lstat(path, &status) == 0)
        chmod(path, 0750 | (status.st_mode & S_ISGID));
    return 0;
}

int output_make_directories(char *path, mode_t mode) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int error = make_directory(path, mode);
        *slash = '/';
        if (error && error != EEXIST)
            return error;
    }
    return make_directory(path, mode);
}
