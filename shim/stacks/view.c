/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack counts as the thread's own when it is readable without a gap from the stack
 * pointer to something that lies at the top of every such stack: the thread control block, and for the first thread
 * what the kernel put there. Any other stack may be gone and another one in its place by the next walk.
 */
#include "shim/stacks/view.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE         4096u /* the smallest there is: asking too often does no harm */
#define PAGES_MAX    512u  /* of a thread's own stack asked for at once */
#define FAILURES_MAX 8u    /* searches in vain for the own stack, each up to PAGES_MAX system calls */

/* Valgrind's answer to a program that asks whether it runs there: instructions that do nothing anywhere else
 * (valgrind.h, VG_USERREQ__RUNNING_ON_VALGRIND). */
static bool ask_valgrind(void) {
    const uintptr_t request[6] = {0x1001};
    uintptr_t answer = 0;
#if defined(__x86_64__)
    __asm__ volatile("rolq $3,%%rdi\nrolq $13,%%rdi\nrolq $61,%%rdi\nrolq $51,%%rdi\nxchgq %%rbx,%%rbx"
                     : "+d"(answer)
                     : "a"(request)
                     : "cc", "memory");
#else
    __asm__ volatile("mov x3,%1\nmov x4,%2\nror x12,x12,#3\nror x12,x12,#13\nror x12,x12,#51\nror x12,x12,#61\n"
                     "orr x10,x10,x10\nmov %0,x3"
                     : "=r"(answer)
                     : "r"(answer), "r"(request)
                     : "cc", "memory", "x3", "x4");
#endif
    return answer != 0;
}

static bool is_under_valgrind(void) {
    static uint8_t known; /* 1: no, 2: yes */
    uint8_t answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (unlikely(!answer))
        __atomic_store_n(&known, answer = ask_valgrind() ? 2 : 1, __ATOMIC_RELAXED);
    return answer == 2;
}

/* The kernel copies the signal set before it finds that there is no such operation: EINVAL, and nothing changes. Of
 * calls that read memory it is the cheapest. Valgrind would complain of it; it says nothing of memory read from
 * outside. */
bool view_is_readable(uintptr_t address) {
    if (unlikely(is_under_valgrind())) {
        char byte;
        struct iovec here = {&byte, 1}, there = {(void *)address, 1};
        return syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0) == 1;
    }
    return syscall(SYS_rt_sigprocmask, ~0, address, NULL, 8) == -1 && errno != EFAULT;
}

static uintptr_t page_of(uintptr_t address) {
    return address & ~(uintptr_t)(PAGE - 1);
}

static bool all_readable(uintptr_t low, uintptr_t high) {
    for (uintptr_t at = low; at < high; at = page_of(at) + PAGE)
        if (!view_is_readable(at))
            return false;
    return true;
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
    return low < high && high - low <= (uintptr_t)PAGES_MAX * PAGE;
}

/* Finds the own stack, or more of it, between `sp` and what is known. */
static bool grow_view(struct stack_view *view, uintptr_t sp) {
    uintptr_t top = view->low ? view->low : page_of(landmark()) + PAGE;
    if (!is_near(page_of(sp), top) || !all_readable(sp, top))
        return false;
    view->low = page_of(sp);
    view->high = view->high ? view->high : top;
    return true;
}

void view_begin(struct stack_view *view, uintptr_t sp) {
    view->page = 0;
    if (likely(sp >= view->low && sp < view->high))
        return;
    if (view->failures < FAILURES_MAX && !grow_view(view, sp))
        view->failures++;
}

bool view_reaches(uintptr_t low, uintptr_t high) {
    return low == high || (is_near(low, high) && all_readable(low, high));
}

bool view_ask(struct stack_view *view, uintptr_t address) {
    if ((page_of(address) | 1) == view->page)
        return true;
    if (!view_is_readable(address))
        return false;
    view->page = page_of(address) | 1;
    return true;
}
