/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of the job as the recorder knows them: made at their first call, retired when they end.
 * Lives here: what a thread gets and gives back. Must not live here: what a thread does in a call, opening the dump
 * (activate.h).
 */
#ifndef COMMTAP_SHIM_INTERCEPT_THREADS_H
#define COMMTAP_SHIM_INTERCEPT_THREADS_H

#include "shim/record/recorder.h"

/* At activation: threads are noticed when they end. */
void threads_begin(void);

/* Gives the calling thread a lane and a slot. NULL when there is no memory. */
struct thread *thread_attach(void);

/* Whether a call with the stack pointer `sp`, deeper than that of the thread's outermost call, is made within that one:
 * false where an exception or longjmp has left the outermost call without our seeing it, and its frame is gone. One
 * system call. */
bool thread_is_within_call(const struct thread *self, uintptr_t sp);

/* The same at the entry of a call that is recorded unless it is made within another one. */
bool thread_stays_within_call(struct thread *self, uintptr_t sp);

/* The calling thread's state, or NULL when this process does not record. */
static inline struct thread *current_thread(void) {
    struct thread *self = this_thread;
    uint32_t armed = *recorder_armed;
    if (likely(self && self->generation == armed))
        return self;
    return armed ? thread_attach() : NULL;
}

#endif
