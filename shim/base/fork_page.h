/* SPDX-License-Identifier: Apache-2.0
 *
 * What a forked child must find as in a fresh process: the word that says whether this process records, and locks that
 * another thread may have held at the fork. The kernel wipes their page in the child.
 * Must not live here: what is locked, and state that can be told by its generation.
 */
#ifndef COMMTAP_SHIM_BASE_FORK_PAGE_H
#define COMMTAP_SHIM_BASE_FORK_PAGE_H

#include <stdbool.h>
#include <stdint.h>

/* What each user waits for at most is its own affair; nobody waits without an end. */
enum fork_lock {
    FORK_LOCK_ACTIVATION,
    FORK_LOCK_GPU,
    FORK_LOCK_NCCL,
    FORK_LOCK_PLUGIN,
    FORK_LOCK_PYTHON,
    FORK_LOCK_NVTX,
    FORK_LOCK_ORDERS,
    FORK_LOCKS
};

struct fork_page {
    volatile uint32_t armed; /* see recorder_armed */
    uint32_t locks[FORK_LOCKS];
};

/* The page, made at the first call; NULL where the kernel cannot (before 4.14) or has no memory. */
struct fork_page *fork_page(void);

/* False: another thread has it, or there is no page. */
bool fork_lock_try(enum fork_lock lock);
void fork_lock_release(enum fork_lock lock);

#endif
