/* SPDX-License-Identifier: Apache-2.0
 *
 * Which libraries a program is started with, and what those of MPI and NCCL call themselves.
 * Lives here: asking the dynamic loader (it lists, the program does not run) and the libraries, each in a child
 * process. Must not live here: what follows from it.
 */
#ifndef COMMTAP_DOCTOR_LIBRARIES_H
#define COMMTAP_DOCTOR_LIBRARIES_H

#include <limits.h>
#include <stdbool.h>

#include "analyzer/job/library.h"

/* What the loader says, a line per library. */
struct loaded_libraries {
    char text[65536];
    bool complete; /* it came to its end */
};

/* Of the program or library at `file` with the value `preload` of LD_PRELOAD, where `loader` is its dynamic loader. */
void libraries_list(struct loaded_libraries *list, const char *loader, const char *file, const char *preload);

/* The path of the first library whose file name starts so; "not found" as the loader says it where it is wanted and not
 * there. False: none. */
bool libraries_find(const struct loaded_libraries *list, const char *start, char path[PATH_MAX]);
/* Is the library at `path` among them? */
bool libraries_hold(const struct loaded_libraries *list, const char *path);
/* What the loader could not preload, or could not find: its line, cut at `size`. False: no such complaint. */
bool libraries_complaint(const struct loaded_libraries *list, const char *about, char *text, size_t size);

/* MPI or NCCL of a job, as far as it can be told. */
struct found_library {
    char path[PATH_MAX]; /* "" = not known */
    struct library name;
};

/* Loads the library at `path` in a child process and asks what it is. False where it does not say. */
bool library_ask_mpi(struct found_library *found, const char *path);
bool library_ask_nccl(struct found_library *found, const char *path);

#endif
