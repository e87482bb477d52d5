/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/hash_table.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

/* Where the kernel has no random numbers to give, an address and the time are still not known to who wrote a dump. */
static struct hash_seed new_seed(const struct hash_table *table) {
    struct hash_seed seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == sizeof seed)
        return seed;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (struct hash_seed){{(uintptr_t)table, hash_scramble((uint64_t)now.tv_nsec)}};
}

void hash_table_free(struct hash_table *table) {
    free(table->items);
    free(table->places);
    *table = (struct hash_table){0};
}

void hash_table_clear(struct hash_table *table) {
    if (table->count > 0)
        memset(table->places, 0, table->size * sizeof *table->places);
    table->count = 0;
}

bool hash_table_grow(struct hash_table *table, size_t item_bytes) {
    size_t size = hash_table_next_size(table->size), bytes;
    if (size == 0 || __builtin_mul_overflow(size / 2, item_bytes, &bytes))
        return false;
    uint64_t *places = calloc(size, sizeof *places);
    void *items = places ? realloc(table->items, bytes) : NULL;
    if (!items) {
        free(places);
        return false;
    }
    if (table->size == 0)
        table->seed = new_seed(table);
    for (size_t i = 0; i < table->size; i++) {
        if (table->places[i] == 0)
            continue;
        size_t at = (table->places[i] >> 32) & (size - 1);
        while (places[at] != 0)
            at = (at + 1) & (size - 1);
        places[at] = table->places[i];
    }
    free(table->places);
    table->items = items;
    table->places = places;
    table->size = size;
    return true;
}
