/* SPDX-License-Identifier: Apache-2.0
 *
 * Wishes say what is to be in force: doing them twice, or only the last of several, comes to the same.
 */
#include "shim/intercept/orders.h"

#include <errno.h>
#include <string.h>

#include "shim/base/fork_page.h"
#include "shim/base/order_check.h"
#include "shim/intercept/stack_sources.h"
#include "shim/record/call_cache.h"
#include "shim/record/epochs.h"
#include "shim/record/verbose.h"
#include "shim/stacks/stacks.h"

static struct order_wishes in_force; /* a forked child goes on with them */

static void pause_recording(struct order_answer *answer) {
    if (__atomic_fetch_or(&recorder.paused, QUIET_ORDERED, __ATOMIC_RELAXED) & QUIET_ORDERED)
        return;
    answer->pauses++;
    answer->paused_since = ticks();
}

static void resume_recording(struct order_answer *answer) {
    if (!(__atomic_fetch_and(&recorder.paused, (uint8_t)~QUIET_ORDERED, __ATOMIC_RELAXED) & QUIET_ORDERED))
        return;
    answer->paused_ticks += ticks() - answer->paused_since;
    answer->paused_since = 0;
}

/* As many as were ordered, also where some came one after the other or went to other ranks alone: so all ranks count
 * them alike. */
static void begin_epochs(const struct order_wishes *wishes, struct order_answer *answer) {
    while (answer->snapshots < wishes->snapshots) {
        answer->snapshots++;
        if (!epoch_begin()) {
            answer->refused |= ORDER_NO_EPOCH;
            answer->snapshots = wishes->snapshots;
        }
    }
}

static bool is_new(const char *wish, const char *before) {
    return wish[0] && strcmp(wish, before) != 0;
}

/* What the operator fixes holds against the user's orders as it does against the environment. It is said again with
 * each answer, for the wish stands. */
static bool is_fixed(enum knob_index knob, const char *wish, const char *value) {
    return recorder.knobs.fixed >> knob & 1 && wish[0] && strcmp(wish, value) != 0;
}

/* What is put among the knobs holds in children and in what is still to begin, too. */
static void choose_functions(const struct order_wishes *wishes, struct order_answer *answer) {
    if (is_fixed(KNOB_ops, wishes->operations, recorder.knobs.ops)) {
        answer->refused |= ORDER_FIXED_OPS;
        return;
    }
    if (!is_new(wishes->operations, in_force.operations))
        return;
    copy_text(recorder.knobs.ops, sizeof recorder.knobs.ops, wishes->operations);
    recorder_choose_calls();
    answer->filters++;
}

static void choose_verbose(const struct order_wishes *wishes, struct order_answer *answer) {
    if (is_fixed(KNOB_verbose, wishes->verbose, recorder.knobs.verbose)) {
        answer->refused |= ORDER_FIXED_VERBOSE;
        return;
    }
    if (!is_new(wishes->verbose, in_force.verbose))
        return;
    copy_text(recorder.knobs.verbose, sizeof recorder.knobs.verbose, wishes->verbose);
    recorder.verbose = verbose_wanted(wishes->verbose, recorder.header->rank);
}

static void choose_stack(const struct order_wishes *wishes, struct order_answer *answer) {
    if (is_fixed(KNOB_stack, wishes->stack, recorder.knobs.stack)) {
        answer->refused |= ORDER_FIXED_STACK;
        return;
    }
    if (!is_new(wishes->stack, in_force.stack))
        return;
    if (!stacks_change(wishes->stack)) {
        answer->refused |= ORDER_NO_STACK;
        return;
    }
    copy_text(recorder.knobs.stack, sizeof recorder.knobs.stack, wishes->stack);
    stack_sources_add();
}

static void fulfil(const struct order_wishes *wishes, struct order_answer *answer) {
    answer->refused = 0;
    begin_epochs(wishes, answer);
    choose_functions(wishes, answer);
    choose_verbose(wishes, answer);
    choose_stack(wishes, answer);
    if (wishes->recording == ORDERED_PAUSE)
        pause_recording(answer);
    else
        resume_recording(answer);
    in_force = *wishes;
}

static void answer_with(const struct order_wishes *wishes) {
    struct order_answer *answer = &recorder.header->order_answer;
    fulfil(wishes, answer);
    call_cache_forget(); /* it knows which rows calls have, and that nobody wants lines of them */
    answer->epoch = recorder.epoch_bits >> 24;
    answer->obeyed_ticks = ticks();
    __atomic_store_n(&answer->obeyed, wishes->asked, __ATOMIC_RELEASE);
}

/* Wishes that are being written while they are read are left: whoever writes them says so once more when they are
 * whole. */
void orders_follow(void) {
    struct dump_header *header = recorder.header;
    int saved = errno;
    if (!fork_lock_try(FORK_LOCK_ORDERS))
        return;
    if (__atomic_exchange_n(&header->orders_waiting, 0, __ATOMIC_SEQ_CST)) {
        struct order_wishes wishes = header->order_wishes;
        if (order_check(&wishes) == wishes.check) {
            wishes.verbose[sizeof wishes.verbose - 1] = '\0';
            wishes.stack[sizeof wishes.stack - 1] = '\0';
            wishes.operations[sizeof wishes.operations - 1] = '\0';
            answer_with(&wishes);
        }
    }
    fork_lock_release(FORK_LOCK_ORDERS);
    errno = saved;
}

void orders_begin(void) {
    if (in_force.asked == 0)
        return;
    in_force.snapshots = 0; /* its epochs are its own */
    in_force.check = order_check(&in_force);
    recorder.header->order_wishes = in_force;
    answer_with(&in_force);
}
