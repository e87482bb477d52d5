/* SPDX-License-Identifier: Apache-2.0
 *
 * What commtap itself takes in the job's calls: every now and then a call is measured around the real function, and
 * stands for those since the one before. What it tells goes into the dump, and against COMMTAP_BUDGET.
 * Lives here: choosing and measuring such calls, putting the steps of the budget in force.
 * Must not live here: which steps are due (record/budget.h), what a wrapper does.
 *
 * A call that is not measured pays a decrement. A measured one takes two calls: the first finds that its turn has come
 * and has the next one noticed at its entry, by a stack pointer that every caller's is below (OUTER_MEASURED); by then
 * the code that measures has run once, and is no colder than the rest.
 */
#ifndef COMMTAP_SHIM_INTERCEPT_OWN_COST_H
#define COMMTAP_SHIM_INTERCEPT_OWN_COST_H

#include "shim/record/recorder.h"

/* At activation, once there is a header. */
void own_cost_begin(void);
/* A thread's first call is under way. */
void own_cost_attach(struct thread *self);

/* At the entry of a call that is to be measured. */
void own_cost_enter(struct thread *self);
void own_cost_turn(struct thread *self);
void own_cost_left(struct thread *self, uint64_t t1);

/* Right before the real function, as the last thing. */
static inline void own_cost_before(struct thread *self) {
    if (unlikely(--self->until_measured == 0))
        own_cost_turn(self);
}

/* At the end of a call that returned at `t1`: the thread is in none from now on. Takes anchors that are due, too. */
static inline void own_cost_after(struct thread *self, uint64_t t1) {
    self->outer = 0;
    if (unlikely(t1 >= self->due))
        own_cost_left(self, t1);
}

#endif
