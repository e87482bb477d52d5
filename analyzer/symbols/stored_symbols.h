/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of places in the code that were looked up when the job ended, kept in a file beside the dumps (doc/FORMAT.md).
 * Lives here: writing that file, reading it, finding a place in it.
 * Must not live here: whose names are believed (symbols.c).
 *
 * The file is as hostile as a dump: it is read as a whole up to a limit, and what makes no sense in it ends it.
 */
#ifndef COMMTAP_SYMBOLS_STORED_SYMBOLS_H
#define COMMTAP_SYMBOLS_STORED_SYMBOLS_H

#include <stdio.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/symbols/debug_files.h"
#include "analyzer/symbols/symbol.h"

/* ---- writing ------------------------------------------------------------------------------------------------------
 */

void stored_symbols_write_head(FILE *stream);
/* Begins a module; its places follow. */
void stored_symbols_write_module(FILE *stream, const struct ran *ran);
/* One place with the functions there, innermost first. */
void stored_symbols_write_place(FILE *stream, uint64_t offset, const struct symbol *innermost);

/* ---- reading ------------------------------------------------------------------------------------------------------
 */

struct stored_module {
    struct ran ran; /* points into the text */
    uint8_t build_id[ELF_BUILD_ID_MAX];
};

struct stored_symbols {
    char *text;
    struct stored_module *modules;
    size_t module_count;
    struct hash_table places;
    size_t damaged_at;  /* byte at which the file makes no sense any more */
    const char *damage; /* why; NULL: it is sound */
};

/* Reads the file at `path`. Where there is none nothing is stored. Returns false when memory is short. The caller frees
 * with stored_symbols_free in every case. */
bool stored_symbols_read(struct stored_symbols *stored, const char *path);
void stored_symbols_free(struct stored_symbols *stored);

/* Number of the module that is what ran: the same build-id; without one the same path and extent. module_count: none.
 */
size_t stored_symbols_module(const struct stored_symbols *stored, const struct ran *ran);

struct stored_function {
    const char *name, *file; /* "" = unknown */
    uint32_t line;           /* 0 = unknown */
};

enum { STORED_FUNCTIONS_MOST = 17 }; /* of one place: what was inlined, and what it was inlined into */

/* The functions at a place, innermost first. Returns how many, 0: it is not stored. */
size_t stored_symbols_find(const struct stored_symbols *stored, size_t module, uint64_t offset,
                           struct stored_function functions[STORED_FUNCTIONS_MOST]);

#endif
