/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/page_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct page_builder {
    struct dump_builder *dump;
    uint32_t lane;
    struct ring_page *pages, *page; /* all, and the one being filled */
    uint32_t count;
    uint64_t number;                                              /* of `page`, 0 before the first */
    uint64_t base;                                                /* of times, in force */
    struct record_template templates[PAGE_BUILDER_TEMPLATES + 1]; /* from 1 */
    uint32_t template_count;
};

struct page_builder *page_builder_new(struct dump_builder *dump, uint32_t lane, struct ring_page *pages,
                                      uint32_t count) {
    struct page_builder *builder = calloc(1, sizeof *builder);
    if (!builder) {
        fprintf(stderr, "page_builder: no memory\n");
        abort();
    }
    builder->dump = dump;
    builder->lane = lane;
    builder->pages = pages;
    builder->count = count;
    return builder;
}

void page_builder_free(struct page_builder *builder) {
    free(builder);
}

/* ---- templates ------------------------------------------------------------------------------- */

static struct record_template facts_of(const struct record *record) {
    struct record_template facts;
    memset(&facts, 0, sizeof facts);
    facts.bytes = record->bytes;
    facts.comm = record->comm;
    facts.peer = record->peer;
    facts.tag = record->tag;
    facts.stack = record->stack;
    facts.call = record->call;
    facts.flags = record->flags;
    facts.kind = record->kind;
    facts.dtype = record->dtype;
    facts.redop = record->redop;
    facts.result = record->result;
    return facts;
}

static uint16_t define_template(struct page_builder *builder, const struct record_template *facts) {
    struct template_definition *definition =
        dump_builder_define(builder->dump, DEFINITION_TEMPLATE, sizeof *definition);
    uint32_t number = ++builder->template_count;
    definition->lane = builder->lane;
    definition->number = number;
    definition->facts = builder->templates[number] = *facts;
    return (uint16_t)number;
}

/* The template of a record, with SLOT_EXPLICIT where the record has to say bytes, partner and tag; 0: none. */
static uint16_t template_of(struct page_builder *builder, const struct record_template *facts) {
    uint32_t variants = 0, alike = 0;
    for (uint32_t i = 1; i <= builder->template_count; i++) {
        struct record_template variant = builder->templates[i];
        if (!memcmp(&variant, facts, sizeof variant))
            return (uint16_t)i;
        variant.bytes = facts->bytes;
        variant.peer = facts->peer;
        variant.tag = facts->tag;
        if (!memcmp(&variant, facts, sizeof variant)) {
            variants++;
            alike = i;
        }
    }
    if (variants >= PAGE_BUILDER_VARIANTS)
        return (uint16_t)(alike | SLOT_EXPLICIT);
    return builder->template_count < PAGE_BUILDER_TEMPLATES && facts->kind ? define_template(builder, facts) : 0;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* A base that leaves room for records that ended a little earlier. */
static uint64_t base_for(uint64_t t1) {
    return t1 > 1u << 20 ? t1 - (1u << 20) : 0;
}

static void take_page(struct page_builder *builder, const struct record *record, uint64_t ticket) {
    struct ring_page *page = builder->page = &builder->pages[builder->number++ % builder->count];
    memset(page, 0, sizeof *page);
    page->lane = builder->lane;
    page->first_ticket = ticket;
    page->base_ticks = builder->base = base_for(record->t1);
    page->base_op = record->op - 0x8000u;
    page->number = builder->number;
}

static uint32_t pack_whole(struct ring_slot *slots, const struct record *record, const struct record_template *facts) {
    struct ring_slots_whole whole = {
        .t0 = record->t0, .op = record->op, .form = SLOT_WHOLE, .t1 = record->t1, .facts = *facts, .seq = record->seq};
    memcpy(slots, &whole, sizeof whole);
    return sizeof whole / sizeof *slots;
}

/* Packs the record behind those of the page, as if there were room. Returns how many slots it takes, and the base of
 * times for what follows. */
static uint32_t pack(const struct page_builder *builder, const struct record *record, uint16_t template,
                     struct ring_slot *slots, uint64_t *base) {
    const struct record_template facts = facts_of(record);
    uint32_t used = 0, distance = record->op - builder->page->base_op;
    uint64_t length = record->t1 - record->t0;
    *base = builder->base;
    if (!template || record->t1 < record->t0 || record->t1 > UINT64_MAX - UINT32_MAX ||
        (record->op && (distance == 0 || distance > UINT16_MAX)))
        return pack_whole(slots, record, &facts);
    if (record->t1 < *base || record->t1 - *base > UINT32_MAX || length > UINT32_MAX) {
        *base = base_for(record->t1);
        struct ring_slot_time time = {.base_ticks = *base, .length_high = (uint32_t)(length >> 32), .form = SLOT_TIME};
        memcpy(&slots[used++], &time, sizeof time);
    }
    slots[used++] = (struct ring_slot){.since = (uint32_t)(record->t1 - *base),
                                       .length = (uint32_t)length,
                                       .seq = record->seq,
                                       .op = (uint16_t)(record->op ? distance : 0),
                                       .template_number = template};
    if (template & SLOT_EXPLICIT) {
        struct ring_slot_explicit more = {.bytes = facts.bytes, .peer = facts.peer, .tag = facts.tag};
        memcpy(&slots[used++], &more, sizeof more);
    }
    return used;
}

void page_builder_add(struct page_builder *builder, const struct record *record, uint64_t ticket) {
    struct ring_slot slots[sizeof(struct ring_slots_whole) / sizeof(struct ring_slot)];
    const struct record_template facts = facts_of(record);
    uint16_t template = template_of(builder, &facts);
    uint64_t base;
    if (!builder->page)
        take_page(builder, record, ticket);
    uint32_t used = pack(builder, record, template, slots, &base);
    if (builder->page->used + used > RING_PAGE_SLOTS) {
        take_page(builder, record, ticket);
        used = pack(builder, record, template, slots, &base);
    }
    memcpy(&builder->page->slots[builder->page->used], slots, used * sizeof *slots);
    builder->page->used += used;
    builder->base = base;
}
