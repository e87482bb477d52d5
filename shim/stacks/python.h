/* SPDX-License-Identifier: Apache-2.0
 *
 * The calling thread's Python frames, read without the GIL and without calling into the interpreter's machinery.
 * Lives here: walking the thread's own chain, naming it by a key, defining code objects at first sight.
 * Must not live here: where CPython keeps things (python_layout.h), how they are decoded (python_code.h).
 *
 * Only a thread itself changes its chain of frames, and a frame holds its code object: both stand still while the
 * thread is in a call into C. Nothing is ever asked of the interpreter that could wait or allocate.
 */
#ifndef COMMTAP_PYTHON_H
#define COMMTAP_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/stacks/python_layout.h"
#include "shim/stacks/sources.h"

/* A frame that runs Python code. */
struct python_frame {
    uintptr_t code;        /* the code object */
    uintptr_t instruction; /* as the frame holds it, see python_line() */
    bool entry;            /* the first frame of its interpreter loop: a native frame of the interpreter ends with it */
};

extern const struct stack_source python_source;

/* The interpreter whose frames are read, NULL while there is none. */
const struct python_runtime *python_runtime(void);

/* The calling thread's frames, innermost first; at most `room`. Returns how many there are up to room + 1, so that more
 * than `room` says that the list is cut. 0 for threads without Python, and in an interpreter that is ending. */
size_t python_frames(struct python_frame *frames, size_t room);

#endif
