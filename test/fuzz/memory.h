/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes a run of a command cheap and repeatable: directories whose dumps lie in memory, a wait that takes no time,
 * one processor.
 * Lives here: the directories, and what the linker puts in place of dump_open, nanosleep and sysconf (--wrap, fuzz.mk).
 * Must not live here: what dumps hold, which command runs.
 */
#ifndef COMMTAP_TEST_FUZZ_MEMORY_H
#define COMMTAP_TEST_FUZZ_MEMORY_H

#include <stddef.h>

enum { MEMORY_DIRECTORIES = 2, MEMORY_DUMPS_MAX = 12 };

struct memory_dump {
    void *data; /* aligned to 64 bytes, outlives the command */
    size_t bytes;
    size_t allocated; /* behind `bytes` nothing may be read */
};

/* Path of directory `number`, which from now on lists `count` dumps: dump i is commtap.t.<i as 16 hex digits>.ct. */
const char *memory_directory(size_t number, const struct memory_dump *dumps, size_t count);
/* The same with real files: what opens and maps them is part of the run. */
const char *memory_directory_of_files(size_t number, const struct memory_dump *dumps, size_t count);
/* Lets the dumps of all directories be written and freed again. */
void memory_release(void);

/* A real directory of this process on a file system in memory, removed with all that is in it at exit. */
const char *memory_root(void);
/* Writes a file there. Returns its path, valid until the process ends or the file is written anew. */
const char *memory_file(const char *name, const void *data, size_t bytes);
/* Removes the files of a directory below the root, and the directory. */
void memory_remove(const char *path);

#endif
