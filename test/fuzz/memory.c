/* SPDX-License-Identifier: Apache-2.0 */
#include "test/fuzz/memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sanitizer/asan_interface.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/load/dump.h"

#define NAME_FORMAT "%s/commtap.t.%016zx.ct"

static char root[64];
static char directories[MEMORY_DIRECTORIES][80];
static struct memory_dump held[MEMORY_DIRECTORIES][MEMORY_DUMPS_MAX];
static size_t listed[MEMORY_DIRECTORIES];

struct dump *__real_dump_open(const char *path);
struct dump *__wrap_dump_open(const char *path);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left);
long __real_sysconf(int name);
long __wrap_sysconf(int name);

static void fail(const char *what) {
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

void memory_remove(const char *path) {
    char name[512];
    DIR *stream = opendir(path);
    if (!stream)
        return;
    for (struct dirent *entry; (entry = readdir(stream));) {
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlink(name) != 0)
            memory_remove(name);
    }
    closedir(stream);
    rmdir(path);
}

static void remove_root(void) {
    memory_remove(root);
}

const char *memory_root(void) {
    if (root[0])
        return root;
    const char *place = getenv("TMPDIR");
    snprintf(root, sizeof root, "%.32s/commtap-fuzz-XXXXXX", place ? place : "/dev/shm");
    if (!mkdtemp(root))
        fail("no place for files");
    atexit(remove_root);
    return root;
}

static void write_file(const char *path, const void *data, size_t bytes) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, data, bytes) != (ssize_t)bytes || close(file) != 0)
        fail("cannot write a file");
}

const char *memory_file(const char *name, const void *data, size_t bytes) {
    static char paths[8][512];
    static size_t next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%.200s", memory_root(), name);
    write_file(path, data, bytes);
    return path;
}

/* ---- directories of dumps ---------------------------------------------------------------------------------------- */

/* The files that stand for the dumps are empty: what they hold comes from dump_open below. */
static void list(size_t number, size_t count) {
    char path[128];
    if (!directories[number][0]) {
        snprintf(directories[number], sizeof directories[number], "%s/%zu.XXXXXX", memory_root(), number);
        if (!mkdtemp(directories[number]))
            fail("cannot make a directory");
    }
    for (; listed[number] < count; listed[number]++) {
        snprintf(path, sizeof path, NAME_FORMAT, directories[number], listed[number]);
        write_file(path, "", 0);
    }
    for (; listed[number] > count; listed[number]--) {
        snprintf(path, sizeof path, NAME_FORMAT, directories[number], listed[number] - 1);
        unlink(path);
    }
}

const char *memory_directory(size_t number, const struct memory_dump *dumps, size_t count) {
    list(number, count);
    for (size_t i = 0; i < count; i++) {
        held[number][i] = dumps[i];
        if (dumps[i].allocated > dumps[i].bytes)
            ASAN_POISON_MEMORY_REGION((char *)dumps[i].data + dumps[i].bytes, dumps[i].allocated - dumps[i].bytes);
    }
    return directories[number];
}

void memory_release(void) {
    for (size_t number = 0; number < MEMORY_DIRECTORIES; number++)
        for (size_t i = 0; i < MEMORY_DUMPS_MAX; i++) {
            struct memory_dump *dump = &held[number][i];
            if (dump->data)
                ASAN_UNPOISON_MEMORY_REGION(dump->data, dump->allocated);
            *dump = (struct memory_dump){0};
        }
}

/* ---- in place of the real functions ------------------------------------------------------------------------------ */

struct dump *__wrap_dump_open(const char *path) {
    size_t index;
    for (size_t number = 0; number < MEMORY_DIRECTORIES; number++) {
        size_t length = strlen(directories[number]);
        if (length > 0 && strncmp(path, directories[number], length) == 0 &&
            sscanf(path + length, "/commtap.t.%zx.ct", &index) == 1 && index < MEMORY_DUMPS_MAX &&
            held[number][index].data)
            return dump_open_buffer(path, held[number][index].data, held[number][index].bytes);
    }
    return __real_dump_open(path);
}

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left) {
    (void)wanted;
    (void)left;
    return 0;
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
    (void)clock;
    (void)flags;
    (void)wanted;
    (void)left;
    return 0;
}

long __wrap_sysconf(int name) {
    return name == _SC_NPROCESSORS_ONLN ? 1 : __real_sysconf(name);
}
