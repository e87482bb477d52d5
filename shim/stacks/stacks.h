/* SPDX-License-Identifier: Apache-2.0
 *
 * Who called: the stack of every recorded call as a small number.
 * Lives here: remembering, interning and defining stacks. Must not live here: how a stack is walked (walk.h), where an
 * interpreter's frames come from (sources.h), symbols (the analyzer's).
 */
#ifndef COMMTAP_STACKS_H
#define COMMTAP_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/base/os.h"
#include "shim/format.h"
#include "shim/record/recorder.h"
#include "shim/stacks/sources.h"

/* COMMTAP_STACK. */
enum stack_mode { STACK_OFF, STACK_SITE, STACK_NATIVE, STACK_PYTHON, STACK_FULL };

extern enum stack_mode stacks_mode;
extern bool stacks_taken; /* from now on: neither off nor shed */

#define STACK_DEPTH_MAX KNOBS_STACK_DEPTH_MAX

/* At activation. `mode` is COMMTAP_STACK's value; `depth`, COMMTAP_STACK_DEPTH, the native frames kept at most (1 to
 * STACK_DEPTH_MAX). Returns NULL, or a line for the user when that is not what happens from now on. */
const char *stacks_begin(const char *mode, uint64_t depth);

/* From now on, while threads take stacks: `mode` as above; what is none of them changes nothing. False: there is no
 * memory for stacks, which stay off. Sources that are to be asked now are added next. One thread at a time. */
bool stacks_change(const char *mode);

/* Whether stacks are to hold what the source at `place` knows. */
bool stacks_wants_source(unsigned place);

/* Makes `source` the one asked for Python's frames (`place` 0) or labels (1), if its `begin` agrees; once in the life
 * of an activation. */
void stacks_add_source(unsigned place, const struct stack_source *source);

/* What the thread needs for its stacks; without memory it has none. */
void stacks_attach(struct thread *self);

/* Calls have no stack for COMMTAP_BUDGET's sake, or have one again. */
void stacks_shed(bool shed);

/* A call that has none for that reason, where stacks are not off altogether. */
void stack_leave_out(struct thread *self);

/* The rest of stack_here. `pc`: return address of the wrapper; `sp`, `fp`: what its caller has in these registers. */
uint32_t stack_take(struct thread *self, uintptr_t pc, uintptr_t sp, uintptr_t fp);

/* Id of the stack that the wrapper was called with; STACK_NONE when stacks are off or there is no room for another one.
 * `frame` is the wrapper's __builtin_frame_address(0), `sp` its canonical frame address (__builtin_dwarf_cfa()). To be
 * called before the clock is read: it is no part of a call's time. Keeps errno, faults on no stack, takes no lock
 * except the dynamic linker's when code is seen for the first time. */
static inline uint32_t stack_here(struct thread *self, const uintptr_t *frame, uintptr_t sp) {
    if (likely(__atomic_load_n(&stacks_taken, __ATOMIC_RELAXED)))
        return stack_take(self, frame[1], sp, frame[0]);
    if (unlikely(__atomic_load_n(&stacks_mode, __ATOMIC_RELAXED) != STACK_OFF))
        stack_leave_out(self);
    return STACK_NONE;
}

#endif
