/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of one lane: what its ring holds, walking ring and sampled windows in ticket order.
 * Lives here: the commit rules of records, as a reader sees them.
 * Must not live here: what a record means.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analyzer/load/private.h"
#include "analyzer/load/rows.h"

/* Pages behind a cursor are given back this many records at a time: a matcher holds one cursor per lane. */
enum { RELEASE_RECORDS = (512u << 10) / sizeof(struct record) };

struct scan {
    uint64_t valid;  /* slots whose commit word belongs there */
    uint64_t wrong;  /* other non-zero commit words */
    uint64_t oldest; /* ticket */
    uint64_t newest;
};

/* Looks at every slot; tickets above `limit` are taken for damage. */
static struct scan scan_slots(const struct record *ring, uint32_t available, uint32_t records, uint64_t limit,
                              uint64_t floor) {
    struct scan scan = {.oldest = UINT64_MAX};
    uint64_t mask = records - 1;
    for (uint32_t i = 0; i < available; i++) {
        uint64_t commit = __atomic_load_n(&ring[i].commit, __ATOMIC_RELAXED);
        if (commit == 0)
            continue;
        uint64_t ticket = commit - 1;
        if ((ticket & mask) != i || ticket > limit) {
            scan.wrong++;
            continue;
        }
        if (ticket < floor) /* its writer was stopped before it began to overwrite it */
            continue;
        scan.valid++;
        if (ticket > scan.newest)
            scan.newest = ticket;
        if (ticket < scan.oldest)
            scan.oldest = ticket;
    }
    return scan;
}

/* The tickets of one ring lie within its length of the newest. Restricts a scan to those. */
static struct scan narrow(const struct record *ring, uint32_t available, uint32_t records, struct scan scan) {
    if (scan.valid == 0 || scan.newest - scan.oldest < records)
        return scan;
    return scan_slots(ring, available, records, scan.newest, scan.newest - (records - 1));
}

void ring_scan(struct loaded *loaded, uint32_t number, uint64_t offset) {
    struct dump_lane *lane = &loaded->dump.lanes[number];
    uint32_t available = loaded->ring_available[number], records = lane->ring_records;
    if (loaded_is_mapped(loaded) && !loaded->own_rings[number])
        madvise((void *)lane->ring, (size_t)records * sizeof *lane->ring, MADV_SEQUENTIAL);
    struct scan scan = scan_slots(lane->ring, available, records, UINT64_MAX, 0);
    uint64_t head = lane->state->head;
    if (scan.valid > 0 && scan.newest > head && head > 0) {
        /* a writer's head follows its newest commit closely: a ticket far above it is a damaged word */
        struct scan below = narrow(lane->ring, available, records, scan_slots(lane->ring, available, records, head, 0));
        struct scan all = narrow(lane->ring, available, records, scan);
        scan = below.valid >= all.valid ? below : all;
    } else {
        scan = narrow(lane->ring, available, records, scan);
    }
    if (scan.wrong > 0)
        problem_add(&loaded->dump, false, offset, "ring of lane %u: %llu slots with a foreign ticket are left out",
                    number, (unsigned long long)scan.wrong);
    ring_release(loaded, number, 0, records);
    loaded->ring_valid[number] = scan.valid;
    if (scan.valid == 0)
        return;
    lane->first_ticket = scan.oldest;
    lane->end_ticket = scan.newest + 1;
    lane->torn = lane->end_ticket - lane->first_ticket - scan.valid;
    if (head > lane->end_ticket && head - lane->end_ticket > records)
        problem_add(&loaded->dump, false, offset, "lane %u counts %llu records, its ring ends with number %llu", number,
                    (unsigned long long)head, (unsigned long long)scan.newest);
}

