/* SPDX-License-Identifier: Apache-2.0
 *
 * The call stacks of a rank's events as definitions of its dump.
 * Lives here: which stacks, frames and texts a rank needs, and their definitions.
 * Must not live here: the rest of a dump.
 */
#ifndef COMMTAP_IMPORT_WRITE_STACKS_H
#define COMMTAP_IMPORT_WRITE_STACKS_H

#include "analyzer/import/trace.h"

/* What has been written for the rank at hand: a number of the writing per stack and frame. All zero to begin with. */
struct written_stacks {
    uint32_t *stacks, *frames;
    uint32_t writing;
};

/* Returns false when memory is short; the caller frees with written_stacks_free in every case. */
bool written_stacks_init(struct written_stacks *written, const struct trace *trace);
void written_stacks_free(struct written_stacks *written);

/* Writes the definitions of all stacks that these events name to `at`, NULL to know their size alone. Returns how many
 * bytes they take, a multiple of 16. */
size_t write_stacks(uint8_t *at, const struct trace *trace, const struct trace_event *events, size_t count,
                    struct written_stacks *written);

#endif
