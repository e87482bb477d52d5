/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash table of the analyzer: items by key, in the order in which they came.
 * Lives here: finding, adding, taking out, growing.
 * Must not live here: what the items are.
 *
 * The items lie side by side in an array, each begins with its key. Beside them lies an array of places (open
 * addressing, at most half of them taken) with the items' hashes and numbers. The seed of the hash is random, so that
 * a hostile file cannot prepare keys that collide; whoever walks the items sees them in the order in which they were
 * added, whatever the seed is.
 *
 *     struct link_key { uint32_t from, to; };
 *     struct link { struct link_key key; uint64_t bytes; };
 *     HASH_TABLE_OF(links, struct link, struct link_key);
 *
 *     struct hash_table table = {0};
 *     struct link *link = links_add(&table, &(struct link_key){from, to});
 *     if (!link) ... memory is short ...
 *     link->bytes += bytes;
 *     for (size_t i = 0; i < table.count; i++) ... links_items(&table)[i] ...
 *     hash_table_free(&table);
 */
#ifndef COMMTAP_BASE_HASH_TABLE_H
#define COMMTAP_BASE_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "analyzer/base/hash.h"

#define HASH_TABLE_MOST ((size_t)1 << 31) /* items: 32 bits of the hash then still tell all places apart */

/* All zero is an empty table. */
struct hash_table {
    void *items;
    size_t count; /* of items */
    /* private */
    uint64_t *places; /* upper half: hash, lower half: number of the item + 1; 0: free */
    size_t size;      /* of places: twice the room for items, a power of two */
    struct hash_seed seed;
};

void hash_table_free(struct hash_table *table);

/* Takes all items out and keeps the room. */
void hash_table_clear(struct hash_table *table);

/* How many places there are after the next growth; 0 when there may not be more. */
static inline size_t hash_table_next_size(size_t size) {
    enum { SIZE_FIRST = 32 };
    return size == 0 ? SIZE_FIRST : size <= HASH_TABLE_MOST ? 2 * size : 0;
}

/* Doubles the room. Returns false, and leaves all as it was, when memory is short or HASH_TABLE_MOST is reached. */
bool hash_table_grow(struct hash_table *table, size_t item_bytes);

/* ---- what HASH_TABLE_OF is made of: the sizes are constants there ----------------------------------------------- */

/* Where key_bytes is 0 a key is a text, and an item begins with a pointer to it. */
static inline uint32_t hash_table_hash(const struct hash_table *table, const void *key, size_t key_bytes) {
    return (uint32_t)hash_keyed(&table->seed, key, key_bytes ? key_bytes : strlen(key));
}

static inline bool hash_table_is(const void *item, const void *key, size_t key_bytes) {
    return key_bytes ? memcmp(item, key, key_bytes) == 0 : strcmp(*(const char *const *)item, key) == 0;
}

static inline void *hash_table_item(const struct hash_table *table, uint64_t place, size_t item_bytes) {
    return (char *)table->items + ((place & UINT32_MAX) - 1) * item_bytes;
}

/* The place of the key, or the free one where it would be. The table has places. */
static inline size_t hash_table_place(const struct hash_table *table, const void *key, size_t key_bytes,
                                      size_t item_bytes, uint32_t hash) {
    size_t at = hash & (table->size - 1);
    while (table->places[at] != 0 &&
           (table->places[at] >> 32 != hash ||
            !hash_table_is(hash_table_item(table, table->places[at], item_bytes), key, key_bytes)))
        at = (at + 1) & (table->size - 1);
    return at;
}

static inline void *hash_table_find(const struct hash_table *table, const void *key, size_t key_bytes,
                                    size_t item_bytes) {
    if (table->count == 0)
        return NULL;
    size_t at = hash_table_place(table, key, key_bytes, item_bytes, hash_table_hash(table, key, key_bytes));
    return table->places[at] ? hash_table_item(table, table->places[at], item_bytes) : NULL;
}

