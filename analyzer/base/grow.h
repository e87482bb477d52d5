/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays that grow: the one place where the analyzer makes room for items whose number it does not know beforehand.
 * Lives here: making room for one more item, or for several.
 * Must not live here: what the items are.
 *
 *     struct finding *items; size_t count, room;          used again and again, or filled by several at once
 *     if (!grow_by_one(items, count, room)) ... memory is short ...
 *     items[count++] = ...
 *
 *     char **paths; size_t path_count;                    filled once, from the first to the last: needs no room
 *     if (!grow_list(paths, path_count)) ... memory is short ...
 *     paths[path_count++] = ...
 *
 * Each returns false when memory is short or the bytes cannot be counted, and leaves all as it was then.
 */
#ifndef COMMTAP_BASE_GROW_H
#define COMMTAP_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

enum { GROW_FIRST = 4 }; /* items */

/* `items` with room for `wanted` of them, doubling *room until they fit; NULL when memory is short. */
static inline void *grow_room(void *items, size_t *room, size_t wanted, size_t item_bytes) {
    size_t larger = *room ? *room : GROW_FIRST, bytes;
    while (larger < wanted)
        if (__builtin_mul_overflow(larger, 2, &larger))
            return NULL;
    if (__builtin_mul_overflow(larger, item_bytes, &bytes))
        return NULL;
    void *moved = realloc(items, bytes);
    if (moved)
        *room = larger;
    return moved;
}

/* The room that a list of `count` items has when it has grown one by one: a power of two, at least GROW_FIRST. */
static inline size_t grow_room_of_list(size_t count) {
    size_t room = count ? GROW_FIRST : 0;
    while (room < count)
        room *= 2;
    return room;
}

/* Room for `wanted` items in all. */
#define grow_to(items, room, wanted)                                                                                   \
    ((wanted) <= (room) || __extension__({                                                                             \
         void *grown_ = grow_room((items), &(room), (wanted), sizeof *(items));                                        \
         if (grown_)                                                                                                   \
             (items) = grown_;                                                                                         \
         grown_ != NULL;                                                                                               \
     }))

/* Room for one more than `count`. */
#define grow_by_one(items, count, room) grow_to(items, room, (count) + (size_t)1)

/* Room for one more than `count`, where nothing but this has ever made room for the items. */
#define grow_list(items, count)                                                                                        \
    (((count) & ((count) - (size_t)1)) != 0 || __extension__({                                                         \
         size_t room_ = grow_room_of_list(count);                                                                      \
         grow_to(items, room_, (count) + (size_t)1);                                                                   \
     }))

#endif
