/* SPDX-License-Identifier: Apache-2.0
 *
 * Source lines of addresses and the calls that a compiler inlined there, from a file's DWARF by libdw.
 * Lives here: one batch of addresses of one file.
 * Must not live here: which file holds the debug data, names of functions that were not inlined.
 *
 * libdw is told what a file claims, and files are not to be trusted: it works in a child process with a limit on its
 * time. A file that brings it down costs the lines of that file, nothing more.
 */
#ifndef COMMTAP_SYMBOLS_LINES_H
#define COMMTAP_SYMBOLS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INLINED_MOST = 16 }; /* of a longer chain the outer calls are left out */

/* A function that was inlined, and the line of its caller that called it. */
struct inlined_call {
    char *function; /* mangled where the language does that; never NULL */
    char *file;     /* of the caller; NULL = unknown */
    uint32_t line;  /* 0 = unknown */
};

struct source_line {
    char *file;                 /* as the compiler was told, made absolute where it says how; NULL = unknown */
    uint32_t line;              /* from 1; 0 = unknown */
    struct inlined_call *calls; /* innermost first: the line is one of the first one's function */
    size_t call_count;
};

void source_line_free(struct source_line *line);

enum lines_result {
    LINES_DONE = 0,  /* what is known was filled in */
    LINES_DAMAGED,   /* the child did not survive the file; what it found before is filled in */
    LINES_NO_MEMORY, /* or no process to be had */
};

/* Fills `lines` (zeroed by the caller, who frees each with source_line_free) for `count` addresses as in the file's
 * symbol table, ascending. */
enum lines_result lines_find(const char *path, const uint64_t *addresses, size_t count, struct source_line *lines);

#endif
