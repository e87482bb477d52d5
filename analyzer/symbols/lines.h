/* SPDX-License-Identifier: Apache-2.0
 *
 * Source lines of addresses, from a file's DWARF by libdw.
 * Lives here: one batch of addresses of one file.
 * Must not live here: which file holds the debug data, names of functions.
 *
 * libdw is told what a file claims, and files are not to be trusted: it works in a child process with a limit on its
 * time. A file that brings it down costs the lines of that file, nothing more.
 */
#ifndef COMMTAP_SYMBOLS_LINES_H
#define COMMTAP_SYMBOLS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source_line {
    char *file;    /* as the compiler was told, made absolute where it says how; NULL = unknown; the caller frees */
    uint32_t line; /* from 1; 0 = unknown */
};

enum lines_result {
    LINES_DONE = 0,  /* what is known was filled in */
    LINES_DAMAGED,   /* the child did not survive the file; what it found before is filled in */
    LINES_NO_MEMORY, /* or no process to be had */
};

/* Fills `lines` (zeroed by the caller) for `count` addresses as in the file's symbol table, ascending. */
enum lines_result lines_find(const char *path, const uint64_t *addresses, size_t count, struct source_line *lines);

#endif
