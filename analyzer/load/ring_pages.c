/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane's ring of compact pages: which of them can be read, and what their slots refer to.
 * Lives here: the order of pages, the lane's templates.
 * Must not live here: what is in a page (ring_page.c).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/load/private.h"

struct compact_ring *compact_ring_of(struct loaded *loaded, uint32_t lane) {
    if (!loaded->rings[lane].compact)
        loaded->rings[lane].compact = calloc(1, sizeof *loaded->rings[lane].compact);
    return loaded->rings[lane].compact;
}

void compact_ring_free(struct compact_ring *ring) {
    if (!ring)
        return;
    free(ring->entries);
    free(ring->templates.rows);
    free(ring);
}

/* ---- templates ------------------------------------------------------------------------------- */

bool template_add(struct loaded *loaded, const struct template_definition *definition, uint64_t offset) {
    struct dump *dump = &loaded->dump;
    if (definition->lane >= DUMP_LANES_MAX || definition->number == 0 || definition->number >= TEMPLATES_MAX ||
        definition->facts.kind == 0) {
        problem_add(dump, false, offset, "template %u of lane %u: ignored", definition->number, definition->lane);
        return true;
    }
    struct compact_ring *ring = compact_ring_of(loaded, definition->lane);
    if (!ring)
        return false;
    struct lane_templates *templates = &ring->templates;
    if (definition->number >= templates->count) {
        size_t room = templates->count, before = room;
        if (!grow_to(templates->rows, room, (size_t)definition->number + 1))
            return false;
        memset(templates->rows + before, 0, (room - before) * sizeof *templates->rows);
        templates->count = room;
    }
    struct record_template *row = &templates->rows[definition->number];
    if (row->kind != 0)
        problem_add(dump, false, offset, "template %u of lane %u is defined twice: the first counts",
                    definition->number, definition->lane);
    else
        *row = definition->facts;
    return true;
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* Counts a page's records. Of one that is damaged what lies before the damage is used. */
static uint32_t count_records(struct loaded *loaded, uint32_t lane, const struct ring_page *page, uint64_t offset,
                              struct page_walk *walk) {
    uint32_t records = 0;
    while (page_walk_next(walk))
        records++;
    const struct losses *losses = &loaded->dump.header->losses;
    bool templates_lost = losses->tables_in_memory > 0 || losses->definitions_full > 0; /* for want of room */
    if (walk->damage && !(walk->is_undefined && templates_lost))
        problem_add(&loaded->dump, false, offset + offsetof(struct ring_page, slots) + walk->slot * sizeof *page->slots,
                    "ring of lane %u: %s: what follows on its page is left out", lane, walk->damage);
    return records;
}

/* Looks at every page that is in use. Returns how many are not this lane's. */
static size_t list_pages(struct loaded *loaded, uint32_t lane, struct compact_ring *ring, uint64_t offset) {
    size_t wrong = 0;
    for (uint32_t i = 0; i < ring->page_count; i++) {
        const struct ring_page *page = &ring->pages[i];
        struct page_walk walk;
        if (!page_walk_begin(&walk, page, &ring->templates))
            continue;
        struct page_entry entry = {.number = walk.number, .first_ticket = walk.ticket, .page = i};
        if (page->lane != lane || walk.ticket > UINT64_MAX / 2) {
            wrong++;
            continue;
        }
        entry.records = count_records(loaded, lane, page, offset + i * sizeof *page, &walk);
        if (entry.records > 0)
            ring->entries[ring->entry_count++] = entry;
    }
    return wrong;
}

static int newest_first(const void *a, const void *b) {
    const struct page_entry *left = a, *right = b;
    if (left->number != right->number)
        return left->number > right->number ? -1 : 1;
    return left->page < right->page ? -1 : left->page > right->page;
}

/* A writer's head follows its newest record closely: pages that begin far above it are damaged, unless it is the head
 * that is. Returns how many are left out. */
static size_t drop_beyond(struct compact_ring *ring, uint64_t head) {
    size_t kept = 0, below = 0;
    for (size_t i = 0; i < ring->entry_count; i++)
        below += ring->entries[i].first_ticket <= head;
    if (head == 0 || below * 2 < ring->entry_count)
        return 0;
    for (size_t i = 0; i < ring->entry_count; i++)
        if (ring->entries[i].first_ticket <= head)
            ring->entries[kept++] = ring->entries[i];
    size_t dropped = ring->entry_count - kept;
    ring->entry_count = kept;
    return dropped;
}

/* Pages follow each other by number and by ticket, and there are no more of them than the ring has room for. Entries
 * come newest first and leave oldest first. Returns how many are left out. */
static size_t put_in_order(struct compact_ring *ring, uint32_t pages) {
    struct page_entry *entries = ring->entries;
    size_t kept = 0, count = ring->entry_count;
    for (size_t i = 0; i < count; i++) {
        const struct page_entry *next = kept > 0 ? &entries[kept - 1] : NULL;
        if (!next || (entries[i].number < next->number && entries[0].number - entries[i].number < pages &&
                      entries[i].first_ticket + entries[i].records <= next->first_ticket))
            entries[kept++] = entries[i];
    }
    for (size_t i = 0; i < kept / 2; i++) {
        struct page_entry other = entries[i];
        entries[i] = entries[kept - 1 - i];
        entries[kept - 1 - i] = other;
    }
    ring->entry_count = kept;
    return count - kept;
}

bool ring_pages_scan(struct loaded *loaded, uint32_t number, uint64_t offset) {
    struct compact_ring *ring = loaded->rings[number].compact;
    struct dump_lane *lane = &loaded->dump.lanes[number];
    ring->entries = calloc(ring->page_count, sizeof *ring->entries);
    if (!ring->entries)
        return false;
    size_t wrong = list_pages(loaded, number, ring, offset);
    qsort(ring->entries, ring->entry_count, sizeof *ring->entries, newest_first);
    wrong += drop_beyond(ring, lane->state->head);
    wrong += put_in_order(ring, lane->ring_records / RING_PAGE_SLOTS);
    if (wrong > 0)
        problem_add(&loaded->dump, false, offset, "ring of lane %u: %zu pages that do not belong there are left out",
                    number, wrong);
    loaded_release(loaded, ring->pages, ring->pages + ring->page_count);
    if (ring->entry_count == 0)
        return true;
    const struct page_entry *last = &ring->entries[ring->entry_count - 1];
    uint64_t valid = 0;
    for (size_t i = 0; i < ring->entry_count; i++)
        valid += ring->entries[i].records;
    ring_found(loaded, number, offset, ring->entries[0].first_ticket, last->first_ticket + last->records, valid);
    return true;
}

/* ---- single records -------------------------------------------------------------------------- */

/* The last page that begins at or before a ticket. */
static const struct page_entry *entry_before(const struct compact_ring *ring, uint64_t ticket) {
    size_t low = 0, high = ring->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ring->entries[middle].first_ticket <= ticket)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &ring->entries[low - 1] : NULL;
}

void ring_pages_read(const struct compact_ring *ring, uint64_t ticket, struct record_reader *reader) {
    const struct page_entry *entry = entry_before(ring, ticket);
    struct page_walk walk;
    reader->count = 0;
    if (!entry || !page_walk_begin(&walk, &ring->pages[entry->page], &ring->templates) ||
        walk.number != entry->number || walk.ticket != entry->first_ticket)
        return;
    reader->first = entry->first_ticket;
    for (const struct record *record; reader->count < entry->records && (record = page_walk_next(&walk));)
        reader->records[reader->count++] = *record;
}
