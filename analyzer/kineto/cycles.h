/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces of one rank that follow each other: torch.profiler's schedule writes one per cycle.
 * Lives here: which of several traces come first, and which of different ranks are of one cycle.
 * Must not live here: what the traces hold, the dumps.
 */
#ifndef COMMTAP_KINETO_CYCLES_H
#define COMMTAP_KINETO_CYCLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cycle_trace {
    int32_t rank;
    int64_t from_ns, to_ns; /* all that it holds */
    int64_t first_step;     /* as the profiler counts them, -1: not told */
    const char *name;       /* of its document, borrowed */
    size_t index;           /* the caller's */
    uint32_t cycle;         /* set by cycles_order: 0, 1, ... */
};

/* Finds the cycle of each trace, and sorts them by cycle, then rank. Returns NULL, or what stands in the way: traces of
 * one rank that overlap, or of which nothing tells the cycle; `text`, `size` bytes, holds it. */
const char *cycles_order(struct cycle_trace *traces, size_t count, char *text, size_t size);

/* When the cycle was on record. */
struct cycle_span {
    int64_t start_ns, end_ns;
};

/* Of sorted traces: fills in a span per cycle, from the first that a rank recorded to the last. Ranks begin and end
 * their traces at moments that differ a little. */
void cycles_extents(const struct cycle_trace *traces, size_t count, struct cycle_span *cycles);
/* When recording of the trace's cycle began, and ended: on all ranks, or where that overlaps the cycle before (behind)
 * on its own. Of the last cycle there is no end to ask for. */
int64_t cycles_start(const struct cycle_trace *trace, const struct cycle_span *cycles);
int64_t cycles_end(const struct cycle_trace *trace, const struct cycle_span *cycles);

#endif
