/* SPDX-License-Identifier: Apache-2.0
 *
 * The frames of a trace in Chrome's format: "stackFrames" {"7": {"name", "parent": "5"}, ...}, which events name by
 * their "sf".
 * Lives here: reading them, and from a number to a stack.
 * Must not live here: events.
 */
#ifndef COMMTAP_IMPORT_CHROME_FRAMES_H
#define COMMTAP_IMPORT_CHROME_FRAMES_H

#include <jansson.h>

#include "analyzer/import/trace_stacks.h"

#define CHROME_FRAME_NONE UINT32_MAX

struct chrome_frame {
    uint32_t id, parent; /* CHROME_FRAME_NONE: outermost */
    uint32_t frame;      /* of the trace's stacks */
};

/* Of one document. All zero: none. */
struct chrome_frames {
    struct chrome_frame *items;
    size_t count;
};

/* The number that `value`, an integer or a text of digits, stands for; CHROME_FRAME_NONE where it is neither. */
uint32_t chrome_frame_number(const json_t *value);

/* Reads the document's frames. Returns false when memory is short, or a limit is exceeded. */
bool chrome_frames_read(struct chrome_frames *frames, const json_t *object, struct trace_stacks *stacks,
                        struct import_limits *limits);
void chrome_frames_free(struct chrome_frames *frames);

/* The stack whose innermost frame has this number, TRACE_STACK_NONE where there is no such frame. Returns false when
 * memory is short, or a limit is exceeded. */
bool chrome_frames_stack(const struct chrome_frames *frames, uint32_t number, struct trace_stacks *stacks,
                         struct import_limits *limits, uint32_t *stack);

#endif
