/* SPDX-License-Identifier: Apache-2.0
 *
 * What may follow the native frames of a stack: an interpreter's frames, the ranges open on the thread.
 * Lives here: the two questions such a source answers. Must not live here: how any of them finds its frames.
 *
 * A stack's id stands for (native frames, key of each source). Keys are asked for at every recorded call; only when the
 * combination is new are the entries asked for, at once and in the same thread, and written behind the native ones in
 * the order of the sources: Python (COMMTAP_STACK=python, full), then labels (full).
 */
#ifndef COMMTAP_SOURCES_H
#define COMMTAP_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct thread;

struct stack_source {
    /* At activation, only when the knob wants this source. False: it has nothing to give in this process, ever. */
    bool (*begin)(void);

    /* 0 as long as no thread can have anything: `key` is then asked for only when a native stack is new. */
    const uint32_t *awake;

    /* What the calling thread has now: 0 = nothing, else a number that names exactly these entries for the life of the
     * process (an interned id: two different lists never share one; one list may have two). The hot path: a few loads
     * and compares where nothing changed, no locks, no system calls, no allocation from the job's heap, errno kept. */
    uint64_t (*key)(struct thread *self);

    /* The entries of the `key` just given, innermost first, in the form of struct stack_definition (format.h); at most
     * `room` of them, the number written is returned. More than `room`: the last one is STACK_ENTRY_CUT. What entries
     * refer to (DEFINITION_CODE, DEFINITION_STRING) is defined before this returns. */
    size_t (*entries)(struct thread *self, uint64_t key, uint64_t *entries, size_t room);
};

#define STACK_SOURCE_ROOM 128u /* entries of one source in a stack, at most */

#endif
