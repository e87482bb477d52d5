/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing one record into a lane's ring. Lanes with a writer of their own have pages of compact records (format.h,
 * struct ring_page): what repeats is a template's number, times count from a base. The lane that threads share, and
 * the harvester's, have plain records.
 * Lives here: the forms of a record, the pages' and records' commit.
 * Must not live here: which lane a thread has (lanes.h), what windows keep (trace_windows.h).
 */
#ifndef COMMTAP_SHIM_RECORD_RING_H
#define COMMTAP_SHIM_RECORD_RING_H

#include <string.h>

#include "shim/record/recorder.h"
#include "shim/record/templates.h"

/* A base lies so far before the first time that counts from it: a record may have ended a little earlier than the one
 * before it (one that another thread saw complete). */
#define RING_BASE_MARGIN (1u << 26)

/* Pages for `records` of one slot each, all of them there while the next page is taken. */
static inline uint32_t ring_pages_for(uint32_t records) {
    return (records + RING_PAGE_SLOTS - 1) / RING_PAGE_SLOTS + 1;
}

/* Gives a lane its ring of plain records. */
void ring_begin_plain(struct lane *lane, struct record *records, uint32_t count);
/* A lane without a ring: its records go nowhere. */
void ring_begin_nothing(struct lane *lane);
/* Gives a lane its ring of pages; they are zeroed. False: no memory for its templates. */
bool ring_begin_pages(struct lane *lane, struct ring_page *pages, uint32_t count);

/* ---- plain records ----------------------------------------------------------------------------- */

/* Is there room for the record of that ticket? The ring grows by pages from its front; while its file is full only
 * those records are kept whose slots have room already. */
bool ring_make_room(struct lane *lane, uint64_t ticket);

/* Takes a slot of a shared ring; NULL when a slower thread is still writing it. */
struct record *ring_claim_shared(struct lane *lane, uint64_t *ticket);

/* Counts a record of a lane with one writer. */
static inline void ring_count(struct lane *lane, uint64_t head) {
    lane->head = head;
    __atomic_store_n(&lane->state->head, head, __ATOMIC_RELAXED);
}

