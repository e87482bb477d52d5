/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory in use on every GPU, interval by interval: the block "memory".
 * Lives here: the most of each interval. Must not live here: where samples come from.
 */
#ifndef COMMTAP_PAGE_MEMORY_H
#define COMMTAP_PAGE_MEMORY_H

#include <jansson.h>

#include "analyzer/base/hash_table.h"

enum { MEMORY_CELLS_MOST = 300000 }; /* GPUs x intervals that a page holds, about 8 bytes each */

struct memory {
    struct hash_table devices; /* private */
    size_t intervals;          /* of equal length, from 0 on; these two: set before the first sample */
    int64_t span_ns;           /* of all of them, more than 0 */
    uint64_t left_out;         /* samples of GPUs beyond MEMORY_CELLS_MOST */
    bool no_memory;
};

/* Freed with memory_free in every case. */
void memory_free(struct memory *memory);

/* Whose memory a sample is of. */
struct memory_source {
    size_t dump;
    uint32_t device;
    uint16_t call;    /* of the dump: what says which part of it, 0: all of it */
    const char *name; /* that call's, which outlives the samples; NULL: all of it */
};

/* Takes a sample, at ns since the beginning of the first interval. */
void memory_add(struct memory *memory, const struct memory_source *source, int64_t at, uint64_t bytes);

/* NULL when memory is, or was, short. */
json_t *memory_to_json(const struct memory *memory);

#endif
