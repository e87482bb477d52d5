/* SPDX-License-Identifier: Apache-2.0
 *
 * A hammer that is stopped after every machine instruction, so that no moment at which it might have been killed is
 * left out: random kills hardly ever fall between two stores.
 * Lives here: stepping, and what must be true of the ring's pages at each moment.
 * Must not live here: what is in the records (check.h).
 */
#ifndef COMMTAP_TEST_CRASH_STEPS_H
#define COMMTAP_TEST_CRASH_STEPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct steps_totals {
    uint64_t instructions;
    uint64_t records; /* times that the slots in use of a page became more */
    uint64_t pages;   /* that were begun */
    uint64_t failures;
};

/* Steps the main thread of the process, a child of ours that writes the dump at `path`, over the ends of `pages` pages
 * of its ring, which has gone round; between them the process runs by itself. Prints one line per failure and stops at
 * the first. Returns false, with the reason printed, where stepping is not allowed here. The process is left stopped.
 */
bool steps_check(pid_t pid, const char *path, uint64_t pages, struct steps_totals *totals);

#endif