void ring_release(const struct loaded *loaded, uint32_t number, uint64_t first, uint64_t last) {
    const struct dump_lane *lane = &loaded->dump.lanes[number];
    if (!loaded_is_mapped(loaded) || loaded->own_rings[number] || last <= first)
        return;
    const uintptr_t page = SECTION_ALIGN; /* a multiple of every page size */
    uintptr_t from = (uintptr_t)(lane->ring + first), to = (uintptr_t)(lane->ring + last);
    /* whatever else lies on these pages is read again when needed; the header's section keeps this inside the mapping
     */
    from &= ~(page - 1);
    to &= ~(page - 1);
    if (to > from)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

/* ---- cursor ------------------------------------------------------------------------------------------------------ */

/* Sits in front of the cursor's list of blocks. */
struct cursor_state {
    struct record copy;
    uint64_t release_from; /* slots before this one were given back */
    uint32_t blocks[];
};

static struct cursor_state *state_of(const struct record_cursor *cursor) {
    return (struct cursor_state *)((char *)cursor->blocks - offsetof(struct cursor_state, blocks));
}

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

static bool first_ticket_of(const struct trace_window_block *block, uint64_t *ticket) {
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
        if (is_lanes_block(block, cursor->lane) && first_ticket_of(block, &keys[count].ticket))
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
    struct cursor_state *state = malloc(sizeof *state + capacity * sizeof *state->blocks);
    if (!state)
        return false;
    state->release_from =
        lane < dump->lane_count ? dump->lanes[lane].first_ticket & (dump->lanes[lane].ring_records - 1) : 0;
    cursor->blocks = state->blocks;
    if (sort_blocks(cursor, capacity))
        return true;
    record_cursor_end(cursor);
    return false;
}

/* Copies a slot and checks that it held that ticket all the while: the writer may be alive. */
static const struct record *copy_record(struct cursor_state *state, const struct record *slot, uint64_t ticket) {
    if (__atomic_load_n(&slot->commit, __ATOMIC_ACQUIRE) != ticket + 1)
        return NULL;
    state->copy = *slot;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&slot->commit, __ATOMIC_RELAXED) == ticket + 1 ? &state->copy : NULL;
}

/* The next record kept in a window, from before the ring's oldest. */
static const struct record *next_in_windows(struct record_cursor *cursor, struct cursor_state *state) {
    const struct dump_lane *lane = &cursor->dump->lanes[cursor->lane];
    for (; cursor->block < cursor->block_count; cursor->block++, cursor->in_block = 0) {
        const struct trace_window_block *block = &cursor->dump->windows[cursor->blocks[cursor->block]];
        while (cursor->in_block < block_used(block)) {
            const struct record *slot = &block->records[cursor->in_block++];
            uint64_t commit = __atomic_load_n(&slot->commit, __ATOMIC_ACQUIRE);
            if (commit == 0 || commit - 1 < cursor->next_ticket ||
                (lane->end_ticket > 0 && commit - 1 >= lane->first_ticket))
                continue;
            const struct record *record = copy_record(state, slot, commit - 1);
            if (record) {
                cursor->next_ticket = commit;
                return record;
            }
        }
    }
    return NULL;
}

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
        const struct record *record = copy_record(state, &lane->ring[slot], ticket);
        if (record) {
            cursor->next_ticket = ticket + 1;
            return record;
        }
    }
    cursor->next_ticket = ticket;
    return NULL;
}

const struct record *record_cursor_next(struct record_cursor *cursor) {
    struct cursor_state *state = state_of(cursor);
    if (cursor->block < cursor->block_count) {
        const struct record *record = next_in_windows(cursor, state);
        if (record)
            return record;
    }
    return next_in_ring(cursor, state);
}

void record_cursor_end(struct record_cursor *cursor) {
    if (!cursor->blocks)
        return;
    ring_release(loaded_of(cursor->dump), cursor->lane, 0, cursor->dump->lanes[cursor->lane].ring_records);
    free(state_of(cursor));
    cursor->blocks = NULL;
}

/* ---- losses ---------------------------------------------------------------------------------- */

static uint64_t kept_in_windows(const struct dump *dump, uint32_t lane) {
    struct record_cursor cursor;
    if (dump->window_count == 0 || !record_cursor_begin(&cursor, dump, lane))
        return 0;
    uint64_t kept = 0;
    while (next_in_windows(&cursor, state_of(&cursor)))
        kept++;
    record_cursor_end(&cursor);
    return kept;
}

uint64_t dump_lane_written(const struct dump *dump, uint32_t number) {
    if (number >= dump->lane_count || !dump->lanes[number].state)
        return 0;
    const struct dump_lane *lane = &dump->lanes[number];
    uint64_t written = lane->state->head;
    /* a damaged head must not turn into records: it is at most a ring ahead of what was found */
    bool damaged = lane->ring && written > lane->end_ticket && written - lane->end_ticket > lane->ring_records;
    if (!lane->ring && !lane->operations)
        return 0;
    return damaged || written < lane->end_ticket ? lane->end_ticket : written;
}

uint64_t dump_lane_lost(const struct dump *dump, uint32_t number) {
    uint64_t written = dump_lane_written(dump, number);
    uint64_t there = written > 0 ? loaded_of(dump)->ring_valid[number] + kept_in_windows(dump, number) : 0;
    return written > there ? written - there : 0;
}

bool dump_records_complete(const struct dump *dump) {
    for (uint32_t lane = 0; lane < dump->lane_count; lane++)
        if (dump_lane_lost(dump, lane) != 0)
            return false;
    return true;
}
