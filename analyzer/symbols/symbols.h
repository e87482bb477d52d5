/* SPDX-License-Identifier: Apache-2.0
 *
 * symbols/: addresses -> functions, files, lines; offline, for all dumps of a job at once.
 * Lives here: the stage's contract. An address is looked up as (module, offset), a module is known by its build-id (its
 * path where it has none): ranks agree wherever their libraries were loaded, and what they share is looked up once.
 * Must not live here: which frames of a stack matter (frames.h), printing.
 */
#ifndef COMMTAP_SYMBOLS_SYMBOLS_H
#define COMMTAP_SYMBOLS_SYMBOLS_H

#include <stdio.h>

#include "analyzer/load/dump.h"
#include "analyzer/symbols/symbol.h"

struct symbols;

#define SYMBOLS_DEBUG_DIRECTORY "/usr/lib/debug"

/* Starts with the dumps of a job, which must outlive it, and the names that are stored beside them. `debug_directory`
 * is where separate debug files are, NULL = SYMBOLS_DEBUG_DIRECTORY. NULL when memory is short; the caller frees with
 * symbols_free. */
struct symbols *symbols_new(struct dump *const *dumps, size_t count, const char *debug_directory);
void symbols_free(struct symbols *symbols);

const struct dump *symbols_dump(const struct symbols *symbols, size_t dump);

/* Asks for the native frames of a stack of dump number `dump`; an unknown stack asks for nothing. Returns false when
 * memory is short. */
bool symbols_want(struct symbols *symbols, size_t dump, uint32_t stack);
/* The same for every stack of every dump. */
bool symbols_want_all(struct symbols *symbols);
/* Looks up what was asked for and not looked up before: reads the files. Returns false when memory is short. */
bool symbols_resolve(struct symbols *symbols);

/* What a return address of a stack stands for: where calls were inlined there, the innermost, which leads to the
 * others. Never NULL: what was not asked for, or is in no module, is
 * "[unknown]". */
const struct symbol *symbols_find(const struct symbols *symbols, size_t dump, const struct dump_stack *stack,
                                  uint64_t return_address);

/* Writes what was looked up and found, so that it can be told when the files are not what ran any more. Returns whether
 * that was anything. */
bool symbols_store(const struct symbols *symbols, FILE *stream);

/* What could not be looked up properly, one sentence per module: files that were replaced or are gone, debug data that
 * cannot be read. `*count` of them, in an order that does not depend on the dumps'. */
const char *const *symbols_notes(const struct symbols *symbols, size_t *count);

#endif
