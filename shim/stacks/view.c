/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of view.h. A stack counts as the thread's own when it is readable without a gap from the stack
 * pointer to something that lies at the top of every such stack: the thread control block, and for the first thread
 * what the kernel put there. Any other stack may be gone and another one in its place by the next walk.
 */
#include "shim/stacks/view.h"

#include <errno.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE         4096u /* the smallest there is: asking too often does no harm */
#define PAGES_MAX    512u  /* of a thread's own stack asked for at once */
#define FAILURES_MAX 8u    /* searches in vain for the own stack, each up to PAGES_MAX system calls */

/* The kernel copies the signal set before it finds that there is no such operation: EINVAL, and nothing changes. */
bool view_is_readable(uintptr_t address) {
    return syscall(SYS_rt_sigprocmask, ~0, address, NULL, 8) == -1 && errno != EFAULT;
}

static bool all_readable(uintptr_t low, uintptr_t high) {
    for (uintptr_t page = low; page < high; page += PAGE)
        if (!view_is_readable(page))
            return false;
    return true;
}

static uintptr_t page_of(uintptr_t address) {
    return address & ~(uintptr_t)(PAGE - 1);
}

static uintptr_t thread_control_block(void) {
    uintptr_t value;
#if defined(__x86_64__)
    __asm__("mov %%fs:0, %0" : "=r"(value));
#else
    __asm__("mrs %0, tpidr_el0" : "=r"(value));
#endif
    return value;
}

/* Something at the top of the calling thread's own stack. */
static uintptr_t landmark(void) {
    return os_thread_id() == getpid() ? getauxval(AT_RANDOM) : thread_control_block();
}

static bool is_near(uintptr_t low, uintptr_t high) {
    return low < high && high - low <= PAGES_MAX * PAGE;
}

/* Finds the own stack, or more of it, between `sp` and what is known. */
static bool grow(struct stack_view *view, uintptr_t sp) {
    uintptr_t top = view->low ? view->low : page_of(landmark()) + PAGE;
    if (!is_near(page_of(sp), top) || !all_readable(page_of(sp), top))
        return false;
    view->low = page_of(sp);
    view->high = view->high ? view->high : top;
    return true;
}

void view_begin(struct stack_view *view, uintptr_t sp) {
    view->page = 0;
    if (likely(sp >= view->low && sp < view->high))
        return;
    if (view->failures < FAILURES_MAX && !grow(view, sp))
        view->failures++;
}

bool view_reaches(uintptr_t low, uintptr_t high) {
    return low == high || (is_near(low, high) && all_readable(page_of(low), high));
}

bool view_ask(struct stack_view *view, uintptr_t address) {
    if ((page_of(address) | 1) == view->page)
        return true;
    if (!view_is_readable(address))
        return false;
    view->page = page_of(address) | 1;
    return true;
}
