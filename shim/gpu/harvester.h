/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that looks, later, at what application threads have put on streams.
 * Lives here: starting and stopping it, one round of its work.
 * Must not live here: anything an application thread does around a launch (timing.c).
 *
 * Nothing waits for this thread without a bound: a query may hang in the driver.
 */
#ifndef COMMTAP_GPU_HARVESTER_H
#define COMMTAP_GPU_HARVESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/device.h"

/* Makes the sections and the lane of device records in the dump and starts the thread. NULL, or why not. */
const char *harvester_begin(void);

/* The same without the thread: for tests that call harvester_round themselves. */
const char *harvester_prepare(void);

/* Looks once at everything that could have finished. True when something had, or has come anew. Nothing happens while
 * another thread is at it. */
bool harvester_round(void);

/* The same from another thread, without what is only looked at now and then. */
void harvester_look(void);
/* ... without waiting for a round under way longer than a launch takes anyway. */
void harvester_look_briefly(void);

/* What else is looked at in a round while launches are timed by stamps, by whoever tells them; its records go to the
 * lane of device records. Returns whether there was something. NULL: nothing. Set before the harvester begins. */
extern bool (*harvester_also)(void);

/* A device is about to vanish: takes what has finished, counts the rest as lost, and drops it. */
void harvester_quiesce(struct gpu_device *device);

/* The process ends: a last look, the rest is counted as unfinished. */
void harvester_end(void);

#endif
