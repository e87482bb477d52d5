/* SPDX-License-Identifier: Apache-2.0
 *
 * Time stamps: raw ticks of the cheapest clock that can be trusted on this machine.
 * Lives here: reading ticks, deciding which clock they come from, anchors that tie them to the system's clocks.
 * Must not live here: conversions for reports (the analyzer's, from the anchors).
 */
#ifndef COMMTAP_SHIM_RECORD_CLOCK_H
#define COMMTAP_SHIM_RECORD_CLOCK_H

#include <stdint.h>

#include "shim/base/os.h"
#include "shim/format.h"
#include "shim/record/dump_file.h"

extern bool clock_is_monotonic; /* the cycle counter cannot be trusted: ticks are CLOCK_MONOTONIC ns */

static inline uint64_t cycle_counter(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#endif
}

/* Now, in ticks. */
static inline uint64_t ticks(void) {
    return likely(!clock_is_monotonic) ? cycle_counter() : os_monotonic_ns();
}

/* Chooses the clock (clock_kind in format.h): the cycle counter where the kernel itself keeps time by it. */
enum clock_kind clock_choose(void);

/* Where anchors go (a SECTION_ANCHORS) and when the next is due. */
struct anchors {
    struct dumpfile *file; /* that the table lies in; NULL: in memory */
    struct clock_anchor *table;
    uint32_t capacity;
    uint32_t used;
    uint32_t busy;           /* one thread at a time; others leave it alone */
    uint64_t interval_ticks; /* doubles whenever the table is thinned */
    uint64_t next_due;
    uint64_t first_ticks, first_monotonic;
    uint64_t last_ticks, last_realtime;
    uint64_t tick_hz; /* best estimate so far */
};

/* Starts with one anchor, for which the table has room. */
void anchors_begin(struct anchors *a, struct dumpfile *file, struct clock_anchor *table, uint32_t capacity);

/* Takes an anchor; called when `now` has reached next_due, from whichever thread gets there first. */
void anchors_take(struct anchors *a);

/* Ticks -> REALTIME ns by the last anchor: for trace windows, good to microseconds. */
uint64_t anchors_realtime_ns(const struct anchors *a, uint64_t at_ticks);
/* REALTIME ns -> ticks, the inverse. */
uint64_t anchors_ticks(const struct anchors *a, uint64_t realtime_ns);
/* Length in ticks -> ns. */
uint64_t anchors_ns(const struct anchors *a, uint64_t length_ticks);

#endif
