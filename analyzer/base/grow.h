/* SPDX-License-Identifier: Apache-2.0
 *
 * What several gatherers need: arrays that grow, keys that are mixed.
 * Lives here: making room for one more item, a hash of several numbers.
 * Must not live here: tables.
 */
#ifndef COMMTAP_BASE_GROW_H
#define COMMTAP_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes sure that `items` (room for *room of `size` bytes each) can take one more than `count`. Returns false, and
 * leaves all as it was, when memory is short. */
static inline bool grow_for_one(void **items, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return true;
    size_t wanted = *room ? *room * 2 : 64;
    void *more = realloc(*items, wanted * size);
    if (!more)
        return false;
    *items = more;
    *room = wanted;
    return true;
}

/* Mixes one more number into a hash. */
static inline uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

#endif
