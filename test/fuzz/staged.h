/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that keeps the rules of time (test/scenes/actors.h), from the same steps: links, hosts and turns are only
 * judged where the times fit together, which steps that say when everything happens hardly ever do. Must not live here:
 * damage (faults.h).
 */
#ifndef COMMTAP_TEST_FUZZ_STAGED_H
#define COMMTAP_TEST_FUZZ_STAGED_H

#include "test/fuzz/step.h"
#include "test/scenes/actors.h"

/* Plays a job of `ranks` ranks, many times the same steps; `compact`: with rings of pages. The caller ends with
 * stage_free. */
struct stage *staged_play(const uint8_t *data, size_t size, unsigned ranks, bool compact);

#endif
