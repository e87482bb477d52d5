/* SPDX-License-Identifier: Apache-2.0
 *
 * A system call without libc: before libc is up, and where none of its functions may be asked (linker.h).
 * Must not live here: which ones are made, and why.
 */
#ifndef COMMTAP_SHIM_BASE_SYSTEM_CALL_H
#define COMMTAP_SHIM_BASE_SYSTEM_CALL_H

#include <sys/syscall.h>

/* The kernel's answer: below 0 it is a negated errno. errno itself stays as it is. */
static inline long system_call(long number, long first, long second, long third, long fourth) {
#if defined(__x86_64__)
    long result = number;
    register long r10 __asm__("r10") = fourth;
    __asm__ volatile("syscall" : "+a"(result) : "D"(first), "S"(second), "d"(third), "r"(r10) : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = first, x1 __asm__("x1") = second,
                     x2 __asm__("x2") = third, x3 __asm__("x3") = fourth;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
#endif
}

/* The same of one with six arguments. */
static inline long system_call_of_six(long number, long first, long second, long third, long fourth, long fifth,
                                      long sixth) {
#if defined(__x86_64__)
    long result = number;
    register long r10 __asm__("r10") = fourth, r8 __asm__("r8") = fifth, r9 __asm__("r9") = sixth;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = first, x1 __asm__("x1") = second,
                     x2 __asm__("x2") = third, x3 __asm__("x3") = fourth, x4 __asm__("x4") = fifth,
                     x5 __asm__("x5") = sixth;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#endif
}

#endif