static inline void *hash_table_add(struct hash_table *table, const void *key, size_t key_bytes, size_t item_bytes) {
    if (table->size == 0 && !hash_table_grow(table, item_bytes))
        return NULL;
    uint32_t hash = hash_table_hash(table, key, key_bytes);
    size_t at = hash_table_place(table, key, key_bytes, item_bytes, hash);
    if (table->places[at] != 0)
        return hash_table_item(table, table->places[at], item_bytes);
    if (table->count == table->size / 2) {
        if (!hash_table_grow(table, item_bytes))
            return NULL;
        at = hash_table_place(table, key, key_bytes, item_bytes, hash);
    }
    table->places[at] = (uint64_t)hash << 32 | ++table->count;
    void *item = hash_table_item(table, table->places[at], item_bytes);
    memset(item, 0, item_bytes);
    if (key_bytes)
        memcpy(item, key, key_bytes);
    else
        *(const char **)item = key;
    return item;
}

/* Frees the place of an item and moves up what was pushed on behind it. */
static inline void hash_table_take_out(struct hash_table *table, size_t hole) {
    size_t mask = table->size - 1;
    for (size_t i = (hole + 1) & mask; table->places[i] != 0; i = (i + 1) & mask) {
        size_t home = (table->places[i] >> 32) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            table->places[hole] = table->places[i];
            hole = i;
        }
    }
    table->places[hole] = 0;
}

static inline void hash_table_remove(struct hash_table *table, const void *key, size_t key_bytes, size_t item_bytes) {
    if (table->count == 0)
        return;
    size_t at = hash_table_place(table, key, key_bytes, item_bytes, hash_table_hash(table, key, key_bytes));
    if (table->places[at] == 0)
        return;
    uint64_t number = table->places[at] & UINT32_MAX;
    if (number < table->count) { /* the last one takes its room */
        const void *last = hash_table_item(table, table->count, item_bytes);
        const void *of_last = key_bytes ? last : *(const char *const *)last;
        uint32_t hash = hash_table_hash(table, of_last, key_bytes);
        size_t last_at = hash_table_place(table, of_last, key_bytes, item_bytes, hash);
        memcpy(hash_table_item(table, number, item_bytes), last, item_bytes);
        table->places[last_at] = (uint64_t)hash << 32 | number;
    }
    hash_table_take_out(table, at);
    table->count--;
}

/* ---- typed ------------------------------------------------------------------------------------------------------- */

/* For tables of ITEM, which begins with `KEY key`, as functions NAME_...:
 *     items   all of them, `count` of the table
 *     find    the item of a key, NULL where there is none
 *     add     the same; a new one is all zero but for its key. NULL when memory is short or the table is full.
 *     remove  takes the item out, if it is there; the last one comes in its place
 * A pointer to an item holds until the next item is added or removed. Keys are compared byte by byte: KEY must have no
 * padding. */
#define HASH_TABLE_OF(NAME, ITEM, KEY)                                                                                 \
    _Static_assert(offsetof(ITEM, key) == 0 && sizeof(((ITEM *)0)->key) == sizeof(KEY),                                \
                   "items begin with their keys");                                                                     \
    HASH_TABLE_FUNCTIONS(NAME, ITEM, KEY, sizeof(KEY))

/* The same for items that begin with `const char *key`, a text that outlives the table. */
#define HASH_TABLE_OF_TEXTS(NAME, ITEM)                                                                                \
    _Static_assert(offsetof(ITEM, key) == 0, "items begin with their keys");                                           \
    HASH_TABLE_FUNCTIONS(NAME, ITEM, char, 0)

#define HASH_TABLE_FUNCTIONS(NAME, ITEM, KEY, KEY_BYTES)                                                               \
    __attribute__((unused)) static inline ITEM *NAME##_items(const struct hash_table *table) {                         \
        return table->items;                                                                                           \
    }                                                                                                                  \
    __attribute__((unused)) static inline ITEM *NAME##_find(const struct hash_table *table, const KEY *key) {          \
        return hash_table_find(table, key, KEY_BYTES, sizeof(ITEM));                                                   \
    }                                                                                                                  \
    __attribute__((unused)) static inline ITEM *NAME##_add(struct hash_table *table, const KEY *key) {                 \
        return hash_table_add(table, key, KEY_BYTES, sizeof(ITEM));                                                    \
    }                                                                                                                  \
    __attribute__((unused)) static inline void NAME##_remove(struct hash_table *table, const KEY *key) {               \
        hash_table_remove(table, key, KEY_BYTES, sizeof(ITEM));                                                        \
    }                                                                                                                  \
    _Static_assert(sizeof(ITEM) > 0, "takes the semicolon")

#endif
