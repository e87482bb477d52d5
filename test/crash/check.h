/* SPDX-License-Identifier: Apache-2.0
 *
 * What must be true of the dump of a hammer process that was killed at any moment.
 * Lives here: the checks, over the loader's view of the file and over its raw rings.
 * Must not live here: starting and killing.
 */
#ifndef COMMTAP_TEST_CRASH_CHECK_H
#define COMMTAP_TEST_CRASH_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct crash_totals {
    uint64_t dumps;
    uint64_t records;     /* surviving and checked */
    uint64_t in_progress; /* slots and rows that were being written when the process died */
    uint64_t wrapped;     /* rings that had overwritten their oldest records */
    uint64_t failures;
};

/* Checks the dump at `path`, adds to `totals`, and prints one line per failure. `hammering`: both threads had begun
 * when the process was killed, so there must be records of each. */
void crash_check(const char *path, bool hammering, struct crash_totals *totals);

#endif
