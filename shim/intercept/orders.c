/* SPDX-License-Identifier: Apache-2.0
 *
 * Wishes say what is to be in force: doing them twice, or only the last of several, comes to the same.
 */
#include "shim/intercept/orders.h"

#include <errno.h>
#include <string.h>

#include "shim/base/fork_page.h"
#include "shim/base/order_check.h"

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

static void fulfil(const struct order_wishes *wishes, struct order_answer *answer) {
    answer->refused = 0;
    if (wishes->recording == ORDERED_PAUSE)
        pause_recording(answer);
    else
        resume_recording(answer);
    in_force = *wishes;
}

static void answer_with(const struct order_wishes *wishes) {
    struct order_answer *answer = &recorder.header->order_answer;
    fulfil(wishes, answer);
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
        if (order_check(&wishes) == wishes.check)
            answer_with(&wishes);
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
