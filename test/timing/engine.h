/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's GPU timing with a door for tests: everything of libcommtap.so, and these functions in the place of the
 * wrappers of a communication library. Built as libengine.so, so that the stand-in can tell its calls from the job's.
 */
#ifndef COMMTAP_TEST_TIMING_ENGINE_H
#define COMMTAP_TEST_TIMING_ENGINE_H

#include <stdint.h>

/* Opens the dump. */
void engine_open(void);

/* Attaches the current device: its index, or -1. Any thread. */
int engine_attach(void);

/* Around one launch of a collective on communicator `comm` (0 to 15) with number `op`. */
void *engine_begin(int device, void *stream, uint32_t streams);
void engine_end(void *span, uint32_t comm, uint32_t op);

uint64_t engine_enqueued(uint32_t comm);
uint64_t engine_completed(uint32_t comm);
void engine_abort(uint32_t comm);

#endif
