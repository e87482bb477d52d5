/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace windows: what a long job keeps of its past after the ring has gone round.
 * Time is cut into windows of TRACE_WINDOW_SECONDS of REALTIME; those divisible by 2^level are kept, level growing when
 * the area is full, so that all ranks keep overlapping windows without talking to each other.
 * Lives here: choosing windows, taking and freeing blocks. Must not live here: the ring.
 */
#ifndef COMMTAP_SHIM_RECORD_TRACE_WINDOWS_H
#define COMMTAP_SHIM_RECORD_TRACE_WINDOWS_H

#include <stdint.h>

#include "shim/format.h"
#include "shim/record/clock.h"
#include "shim/record/dump_file.h"

struct trace_windows {
    struct trace_window_block *blocks; /* NULL: none */
    struct dumpfile *file;             /* that they lie in; NULL: in memory */
    uint32_t count;
    uint32_t touched; /* blocks from the front that have room: all that was ever used is among them; atomic */
    uint32_t level;   /* atomic */
    uint32_t cursor;  /* where a free block is looked for first: a hint, any value will do */
};

/* One lane's place in the area. */
struct trace_window_writer {
    struct trace_window_block *block;
    struct lane_state *state;
    uint64_t window;    /* current window number */
    uint64_t end_ticks; /* where it ends */
    uint32_t lane;
    uint32_t level; /* last level this lane has freed its blocks for */
    uint32_t taken; /* blocks taken for the current window */
    uint32_t busy;  /* shared lanes: one thread at a time */
};

/* Offers a record that is about to be overwritten. Moves *keep_from to the next t0 worth offering. */
void trace_windows_keep(struct trace_windows *windows, struct trace_window_writer *writer,
                        const struct anchors *anchors, const struct record *record, uint64_t *keep_from);

/* When a page of compact records begins and ends, and what it holds. */
struct page_span {
    uint64_t begin, end; /* ticks */
    uint64_t records;
};

/* Offers a page that is about to be overwritten. It is kept whole when it reaches into a kept window. Moves *keep_from
 * to where the next page worth offering ends at the earliest. */
void trace_windows_keep_page(struct trace_windows *windows, struct trace_window_writer *writer,
                             const struct anchors *anchors, const struct ring_page *page, const struct page_span *span,
                             uint64_t *keep_from);

#endif
