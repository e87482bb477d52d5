/* SPDX-License-Identifier: Apache-2.0
 *
 * What `commtap ctl` asks of a process while it runs: wishes in the dump's header (struct order_wishes), read by
 * whichever thread makes the next call. Lives here: taking wishes, doing what they say, the answer. Must not live here:
 * what a pause, an epoch or a stack is.
 */
#ifndef COMMTAP_SHIM_INTERCEPT_ORDERS_H
#define COMMTAP_SHIM_INTERCEPT_ORDERS_H

#include "shim/record/recorder.h"

/* At activation, once the header is there: what was ordered of the process that this one was forked from holds here,
 * too. */
void orders_begin(void);

/* The rest of orders_look. Keeps errno. Of several threads one does it; the others go on as before until it is done. */
void orders_follow(void);

/* Where nothing was ordered, which is nearly always, it costs two loads and a comparison. */
static inline bool orders_wait(void) {
    return __atomic_load_n(&recorder.header->orders_waiting, __ATOMIC_RELAXED) != 0;
}

/* At the begin of each call and at its end. */
static inline void orders_look(void) {
    if (unlikely(orders_wait()))
        orders_follow();
}

#endif
