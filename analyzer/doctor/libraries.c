/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/doctor/libraries.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/doctor/child.h"

/* ---- what the loader says -------------------------------------------------------------------- */

void libraries_list(struct loaded_libraries *list, const char *loader, const char *file, const char *preload) {
    char *const argv[] = {(char *)loader, (char *)"--list", (char *)file, NULL};
    list->complete = child_run(argv, "LD_PRELOAD", preload, list->text, sizeof list->text);
}

/* The next line into `line`, blanks in front left out; NULL behind the last one. */
static const char *next_line(const char *at, char *line, size_t size) {
    if (!*at)
        return NULL;
    at += strspn(at, " \t");
    size_t length = strcspn(at, "\n");
    snprintf(line, size, "%.*s", (int)length, at);
    return at + length + (at[length] == '\n');
}

/* "libmpi.so.40 => /lib/libmpi.so.40 (0x7f...)", "libmpi.so.40 => not found", "/lib/libcommtap.so (0x7f...)" */
static void part_line(const char *line, char path[PATH_MAX]) {
    const char *arrow = strstr(line, " => "), *from = arrow ? arrow + 4 : line, *end = strstr(from, " (0x");
    snprintf(path, PATH_MAX, "%.*s", (int)(end ? end - from : (ptrdiff_t)strlen(from)), from);
}

static bool starts_so(const char *line, const char *start) {
    size_t length = strcspn(line, " ");
    const char *slash = memrchr(line, '/', length);
    return strncmp(slash ? slash + 1 : line, start, strlen(start)) == 0;
}

bool libraries_find(const struct loaded_libraries *list, const char *start, char path[PATH_MAX]) {
    char line[2 * PATH_MAX];
    for (const char *at = list->text; (at = next_line(at, line, sizeof line)) != NULL;)
        if (starts_so(line, start) && (strstr(line, " (0x") || strstr(line, " => "))) {
            part_line(line, path);
            return true;
        }
    return false;
}

bool libraries_hold(const struct loaded_libraries *list, const char *path) {
    char line[2 * PATH_MAX], found[PATH_MAX];
    for (const char *at = list->text; (at = next_line(at, line, sizeof line)) != NULL;) {
        part_line(line, found);
        if (strcmp(found, path) == 0)
            return true;
    }
    return false;
}

bool libraries_complaint(const struct loaded_libraries *list, const char *about, char *text, size_t size) {
    char line[2 * PATH_MAX];
    for (const char *at = list->text; (at = next_line(at, line, sizeof line)) != NULL;)
        if (strstr(line, about) && !strstr(line, " (0x")) {
            snprintf(text, size, "%s", line);
            return true;
        }
    return false;
}

/* ---- what libraries say of themselves -------------------------------------------------------- */

enum { VERSION_TEXT = 8192 }; /* MPI_MAX_LIBRARY_VERSION_STRING of all MPIs is less */

static void *symbol_of(const char *path, const char *name) {
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    return library ? dlsym(library, name) : NULL;
}

static void say(int fd, const char *text) {
    ssize_t written = write(fd, text, strlen(text));
    if (written < 0)
        _exit(1);
}

static void ask_mpi(const void *path, int fd) {
    static char text[VERSION_TEXT];
    int length = 0;
    int (*get)(char *, int *) = (int (*)(char *, int *))(uintptr_t)symbol_of(path, "MPI_Get_library_version");
    if (!get || get(text, &length) != 0)
        _exit(1);
    text[sizeof text - 1] = '\0';
    text[strcspn(text, "\n")] = '\0';
    say(fd, text);
}

static void ask_nccl(const void *path, int fd) {
    char text[24];
    int version = 0;
    int (*get)(int *) = (int (*)(int *))(uintptr_t)symbol_of(path, "ncclGetVersion");
    if (!get || get(&version) != 0)
        _exit(1);
    snprintf(text, sizeof text, "%d", version);
    say(fd, text);
}

bool library_ask_mpi(struct found_library *found, const char *path) {
    char text[VERSION_TEXT];
    snprintf(found->path, sizeof found->path, "%s", path);
    if (!child_call(ask_mpi, path, text, sizeof text))
        return false;
    library_name_mpi(&found->name, text);
    return found->name.name[0] != '\0';
}

bool library_ask_nccl(struct found_library *found, const char *path) {
    char text[24];
    snprintf(found->path, sizeof found->path, "%s", path);
    bool told = child_call(ask_nccl, path, text, sizeof text);
    int version = told ? atoi(text) : 0;
    library_name_nccl(&found->name, path, version > 0 ? (uint32_t)version : 0);
    return version > 0;
}
