/* SPDX-License-Identifier: Apache-2.0
 *
 * Where libcommtap.so is, and what LD_PRELOAD becomes.
 * Lives here: the search order of build trees and installations.
 * Must not live here: any other variable, starting the command.
 */
#include "analyzer/run/run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libcommtap.so"

/* Relative to the program's directory; lib64: where distributions put it that keep libraries of two kinds of machines.
 */
static const char *const places[] = {"", "../lib/commtap/", "../lib/", "../lib64/commtap/", "../lib64/"};

char *run_library_path(char *tried, size_t tried_bytes) {
    const char *given = getenv("COMMTAP_LIBRARY");
    if (given && *given) {
        snprintf(tried, tried_bytes, "COMMTAP_LIBRARY=%s", given);
        return access(given, R_OK) ? NULL : realpath(given, NULL);
    }
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0) {
        snprintf(tried, tried_bytes, "/proc/self/exe is not readable");
        return NULL;
    }
    program[length] = 0;
    char *slash = strrchr(program, '/');
    slash[1] = 0;
    snprintf(tried, tried_bytes, "in %s and in ../lib, ../lib64 and commtap/ in these", program);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char path[PATH_MAX + 32];
        snprintf(path, sizeof path, "%s%s" LIBRARY, program, places[i]);
        if (!access(path, R_OK))
            return realpath(path, NULL);
    }
    return NULL;
}

char *run_preload_value(const char *library, const char *before) {
    size_t length = strlen(library);
    if (!before || !*before)
        return strdup(library);
    if (!strncmp(before, library, length) && (!before[length] || strchr(": ", before[length])))
        return strdup(before);
    char *value;
    return asprintf(&value, "%s:%s", library, before) < 0 ? NULL : value;
}
