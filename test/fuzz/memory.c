/* SPDX-License-Identifier: Apache-2.0 */
#include "test/fuzz/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sanitizer/asan_interface.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/load/dump.h"

enum { PIECE = 4096 };

#define ROOT_NAME   "commtap-fuzz-"
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

/* A finding ends the process before it can tidy up: what is left of processes that are gone. */
static void remove_left_over(const char *place) {
    char path[512];
    DIR *stream = opendir(place);
    for (struct dirent *entry; stream && (entry = readdir(stream));) {
        if (strncmp(entry->d_name, ROOT_NAME, strlen(ROOT_NAME)) != 0)
            continue;
        long pid = strtol(entry->d_name + strlen(ROOT_NAME), NULL, 10);
        snprintf(path, sizeof path, "%s/%.200s", place, entry->d_name);
        if (pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH)
            memory_remove(path);
    }
    if (stream)
        closedir(stream);
}

static void remove_root(void) {
    memory_remove(root);
}

const char *memory_root(void) {
    if (root[0])
        return root;
    const char *place = getenv("TMPDIR");
    place = place ? place : "/dev/shm";
    remove_left_over(place);
    snprintf(root, sizeof root, "%.32s/" ROOT_NAME "%d", place, (int)getpid());
    if (mkdir(root, 0700) != 0)
        fail("no place for files");
    atexit(remove_root);
    return root;
}

/* Leaves holes where there are zeros: most of a dump. */
static void write_file(const char *path, const void *data, size_t bytes) {
    static const char zeros[PIECE];
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
        fail("cannot make a file");
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t part = bytes - at < PIECE ? bytes - at : PIECE;
        const char *from = (const char *)data + at;
        if (memcmp(from, zeros, part) != 0 && pwrite(file, from, part, (off_t)at) != (ssize_t)part)
            fail("cannot write a file");
    }
    close(file);
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

const char *memory_directory_of_files(size_t number, const struct memory_dump *dumps, size_t count) {
    char path[128];
    list(number, 0);
    list(number, count);
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, NAME_FORMAT, directories[number], i);
        write_file(path, dumps[i].data, dumps[i].bytes);
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
