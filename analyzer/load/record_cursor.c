/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking one lane's records in the order of their tickets: sampled windows, then the ring.
 * Must not live here: what makes a record or a page valid (ring.c, ring_page.c).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/private.h"

/* Memory behind a cursor is given back so much at a time: a matcher holds one cursor per lane. */
enum { RELEASE_BYTES = 512u << 10 };
enum {
    RELEASE_RECORDS = RELEASE_BYTES / sizeof(struct record),
    RELEASE_PAGES = RELEASE_BYTES / sizeof(struct ring_page)
};

/* Sits in front of the cursor's list of blocks. */
struct cursor_state {
    struct record copy;
    uint64_t release_from; /* slots before this one were given back */
    struct page_walk walk; /* over the window's block or the ring's page that the cursor is at */
    bool walking;
    size_t page;       /* ring of pages: the entry it is at */
    uint32_t in_page;  /* records of it that were taken */
    uint32_t blocks[]; /* of windows */
};

static struct cursor_state *state_of(const struct record_cursor *cursor) {
    return (struct cursor_state *)((char *)cursor->blocks - offsetof(struct cursor_state, blocks));
}

/* ---- blocks of windows ----------------------------------------------------------------------- */

struct block_key {
    uint64_t ticket;
    uint32_t block;
};

static int compare_keys(const void *a, const void *b) {
    const struct block_key *left = a, *right = b;
    if (left->ticket != right->ticket)
        return left->ticket < right->ticket ? -1 : 1;
    return left->block < right->block ? -1 : left->block > right->block;
}

static uint32_t block_used(const struct trace_window_block *block) {
    return block->used < TRACE_WINDOW_RECORDS ? block->used : TRACE_WINDOW_RECORDS;
}

/* The block as a page of compact records, NULL: it holds plain ones. */
static const struct ring_page *page_of(const struct trace_window_block *block) {
    return __atomic_load_n(&block->page_number, __ATOMIC_ACQUIRE) != 0 ? (const struct ring_page *)block : NULL;
}

static const struct lane_templates *templates_of(const struct dump *dump, uint32_t lane) {
    static const struct lane_templates none;
    const struct compact_ring *ring = loaded_of(dump)->rings[lane].compact;
    return ring ? &ring->templates : &none;
}

static bool first_ticket_of(const struct dump *dump, uint32_t lane, const struct trace_window_block *block,
                            uint64_t *ticket) {
    struct page_walk walk;
    if (page_of(block)) {
        bool begun = page_walk_begin(&walk, page_of(block), templates_of(dump, lane));
        *ticket = walk.ticket;
        return begun && walk.ticket <= UINT64_MAX / 2;
    }
    for (uint32_t i = 0; i < block_used(block); i++) {
        uint64_t commit = __atomic_load_n(&block->records[i].commit, __ATOMIC_ACQUIRE);
        if (commit != 0) {
            *ticket = commit - 1;
            return true;
        }
    }
    return false;
}

/* A block that was being taken (all ones) when its process ended holds nothing yet. */
static bool is_lanes_block(const struct trace_window_block *block, uint32_t lane) {
    uint64_t window = __atomic_load_n(&block->window, __ATOMIC_ACQUIRE);
    return window != 0 && window != UINT64_MAX && block->lane == lane;
}

static size_t count_blocks(const struct dump *dump, uint32_t lane) {
    size_t count = 0;
    for (uint32_t i = 0; i < dump->window_count; i++)
        count += is_lanes_block(&dump->windows[i], lane);
    return count;
}

/* Lists the lane's blocks in the order of their first ticket. */
static bool sort_blocks(struct record_cursor *cursor, size_t capacity) {
    const struct dump *dump = cursor->dump;
    struct block_key *keys = malloc((capacity ? capacity : 1) * sizeof *keys);
    if (!keys)
        return false;
    size_t count = 0;
    for (uint32_t i = 0; i < dump->window_count && count < capacity; i++) {
        const struct trace_window_block *block = &dump->windows[i];
        if (is_lanes_block(block, cursor->lane) && first_ticket_of(dump, cursor->lane, block, &keys[count].ticket))
            keys[count++].block = i;
    }
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count; i++)
        cursor->blocks[i] = keys[i].block;
    cursor->block_count = count;
    free(keys);
    return true;
}

bool record_cursor_begin(struct record_cursor *cursor, const struct dump *dump, uint32_t lane) {
    *cursor = (struct record_cursor){.dump = dump, .lane = lane};
    size_t capacity = count_blocks(dump, lane);
    struct cursor_state *state = calloc(1, sizeof *state + capacity * sizeof *state->blocks);
    if (!state)
        return false;
    if (lane < dump->lane_count && dump->lanes[lane].ring)
        state->release_from = dump->lanes[lane].first_ticket & (dump->lanes[lane].ring_records - 1);
    cursor->blocks = state->blocks;
    if (sort_blocks(cursor, capacity))
        return true;
    record_cursor_end(cursor);
    return false;
}

/* The block's next record from where the cursor is in it. */
static const struct record *next_plain(struct record_cursor *cursor, struct cursor_state *state,
                                       const struct trace_window_block *block) {
    while (cursor->in_block < block_used(block)) {
        const struct record *slot = &block->records[cursor->in_block++];
        uint64_t commit = __atomic_load_n(&slot->commit, __ATOMIC_ACQUIRE);
        const struct record *record = commit ? ring_copy_record(&state->copy, slot, commit - 1) : NULL;
        if (record)
            return record;
    }
    return NULL;
}

