/* SPDX-License-Identifier: Apache-2.0
 *
 * Who called: return addresses interned as small numbers, and the modules they lie in.
 * Lives here: interning and defining. Must not live here: how a stack is walked, symbols (the analyzer's).
 */
#ifndef COMMTAP_STACKS_H
#define COMMTAP_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/os.h"

#define STACK_SLOTS 8192u

struct stack_slot {
    uintptr_t address; /* 0 = free */
    uint32_t id;       /* 0 while it is being defined */
};

extern struct stack_slot *stack_slots; /* NULL: stacks are off */

/* `mode` is COMMTAP_STACK's value. False when it is not understood or there is no memory; stacks are off then. */
bool stacks_begin(const char *mode);

/* Slow half of stack_of_site. */
uint32_t stack_define_site(uintptr_t address);

/* Id of the one-frame stack of a call from `caller`, STACK_NONE (0) when stacks are off, or the table is full, or
 * another thread is just defining it. */
static inline uint32_t stack_of_site(const void *caller) {
    uintptr_t address = (uintptr_t)caller;
    if (likely(!stack_slots))
        return 0;
    const struct stack_slot *slot = &stack_slots[(address * 0x9e3779b97f4a7c15u >> 40) % STACK_SLOTS];
    if (likely(slot->address == address))
        return __atomic_load_n(&slot->id, __ATOMIC_ACQUIRE);
    return stack_define_site(address);
}

#endif
