/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/templates.h"

struct templates *templates_new(struct definitions *definitions, uint32_t lane) {
    struct templates *t = os_memory(sizeof *t);
    if (!t)
        return NULL;
    t->count = 1;
    t->limit = TEMPLATES_MAX;
    t->lane = lane;
    t->definitions = definitions;
    return t;
}

/* What variants of one call share: all but bytes, peer and tag. */
static struct facts relation_of(const struct facts *facts) {
    struct record_template row;
    struct facts relation;
    memcpy(&row, facts, sizeof row);
    row.bytes = 0;
    row.peer = 0;
    row.tag = 0;
    memcpy(&relation, &row, sizeof relation);
    return relation;
}

/* The place of these facts, or the free one where they belong. */
static uint32_t search(const struct templates *t, const struct facts *facts) {
    uint32_t place = facts_place(facts);
    while (t->by_facts[place] && !facts_equal(&t->rows[t->by_facts[place]], facts))
        place = (place + 1) % TEMPLATE_PLACES;
    return place;
}

static uint32_t search_relation(const struct templates *t, const struct facts *relation) {
    uint32_t place = facts_place(relation);
    for (; t->by_relation[place]; place = (place + 1) % TEMPLATE_PLACES) {
        struct facts other = relation_of(&t->rows[t->by_relation[place]]);
        if (facts_equal(&other, relation))
            break;
    }
    return place;
}

/* Writes a row into the dump and the table: whole there before any record names it. */
static uint32_t add(struct templates *t, const struct facts *facts) {
    struct template_definition *d = definitions_reserve(t->definitions, sizeof *d);
    if (!d) { /* asking again would count it as lost again */
        t->limit = t->count;
        return 0;
    }
    uint32_t number = t->count++;
    d->lane = t->lane;
    d->number = number;
    memcpy(&d->facts, facts, sizeof d->facts);
    definitions_commit(d, DEFINITION_TEMPLATE);
    t->rows[number] = *facts;
    return number;
}

uint32_t template_find(struct templates *t, const struct facts *facts) {
    uint32_t place = search(t, facts);
    if (t->by_facts[place])
        return t->by_facts[place];
    struct facts relation = relation_of(facts);
    uint32_t related = search_relation(t, &relation), first = t->by_relation[related];
    uint32_t limit = first && t->limit > TEMPLATES_FOR_VARIANTS ? TEMPLATES_FOR_VARIANTS : t->limit;
    bool has_room = t->count < limit && (!first || t->variants[first] + 1u < TEMPLATE_VARIANTS);
    uint32_t number = has_room ? add(t, facts) : 0;
    if (!number)
        return first ? first | SLOT_EXPLICIT : 0;
    t->by_facts[place] = (uint16_t)number;
    if (first)
        t->variants[first]++;
    else
        t->by_relation[related] = (uint16_t)number;
    return number;
}
