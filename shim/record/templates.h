/* SPDX-License-Identifier: Apache-2.0
 *
 * What repeats from record to record of a lane, under a number: compact records name it (format.h, record_template).
 * Lives here: the lane's table and finding a row in it. One writer, no locks.
 * Must not live here: the records themselves (ring.h).
 */
#ifndef COMMTAP_SHIM_RECORD_TEMPLATES_H
#define COMMTAP_SHIM_RECORD_TEMPLATES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "shim/base/os.h"
#include "shim/format.h"
#include "shim/record/definitions.h"

#define TEMPLATE_PLACES_LOG2 13u
#define TEMPLATE_PLACES      (1u << TEMPLATE_PLACES_LOG2) /* twice the rows: a search ends soon */
/* Rows that differ in bytes, peer and tag alone. A row takes 48 bytes of the dump and saves 16 in each record. A call
 * with ever new sizes or tags would fill the table without being met again: from so many on they stand in the record.
 */
#define TEMPLATE_VARIANTS 64u
/* Such variants leave the last quarter of the table to calls that differ in more. */
#define TEMPLATES_FOR_VARIANTS (TEMPLATES_MAX / 4 * 3)

/* A record_template as four words, to be compared and hashed. */
struct facts {
    uint64_t words[4];
};
_Static_assert(sizeof(struct facts) == sizeof(struct record_template), "a template's words");

struct templates {
    struct facts rows[TEMPLATES_MAX];      /* 0: none */
    uint16_t by_facts[TEMPLATE_PLACES];    /* numbers, by hash of all */
    uint16_t by_relation[TEMPLATE_PLACES]; /* of the first of each set of variants, by hash of what they share */
    uint16_t variants[TEMPLATES_MAX];      /* of a first one: how many there are besides */
    uint32_t count;                        /* rows in use, with row 0 */
    uint32_t limit;                        /* no further rows from here on */
    uint32_t lane;
    struct definitions *definitions;
};

/* An empty table, NULL: no memory. */
struct templates *templates_new(struct definitions *definitions, uint32_t lane);

/* The word of facts that begins at a field of 8-byte alignment. */
static ALWAYS_INLINE uint64_t facts_word(const void *field) {
    uint64_t word;
    memcpy(&word, field, sizeof word);
    return word;
}

static inline bool facts_equal(const struct facts *a, const struct facts *b) {
    return ((a->words[0] ^ b->words[0]) | (a->words[1] ^ b->words[1]) | (a->words[2] ^ b->words[2]) |
            (a->words[3] ^ b->words[3])) == 0;
}

static ALWAYS_INLINE uint64_t rotated(uint64_t word, unsigned bits) {
    return word << bits | word >> (64 - bits);
}

/* What differs most, the low bits of each field, meets at different bits before one multiplication. */
static inline uint32_t facts_place(const struct facts *f) {
    uint64_t mixed = f->words[0] ^ rotated(f->words[1], 13) ^ rotated(f->words[2], 29) ^ rotated(f->words[3], 47);
    return (uint32_t)(hash_spread(mixed ^ mixed >> 32) >> (64 - TEMPLATE_PLACES_LOG2));
}

/* The number of a row with these facts, made where it is missing; with SLOT_EXPLICIT, of one that differs in bytes,
 * peer and tag alone; 0: there is none, and no room for one. */
uint32_t template_find(struct templates *t, const struct facts *facts);

#endif
