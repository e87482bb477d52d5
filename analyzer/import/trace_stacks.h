/* SPDX-License-Identifier: Apache-2.0
 *
 * Call stacks that traces hold, each kept once.
 * Lives here: frames by their words, stacks as a frame and the stack that it was called from.
 * Must not live here: how a format tells frames, how a dump holds them.
 */
#ifndef COMMTAP_IMPORT_TRACE_STACKS_H
#define COMMTAP_IMPORT_TRACE_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/import/limits.h"

enum {
    TRACE_STACK_NONE = 0,
    TRACE_STACK_DEPTH = 128 /* frames of a stack that are kept in dumps, the innermost ones */
};

enum trace_frame_kind {
    TRACE_FRAME_PYTHON,
    TRACE_FRAME_NATIVE, /* C++, or an operator of the framework */
    TRACE_FRAME_RANGE,  /* a module or an annotation, as NVTX ranges are */
};

struct trace_frame_key {
    uint32_t kind, line; /* line 0: unknown */
    uint32_t name, file; /* numbers of texts; of a range, `file` is its domain */
};

struct trace_frame {
    struct trace_frame_key key;
    uint64_t words; /* fingerprint of what it says */
};

struct trace_stack_key {
    uint32_t frame, caller; /* number of a stack, TRACE_STACK_NONE: this is the outermost frame */
};

struct trace_stack {
    struct trace_stack_key key;
    uint64_t words; /* of all its frames */
};

/* All zero: none. Numbers count from 1. */
struct trace_stacks {
    struct hash_table texts, frames, stacks; /* private */
};

void trace_stacks_free(struct trace_stacks *stacks);

/* Each returns a number, 0 when memory is short or a limit is exceeded. Texts are copied, and cut where they are
 * longer than any name is. */
uint32_t trace_frame(struct trace_stacks *stacks, struct import_limits *limits, enum trace_frame_kind kind,
                     const char *name, const char *file, uint32_t line);
/* The same for "dir/file.py(12): function", as PyTorch writes Python's frames; anything else names a function that is
 * not Python's. */
uint32_t trace_frame_of_words(struct trace_stacks *stacks, struct import_limits *limits, const char *words);
uint32_t trace_stack(struct trace_stacks *stacks, struct import_limits *limits, uint32_t frame, uint32_t caller);

/* The stack of "dir/file.py(12): inner;dir/file.py(3): outer", of which the innermost TRACE_STACK_DEPTH frames are
 * kept; of no words TRACE_STACK_NONE. Returns false when memory is short or a limit is exceeded. */
bool trace_stack_of_words(struct trace_stacks *stacks, struct import_limits *limits, const char *words,
                          uint32_t *stack);
/* Puts the frames of the stack `inner` inside of those of *stack. Returns false when memory is short or a limit is
 * exceeded. */
bool trace_stack_join(struct trace_stacks *stacks, struct import_limits *limits, uint32_t inner, uint32_t *stack);

const struct trace_stack *trace_stack_at(const struct trace_stacks *stacks, uint32_t number);
const struct trace_frame *trace_frame_at(const struct trace_stacks *stacks, uint32_t number);
const char *trace_text_at(const struct trace_stacks *stacks, uint32_t number);
/* A fingerprint of what a stack says, 0 for TRACE_STACK_NONE. */
uint64_t trace_stack_words(const struct trace_stacks *stacks, uint32_t number);

/* True for the name of a file of Python's, and for what stands in the place of one ("<stdin>"). */
bool trace_file_is_python(const char *file);

#endif