/* The slot for the next record, marked as being written. NULL: there is none. */
static inline struct record *ring_begin(struct lane *lane, uint64_t *ticket) {
    if (unlikely(lane->shared)) {
        uint64_t claimed = 0; /* of its own: a caller's ticket whose address is known to nobody stays in a register */
        struct record *record = ring_claim_shared(lane, &claimed);
        *ticket = claimed;
        return record;
    }
    uint64_t next = lane->head;
    if (unlikely(next >= lane->room) && !ring_make_room(lane, next)) {
        ring_count(lane, next + 1); /* it has a ticket, and is lost */
        return NULL;
    }
    struct record *record = &lane->ring[next & lane->mask];
    if (next > lane->mask && unlikely(record->t0 >= lane->keep_from))
        trace_windows_keep(&recorder.trace_windows, &lane->trace_window, lane->clock, record, &lane->keep_from);
    __atomic_store_n(&record->commit, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    *ticket = next;
    return record;
}

/* Publishes it. */
static inline void ring_end(struct lane *lane, struct record *record, uint64_t ticket) {
    __atomic_store_n(&record->commit, ticket + 1, __ATOMIC_RELEASE);
    if (likely(!lane->shared))
        ring_count(lane, ticket + 1);
}

/* ---- any lane -------------------------------------------------------------------------------- */

/* What differs from record to record. */
struct record_moment {
    uint64_t t0, t1;
    uint32_t seq, op;
};

/* Where a record stands that may still be changed. */
struct record_place {
    uint64_t ticket;        /* UINT64_MAX: nowhere */
    struct ring_page *page; /* NULL: of a plain record */
    uint64_t number;
    struct ring_slots_whole *slots;
};

/* Begins a series with a poll from t0 to t1, or takes up work of the program's own between two polls of one. */
void ring_add_poll_rare(struct lane *lane, struct poll_series *series, const struct facts *facts, uint64_t t0,
                        uint64_t t1);

/* Counts `count` records that are left out for COMMTAP_BUDGET's sake, like the one before; that is all there is to do
 * with them. False: none is left out, or they begin a stretch of such. */
static ALWAYS_INLINE bool ring_leaves_out(struct lane *lane, uint32_t count) {
    if (!recorder.records_shed || lane->shed_to != lane->head + 1)
        return false;
    lane->state->records_shed += count;
    return true;
}

/* The series grows by that poll. False: it is for ring_add_poll_rare. */
static ALWAYS_INLINE bool ring_add_poll(struct lane *lane, struct poll_series *series, uint64_t t0, uint64_t t1) {
    uint64_t since = t1 - series->base, length = t1 - series->t0;
    if (unlikely(series->next != lane->head + 1 || t0 - series->left > recorder.poll_gap || (since | length) >> 32))
        return ring_leaves_out(lane, 0);   /* most make no record, and none is missed */
    series->slot->since = (uint32_t)since; /* between the two stores a reader sees it begin a little later */
    series->slot->length = (uint32_t)length;
    series->left = t1;
    return true;
}

/* Writes any record: plain rings, facts without a known template, longer forms, full pages; or leaves it out for
 * COMMTAP_BUDGET's sake. Returns the template, 0: there is none that alone says what it needs. `remembered`: the caller
 * has use for the template of one that was left out, too, so that the next ones are left out by ring_write_known. */
uint32_t ring_write_rare(struct lane *lane, const struct facts *facts, const struct record_moment *moment,
                         bool remembered);
/* The same of a record that ring_amend may change afterwards. */
struct record_place ring_write_amendable(struct lane *lane, const struct facts *facts,
                                         const struct record_moment *moment);
/* Changes a record that is still in the ring: gives it that tag (NULL: keeps it) and adds flags. By its writer. */
void ring_amend(struct lane *lane, const struct record_place *place, const int32_t *tag, uint16_t flags);

/* Writes a record whose facts are those of a template, in one slot; with `then`, another one behind it that differs in
 * its template alone. While records are left out there is no room, so that the way that is mostly taken need not ask.
 * False: there is no room, or they need more; each is then for ring_write_rare. */
static ALWAYS_INLINE bool ring_write_known(struct lane *lane, uint16_t template, const uint16_t *then, uint64_t t0,
                                           uint64_t t1, uint32_t seq, uint32_t op) {
    struct page_writer *p = &lane->pages;
    uint64_t since = t1 - p->base, length = t1 - t0;
    uint32_t used = p->used, distance = 0, count = then ? 2 : 1;
    if (unlikely((since | length) >> 32 || used + count > RING_PAGE_SLOTS))
        return ring_leaves_out(lane, count);
    if (op && unlikely((distance = op - p->base_op) - 1 >= UINT16_MAX))
        return false;
    struct ring_slot *slot = &p->page->slots[used];
    *slot = (struct ring_slot){.since = (uint32_t)since,
                               .length = (uint32_t)length,
                               .seq = seq,
                               .op = (uint16_t)distance,
                               .template_number = template};
    if (then)
        slot[1] = (struct ring_slot){.since = (uint32_t)since,
                                     .length = (uint32_t)length,
                                     .seq = seq,
                                     .op = (uint16_t)distance,
                                     .template_number = *then};
    p->used = used + count;
    __atomic_store_n(&p->page->used, used + count, __ATOMIC_RELEASE);
    lane->head += count; /* readers count the records of a page */
    return true;
}

/* Writes a record as readers see it, whatever is left out; its commit word is of no interest. */
void ring_add(struct lane *lane, const struct record *content);

/* Notes a mark of the job's: `level` as MPI_Pcontrol has it, 100 and above begin a step. */
void record_mark(struct thread *self, int32_t level);

#endif
