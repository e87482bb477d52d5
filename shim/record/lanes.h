/* SPDX-License-Identifier: Apache-2.0
 *
 * Who writes where: lanes are opened and given to threads.
 * Lives here: a lane's ring and tables at its opening, which lane a thread gets.
 * Must not live here: threads themselves (intercept/threads.h), writing into a lane (recorder.h, aggregates.h).
 */
#ifndef COMMTAP_SHIM_RECORD_LANES_H
#define COMMTAP_SHIM_RECORD_LANES_H

#include "shim/record/recorder.h"

/* A lane for the thread: one that nobody else writes to, else the shared one. NULL when there is no memory. */
struct lane *lanes_take(uint32_t tid);

/* Its thread ends: the next one may have it. */
void lanes_give_back(struct lane *lane);

/* Makes the shared lane ahead of need, so that no thread finds it half made. */
void lanes_expect_threads(void);

/* The lane of device records, whose t0 are CLOCK_MONOTONIC ns as `clock` relates them to REALTIME. For one writer, once
 * per activation; NULL when there is no room. */
struct lane *lanes_open_device(const struct anchors *clock);

#endif