static const struct record *next_compact(struct record_cursor *cursor, struct cursor_state *state,
                                         const struct ring_page *page) {
    if (!state->walking)
        state->walking = page_walk_begin(&state->walk, page, templates_of(cursor->dump, cursor->lane));
    return state->walking ? page_walk_next(&state->walk) : NULL;
}

/* The next record kept in a window, from before the ring's oldest. */
static const struct record *next_in_windows(struct record_cursor *cursor, struct cursor_state *state) {
    const struct dump_lane *lane = &cursor->dump->lanes[cursor->lane];
    while (cursor->block < cursor->block_count) {
        const struct trace_window_block *block = &cursor->dump->windows[cursor->blocks[cursor->block]];
        const struct ring_page *page = page_of(block);
        const struct record *record = page ? next_compact(cursor, state, page) : next_plain(cursor, state, block);
        if (!record) {
            cursor->block++;
            cursor->in_block = 0;
            state->walking = false;
        } else if (record->commit > cursor->next_ticket &&
                   (lane->end_ticket == 0 || record->commit <= lane->first_ticket)) {
            cursor->next_ticket = record->commit;
            return record;
        }
    }
    return NULL;
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* Gives back what lies between the last release and `slot`; before `slot` comes the ring's end where it wrapped. */
static void release_behind(const struct record_cursor *cursor, struct cursor_state *state, uint64_t slot) {
    uint64_t end = slot < state->release_from ? cursor->dump->lanes[cursor->lane].ring_records : slot;
    ring_release(loaded_of(cursor->dump), cursor->lane, state->release_from, end);
    state->release_from = slot;
}

static const struct record *next_in_ring(struct record_cursor *cursor, struct cursor_state *state) {
    const struct dump_lane *lane = &cursor->dump->lanes[cursor->lane];
    uint64_t mask = lane->ring_records - 1;
    uint64_t ticket = cursor->next_ticket > lane->first_ticket ? cursor->next_ticket : lane->first_ticket;
    for (; ticket < lane->end_ticket; ticket++) {
        uint64_t slot = ticket & mask;
        if (slot < state->release_from || slot - state->release_from >= RELEASE_RECORDS)
            release_behind(cursor, state, slot);
        const struct record *record = ring_copy_record(&state->copy, &lane->ring[slot], ticket);
        if (record) {
            cursor->next_ticket = ticket + 1;
            return record;
        }
    }
    cursor->next_ticket = ticket;
    return NULL;
}

/* Begins the walk over a page, if it is still there. */
static bool begin_page(struct cursor_state *state, const struct compact_ring *ring, const struct page_entry *entry) {
    state->in_page = 0;
    return page_walk_begin(&state->walk, &ring->pages[entry->page], &ring->templates) &&
           state->walk.number == entry->number && state->walk.ticket == entry->first_ticket;
}

static const struct record *next_in_pages(struct record_cursor *cursor, struct cursor_state *state,
                                          const struct compact_ring *ring) {
    while (state->page < ring->entry_count) {
        const struct page_entry *entry = &ring->entries[state->page];
        if (!state->walking)
            state->walking = begin_page(state, ring, entry);
        const struct record *record =
            state->walking && state->in_page++ < entry->records ? page_walk_next(&state->walk) : NULL;
        if (!record) {
            state->walking = false;
            if (++state->page % RELEASE_PAGES == 0)
                loaded_release(loaded_of(cursor->dump), ring->pages, ring->pages + ring->page_count);
        } else if (record->commit > cursor->next_ticket) {
            cursor->next_ticket = record->commit;
            return record;
        }
    }
    return NULL;
}

const struct record *record_cursor_next(struct record_cursor *cursor) {
    struct cursor_state *state = state_of(cursor);
    if (cursor->block < cursor->block_count) {
        const struct record *record = next_in_windows(cursor, state);
        if (record)
            return record;
    }
    const struct compact_ring *ring = loaded_of(cursor->dump)->rings[cursor->lane].compact;
    return ring && ring->pages ? next_in_pages(cursor, state, ring) : next_in_ring(cursor, state);
}

void record_cursor_end(struct record_cursor *cursor) {
    const struct loaded *loaded = loaded_of(cursor->dump);
    if (!cursor->blocks)
        return;
    const struct compact_ring *ring = loaded->rings[cursor->lane].compact;
    if (ring && ring->pages)
        loaded_release(loaded, ring->pages, ring->pages + ring->page_count);
    else
        ring_release(loaded, cursor->lane, 0, cursor->dump->lanes[cursor->lane].ring_records);
    free(state_of(cursor));
    cursor->blocks = NULL;
}

uint64_t records_in_windows(const struct dump *dump, uint32_t lane) {
    struct record_cursor cursor;
    if (dump->window_count == 0 || !record_cursor_begin(&cursor, dump, lane))
        return 0;
    uint64_t kept = 0;
    while (next_in_windows(&cursor, state_of(&cursor)))
        kept++;
    record_cursor_end(&cursor);
    return kept;
}
