/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of one lane: what its ring holds, reading single ones, what is missing.
 * Lives here: the commit rules of plain records, as a reader sees them.
 * Must not live here: pages of compact records (ring_pages.c), walking records in their order (record_cursor.c), what
 * a record means.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analyzer/load/private.h"
#include "analyzer/load/rows.h"

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
    uint32_t available = loaded->rings[number].available, records = lane->ring_records;
    if (loaded_is_mapped(loaded) && !loaded->mapping.sparse && !loaded->rings[number].own)
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
    if (scan.valid > 0)
        ring_found(loaded, number, offset, scan.oldest, scan.newest + 1, scan.valid);
}

void ring_found(struct loaded *loaded, uint32_t number, uint64_t offset, uint64_t first, uint64_t end, uint64_t valid) {
    struct dump_lane *lane = &loaded->dump.lanes[number];
    uint64_t head = lane->state->head;
    loaded->rings[number].valid = valid;
    lane->first_ticket = first;
    lane->end_ticket = end;
    lane->torn = end - first - valid;
    if (head > end && head - end > lane->ring_records)
        problem_add(&loaded->dump, false, offset, "lane %u counts %llu records, its ring ends with number %llu", number,
                    (unsigned long long)head, (unsigned long long)(end - 1));
}

void loaded_release(const struct loaded *loaded, const void *from, const void *to) {
    const uintptr_t page = SECTION_ALIGN; /* a multiple of every page size */
    if (!loaded_is_mapped(loaded))
        return;
    /* whatever else lies on these pages is read again when needed; the header's section keeps this inside the mapping
     */
    uintptr_t first = (uintptr_t)from & ~(page - 1), last = (uintptr_t)to & ~(page - 1);
    if (last > first)
        madvise((void *)first, last - first, MADV_DONTNEED);
}

void ring_release(const struct loaded *loaded, uint32_t number, uint64_t first, uint64_t last) {
    const struct dump_lane *lane = &loaded->dump.lanes[number];
    if (lane->ring && !loaded->rings[number].own)
        loaded_release(loaded, lane->ring + first, lane->ring + last);
}

/* ---- single records -------------------------------------------------------------------------- */

const struct record *ring_copy_record(struct record *copy, const struct record *slot, uint64_t ticket) {
    if (__atomic_load_n(&slot->commit, __ATOMIC_ACQUIRE) != ticket + 1)
        return NULL;
    *copy = *slot;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&slot->commit, __ATOMIC_RELAXED) == ticket + 1 ? copy : NULL;
}

void record_reader_begin(struct record_reader *reader, const struct dump *dump, uint32_t lane) {
    reader->dump = dump;
    reader->lane = lane;
    reader->count = 0;
}

const struct record *record_reader_at(struct record_reader *reader, uint64_t ticket) {
    const struct dump_lane *lane = &reader->dump->lanes[reader->lane];
    if (ticket < lane->first_ticket || ticket >= lane->end_ticket)
        return NULL;
    if (lane->ring)
        return ring_copy_record(reader->records, &lane->ring[ticket & (lane->ring_records - 1)], ticket);
    if (ticket < reader->first || ticket - reader->first >= reader->count)
        ring_pages_read(loaded_of(reader->dump)->rings[reader->lane].compact, ticket, reader);
    return ticket >= reader->first && ticket - reader->first < reader->count ? &reader->records[ticket - reader->first]
                                                                             : NULL;
}

/* ---- losses ---------------------------------------------------------------------------------- */

uint64_t dump_lane_written(const struct dump *dump, uint32_t number) {
    if (number >= dump->lane_count || !dump->lanes[number].state)
        return 0;
    const struct dump_lane *lane = &dump->lanes[number];
    uint64_t written = lane->state->head;
    /* a damaged head must not turn into records: it is at most a ring ahead of what was found */
    bool has_ring = lane->ring_records > 0;
    bool damaged = has_ring && written > lane->end_ticket && written - lane->end_ticket > lane->ring_records;
    if (!has_ring && !lane->operations)
        return 0;
    written = damaged || written < lane->end_ticket ? lane->end_ticket : written;
    return has_ring ? written + lane_shed_without_ticket(lane->state) : written;
}

uint64_t dump_lane_lost(const struct dump *dump, uint32_t number) {
    uint64_t written = dump_lane_written(dump, number);
    uint64_t there = written > 0 ? loaded_of(dump)->rings[number].valid + records_in_windows(dump, number) : 0;
    return written > there ? written - there : 0;
}

bool dump_records_complete(const struct dump *dump) {
    for (uint32_t lane = 0; lane < dump->lane_count; lane++)
        if (dump_lane_lost(dump, lane) != 0)
            return false;
    return true;
}
