/* SPDX-License-Identifier: Apache-2.0
 *
 * A random walk through calls of all kinds: what the parts of the stack check share.
 * Lives here: how a part calls on, and how it is listed. Must not live here: any comparison.
 */
#ifndef COMMTAP_TEST_STEPS_H
#define COMMTAP_TEST_STEPS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Compares the stack as it is now; called at many places of the walk. */
void look(void);

/* Calls some step with a depth one less, or only looks when depth is used up. */
long go_on(int depth);

/* 0 .. n-1 from a fixed sequence. */
unsigned draw(unsigned n);

/* Leaves the walk, by longjmp, to where it last passed a step that can be jumped to; returns when there is none. */
void jump_back(void);

/* Keeps the compiler from knowing what is in memory. */
static inline void touch(void *memory) {
    __asm__ volatile("" : : "r"(memory) : "memory");
}

typedef long (*step_function)(int depth);

#ifdef __cplusplus
}
#endif

#endif
