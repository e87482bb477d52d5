/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/load/ring_page.h"

#include <string.h>

/* Taken anew since the walk began, by a writer that is alive: what was copied may be of two pages. */
static bool is_another_now(const struct page_walk *walk) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&walk->page->number, __ATOMIC_RELAXED) != walk->number ||
           __atomic_load_n(&walk->page->window, __ATOMIC_RELAXED) != walk->window;
}

bool page_walk_begin(struct page_walk *walk, const struct ring_page *page, const struct lane_templates *templates) {
    *walk = (struct page_walk){.page = page, .templates = templates};
    walk->window = __atomic_load_n(&page->window, __ATOMIC_ACQUIRE);
    walk->number = __atomic_load_n(&page->number, __ATOMIC_ACQUIRE);
    walk->used = __atomic_load_n(&page->used, __ATOMIC_ACQUIRE);
    walk->ticket = page->first_ticket;
    walk->base = page->base_ticks;
    walk->base_op = page->base_op;
    if (walk->number == 0 || is_another_now(walk))
        return false;
    if (walk->used > RING_PAGE_SLOTS) {
        walk->damage = "more slots than a page has";
        walk->used = 0;
    }
    return true;
}

/* Copies `count` slots from the walk's place on. */
static bool copy_slots(struct page_walk *walk, void *to, uint32_t count) {
    if (walk->used - walk->slot < count) {
        walk->damage = "a record that goes beyond the slots in use";
        return false;
    }
    memcpy(to, &walk->page->slots[walk->slot], count * sizeof walk->page->slots[0]);
    return true;
}

/* Takes over a new base for this record and those after it. */
static bool take_base(struct page_walk *walk, const struct ring_slot *slot, uint32_t *length_high) {
    struct ring_slot_time time;
    memcpy(&time, slot, sizeof time);
    if (time.base_ticks > UINT64_MAX - UINT32_MAX) {
        walk->damage = "a base of times beyond any clock";
        return false;
    }
    walk->base = time.base_ticks;
    *length_high = time.length_high;
    return true;
}

static void take_facts(struct record *record, const struct record_template *facts) {
    record->bytes = facts->bytes;
    record->comm = facts->comm;
    record->peer = facts->peer;
    record->tag = facts->tag;
    record->stack = facts->stack;
    record->call = facts->call;
    record->flags = facts->flags;
    record->kind = facts->kind;
    record->dtype = facts->dtype;
    record->redop = facts->redop;
    record->result = facts->result;
}

static bool take_whole(struct page_walk *walk) {
    struct ring_slots_whole whole;
    if (!copy_slots(walk, &whole, sizeof whole / sizeof(struct ring_slot)))
        return false;
    walk->record = (struct record){.t0 = whole.t0, .t1 = whole.t1, .seq = whole.seq, .op = whole.op};
    take_facts(&walk->record, &whole.facts);
    walk->slot += sizeof whole / sizeof(struct ring_slot);
    return true;
}

/* Takes the template's facts, and those in a slot of their own. */
static bool take_template(struct page_walk *walk, uint16_t number) {
    struct ring_slot_explicit more;
    uint16_t row = number & (uint16_t)~SLOT_EXPLICIT;
    if (row >= walk->templates->count || walk->templates->rows[row].kind == 0) {
        walk->damage = "a template that is not defined";
        walk->is_undefined = true;
        return false;
    }
    take_facts(&walk->record, &walk->templates->rows[row]);
    if (!(number & SLOT_EXPLICIT))
        return true;
    if (!copy_slots(walk, &more, 1))
        return false;
    walk->record.bytes = more.bytes;
    walk->record.peer = more.peer;
    walk->record.tag = more.tag;
    walk->slot++;
    return true;
}

/* The record that begins with `slot`, which has been copied. */
static bool take_record(struct page_walk *walk, const struct ring_slot *slot, uint32_t length_high) {
    uint64_t t1 = walk->base + slot->since, length = (uint64_t)length_high << 32 | slot->length;
    if (t1 < walk->base || length > t1) {
        walk->damage = "a time before the clock's beginning";
        return false;
    }
    walk->record =
        (struct record){.t0 = t1 - length, .t1 = t1, .seq = slot->seq, .op = slot->op ? walk->base_op + slot->op : 0};
    walk->slot++;
    return take_template(walk, slot->template_number);
}

static bool read_record(struct page_walk *walk) {
    struct ring_slot slot;
    uint32_t length_high = 0;
    if (!copy_slots(walk, &slot, 1))
        return false;
    if (slot.template_number == SLOT_WHOLE)
        return take_whole(walk);
    if (slot.template_number == SLOT_TIME) {
        walk->slot++;
        if (!take_base(walk, &slot, &length_high) || !copy_slots(walk, &slot, 1))
            return false;
    }
    return take_record(walk, &slot, length_high);
}

const struct record *page_walk_next(struct page_walk *walk) {
    if (walk->damage || walk->slot == walk->used)
        return NULL;
    uint32_t begin = walk->slot;
    bool whole = read_record(walk);
    if (is_another_now(walk)) {
        walk->damage = NULL;
        walk->slot = walk->used;
        return NULL;
    }
    if (!whole) {
        walk->slot = begin;
        return NULL;
    }
    walk->record.commit = ++walk->ticket;
    return &walk->record;
}
