/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/base/fork_page.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/base/os.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static struct fork_page *the_page;

struct fork_page *fork_page(void) {
    struct fork_page *page = __atomic_load_n(&the_page, __ATOMIC_ACQUIRE);
    if (likely(page != NULL))
        return page;
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    struct fork_page *fresh = os_memory(bytes);
    if (!fresh)
        return NULL;
    if (madvise(fresh, bytes, MADV_WIPEONFORK) == 0 &&
        __atomic_compare_exchange_n(&the_page, &page, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return fresh;
    os_unmap(fresh, bytes);
    return page; /* another thread's, if any */
}

bool fork_lock_try(enum fork_lock lock) {
    struct fork_page *page = fork_page();
    uint32_t nobody = 0;
    return page &&
           __atomic_compare_exchange_n(&page->locks[lock], &nobody, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void fork_lock_release(enum fork_lock lock) {
    __atomic_store_n(&the_page->locks[lock], 0, __ATOMIC_RELEASE);
}
