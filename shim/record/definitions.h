/* SPDX-License-Identifier: Apache-2.0
 *
 * Append-only definitions: communicators, their names, epochs, later stacks and modules.
 * Lives here: space for a definition and its commit. Must not live here: what is defined.
 */
#ifndef COMMTAP_SHIM_RECORD_DEFINITIONS_H
#define COMMTAP_SHIM_RECORD_DEFINITIONS_H

#include <stddef.h>
#include <stdint.h>

#include "shim/format.h"
#include "shim/record/dump_file.h"

#define DEFINITION_AREAS 16u

struct definitions {
    struct dumpfile *file;
    struct losses *losses;
    char *areas[DEFINITION_AREAS];
    uint64_t sizes[DEFINITION_AREAS];
    uint64_t used[DEFINITION_AREAS]; /* atomic */
    uint32_t area_count;             /* areas that exist; grown by whoever needs the next one */
    uint32_t last_string;            /* atomic */
};

void definitions_begin(struct definitions *d, struct dumpfile *file, struct losses *losses);

/* Room for a definition of `bytes` in all, with `bytes` already stored; NULL when there is none (counted). The caller
 * fills it and commits. */
void *definitions_reserve(struct definitions *d, size_t bytes);
void definitions_commit(void *definition, enum definition_kind kind);

/* Defines a string and returns its id; 0 when there is no room. Every call makes a new one. */
uint32_t definitions_string(struct definitions *d, const char *text, size_t length);

#endif
