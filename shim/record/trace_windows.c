/* SPDX-License-Identifier: Apache-2.0
 *
 * A block belongs to one lane while it is in use; only that lane writes or frees it, so there is nothing to lock.
 */
#include "shim/record/trace_windows.h"

#include <string.h>

#define WINDOW_NS      (TRACE_WINDOW_SECONDS * 1000000000ull)
#define BLOCK_RESERVED UINT64_MAX
/* One busy window may fill at most this share of the area: several windows tell more than one. */
#define SHARE_OF_AREA 4u

static bool is_kept(uint64_t window, uint32_t level) {
    return (window & ((1ull << level) - 1)) == 0;
}

static uint32_t touched(const struct trace_windows *w) {
    return __atomic_load_n(&w->touched, __ATOMIC_ACQUIRE);
}

/* One more block with room. */
static bool touch_next(struct trace_windows *w) {
    uint32_t next = touched(w);
    if (next == w->count || (w->file && !dumpfile_make_room(w->file, &w->blocks[next], sizeof *w->blocks)))
        return false;
    __atomic_compare_exchange_n(&w->touched, &next, next + 1, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    return true;
}

static void free_own_blocks(struct trace_windows *w, struct trace_window_writer *writer, uint32_t level) {
    for (uint32_t i = 0; i < touched(w); i++) {
        struct trace_window_block *block = &w->blocks[i];
        uint64_t window = __atomic_load_n(&block->window, __ATOMIC_ACQUIRE);
        uint32_t lane = __atomic_load_n(&block->lane, __ATOMIC_RELAXED);
        if (window != 0 && window != BLOCK_RESERVED && lane == writer->lane && !is_kept(window - 1, level))
            __atomic_store_n(&block->window, 0, __ATOMIC_RELEASE);
    }
    writer->level = level;
    writer->state->trace_window_level = level;
}

static struct trace_window_block *take_touched_block(struct trace_windows *w, struct trace_window_writer *writer) {
    uint32_t count = touched(w), first = __atomic_load_n(&w->cursor, __ATOMIC_RELAXED);
    for (uint32_t tried = 0; tried < count; tried++) {
        uint32_t i = (first + tried) % count;
        uint64_t expected = 0;
        struct trace_window_block *block = &w->blocks[i];
        if (!__atomic_compare_exchange_n(&block->window, &expected, BLOCK_RESERVED, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&w->cursor, i + 1, __ATOMIC_RELAXED);
        memset(&block->used, 0, sizeof *block - offsetof(struct trace_window_block, used));
        __atomic_store_n(&block->lane, writer->lane, __ATOMIC_RELAXED);
        __atomic_store_n(&block->window, writer->window + 1, __ATOMIC_RELEASE);
        writer->taken++;
        return block;
    }
    return NULL;
}

static struct trace_window_block *take_free_block(struct trace_windows *w, struct trace_window_writer *writer) {
    struct trace_window_block *block;
    do
        block = take_touched_block(w, writer);
    while (!block && touch_next(w));
    return block;
}

static struct trace_window_block *next_block(struct trace_windows *w, struct trace_window_writer *writer) {
    if (writer->taken >= (w->count + SHARE_OF_AREA - 1) / SHARE_OF_AREA)
        return NULL;
    struct trace_window_block *block = take_free_block(w, writer);
    if (block)
        return block;
    uint32_t level = writer->level + 1;
    if (level > 40)
        return NULL;
    __atomic_compare_exchange_n(&w->level, &writer->level, level, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    free_own_blocks(w, writer, __atomic_load_n(&w->level, __ATOMIC_RELAXED));
    return is_kept(writer->window, writer->level) ? take_free_block(w, writer) : NULL;
}

static void enter_window(struct trace_window_writer *writer, const struct anchors *anchors, uint64_t at_ticks) {
    uint64_t window = anchors_realtime_ns(anchors, at_ticks) / WINDOW_NS;
    writer->window = window;
    writer->end_ticks = anchors_ticks(anchors, (window + 1) * WINDOW_NS);
    if (writer->end_ticks <= at_ticks) /* REALTIME was stepped in between: any later instant does */
        writer->end_ticks = at_ticks + 1;
    writer->block = NULL;
    writer->taken = 0;
}

static void copy_record(struct trace_window_block *block, const struct record *record) {
    struct record *to = &block->records[block->used];
    uint64_t commit = record->commit;
    *to = *record;
    to->commit = 0;
    __atomic_store_n(&to->commit, commit, __ATOMIC_RELEASE);
    block->used++;
}

void trace_windows_keep(struct trace_windows *w, struct trace_window_writer *writer, const struct anchors *anchors,
                        const struct record *record, uint64_t *keep_from) {
    if (w->count == 0) {
        __atomic_store_n(keep_from, UINT64_MAX, __ATOMIC_RELAXED);
        return;
    }
    if (record->commit == 0)
        return;
    if (record->t0 >= writer->end_ticks)
        enter_window(writer, anchors, record->t0);
    uint32_t level = __atomic_load_n(&w->level, __ATOMIC_RELAXED);
    if (level != writer->level)
        free_own_blocks(w, writer, level);
    if (is_kept(writer->window, level)) {
        if (!writer->block || writer->block->used == TRACE_WINDOW_RECORDS)
            writer->block = next_block(w, writer);
        if (writer->block) {
            copy_record(writer->block, record);
            return;
        }
        writer->state->windows_lost++;
    }
    __atomic_store_n(keep_from, writer->end_ticks, __ATOMIC_RELAXED); /* nothing more of this window */
}

/* ---- whole pages ----------------------------------------------------------------------------- */

/* Of the windows from `first` to `last` the one that is kept longest: divisible by the highest power of two. */
static uint64_t most_kept(uint64_t first, uint64_t last) {
    uint64_t differing = first > 0 ? (first - 1) ^ last : UINT64_MAX;
    unsigned bit = 63u - (unsigned)__builtin_clzll(differing);
    return last >> bit << bit;
}

static void copy_page(struct trace_window_block *block, const struct ring_page *page) {
    struct ring_page *to = (struct ring_page *)block;
    memcpy(to->slots, page->slots, page->used * sizeof *page->slots);
    to->first_ticket = page->first_ticket;
    to->base_ticks = page->base_ticks;
    to->base_op = page->base_op;
    __atomic_store_n(&to->number, page->number, __ATOMIC_RELEASE);
    __atomic_store_n(&to->used, page->used, __ATOMIC_RELEASE);
}

void trace_windows_keep_page(struct trace_windows *w, struct trace_window_writer *writer, const struct anchors *anchors,
                             const struct ring_page *page, const struct page_span *span, uint64_t *keep_from) {
    uint64_t first = anchors_realtime_ns(anchors, span->begin) / WINDOW_NS;
    uint64_t last = anchors_realtime_ns(anchors, span->end) / WINDOW_NS;
    uint64_t window = most_kept(first, last < first ? first : last);
    uint32_t level = __atomic_load_n(&w->level, __ATOMIC_RELAXED);
    if (level != writer->level)
        free_own_blocks(w, writer, level);
    if (w->count > 0 && is_kept(window, level)) {
        if (window != writer->window)
            writer->taken = 0;
        writer->window = window;
        struct trace_window_block *block = next_block(w, writer);
        if (block) {
            copy_page(block, page);
            return;
        }
        writer->state->windows_lost += span->records;
    }
    uint64_t end = anchors_ticks(anchors, (last + 1) * WINDOW_NS);
    *keep_from = end > span->end ? end : span->end; /* nothing more of these windows */
}
