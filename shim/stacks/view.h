/* SPDX-License-Identifier: Apache-2.0
 *
 * Which memory a walk may read: the thread's own stack as far as it is known to be mapped, and what is asked for page
 * by page on any other (coroutines, alternate signal stacks).
 * Lives here: asking. Must not live here: what is read.
 */
#ifndef COMMTAP_VIEW_H
#define COMMTAP_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/base/os.h"

struct stack_view {
    uintptr_t low, high; /* of the thread's own stack, readable for its life; both 0: not known yet */
    uintptr_t page;      /* the last page asked for in this walk, plus 1; 0 = none */
    uint32_t failures;   /* searches for the own stack that found nothing */
};

/* Before a walk that begins at `sp`: finds the thread's own stack if that is where `sp` is, forgets single pages. */
void view_begin(struct stack_view *view, uintptr_t sp);

/* For functions that read other functions' frames: what a sanitizer takes for an accident. */
#define READS_ANY_FRAME __attribute__((no_sanitize("address")))

/* Slow half of view_read. */
bool view_ask(struct stack_view *view, uintptr_t address);

/* May the byte at `address` be read? One system call. */
bool view_is_readable(uintptr_t address);

/* Is everything from `low` to `high` readable, and not more than any frame would have? */
bool view_reaches(uintptr_t low, uintptr_t high);

/* The word at `address`; false when it is not aligned or not readable. errno is the
 * caller's to keep. */
READS_ANY_FRAME static inline bool view_read(struct stack_view *view, uintptr_t address, uintptr_t *value) {
    if (unlikely(address & 7) || (unlikely(address < view->low || address >= view->high) && !view_ask(view, address)))
        return false;
    *value = *(const uintptr_t *)address;
    return true;
}

#endif
