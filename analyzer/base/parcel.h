/* SPDX-License-Identifier: Apache-2.0
 *
 * What one process has gathered, as bytes that another process of the same job takes up.
 * Lives here: packing and unpacking fields, arrays and hash tables. Must not live here: what is in them, sending.
 *
 * One function per kind of state does both, so that the two cannot differ:
 *
 *     void thing_parcel(struct thing *thing, struct parcel *parcel) {
 *         parcel_field(parcel, &thing->sum);
 *         parcel_list(parcel, thing->items, thing->count);
 *         parcel_table(parcel, &thing->rows, struct row);
 *     }
 *
 *     struct parcel sent = parcel_to_pack();                   here
 *     thing_parcel(&thing, &sent);
 *     parcel_seal(&sent);                                      ... sent.bytes, sent.size; parcel_free(&sent)
 *
 *     struct parcel got = parcel_to_unpack(bytes, size);       there, into a thing that has gathered nothing
 *     thing_parcel(&thing, &got);
 *     if (!parcel_is_used_up(&got)) ... it is damaged, or memory is short ...
 *
 * Both ends run the same program on machines of one type: numbers travel as they lie in memory. Pointers never do.
 * Bytes may have been cut short or damaged on their way: nothing is read beyond their end, no more is allocated than
 * they fill, and a checksum tells whether they are those that were packed. After a failure, which shows in `failed`,
 * nothing more is packed or unpacked, and what was to be unpacked stays as it was.
 */
#ifndef COMMTAP_BASE_PARCEL_H
#define COMMTAP_BASE_PARCEL_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash_table.h"

struct parcel {
    bool packs;           /* else it unpacks */
    bool failed;          /* memory is short, or the bytes are not those that were packed */
    unsigned char *bytes; /* packing: allocated; unpacking: the caller's, and only read */
    size_t size;
    unsigned part; /* that is in it of what travels in several, from 1; 0: all */
    /* private */
    size_t room; /* packing */
    size_t at;   /* unpacking: what has been read */
};

/* Empty. Ended by parcel_free. */
struct parcel parcel_to_pack(void);
/* After the last of what is packed: adds the checksum. */
void parcel_seal(struct parcel *parcel);
void parcel_free(struct parcel *parcel);

/* Of sealed bytes, which outlive it; needs no parcel_free. */
struct parcel parcel_to_unpack(const void *bytes, size_t size);
/* Whether everything that was packed has been unpacked, and nothing failed. */
bool parcel_is_used_up(const struct parcel *parcel);

/* Whether that part is in it. */
static inline bool parcel_has(const struct parcel *parcel, unsigned part) {
    return parcel->part == 0 || parcel->part == part;
}

/* So many bytes from there, or to there. */
void parcel_bytes(struct parcel *parcel, void *data, size_t size);

/* `count` items of an array that is there on both ends, which agree on the count. Those that are all zero travel as
 * their number alone. */
void parcel_items(struct parcel *parcel, void *items, size_t count, size_t item_bytes);

/* A bool, which is nothing else on the other end either. */
void parcel_flag(struct parcel *parcel, bool *flag);

/* Whether a part is there that not all states have: `there` when packing, else what it was then. */
bool parcel_is_there(struct parcel *parcel, bool there);

/* What parcel_list, parcel_array and parcel_table are made of. Unpacking, what is there is freed first. */
void *parcel_take_list(struct parcel *parcel, void *items, size_t *count, size_t item_bytes);
void parcel_take_table(struct parcel *parcel, struct hash_table *table, size_t key_bytes, size_t item_bytes);

/* A variable or member that is no bool and holds no pointer. */
#define parcel_field(parcel, field) parcel_bytes((parcel), (field), sizeof *(field))

/* An array as grow_list (grow.h) makes it: `items` and `count` are variables or members. */
#define parcel_list(parcel, items, count) ((items) = parcel_take_list((parcel), (items), &(count), sizeof *(items)))

/* The same as grow_by_one and grow_to make it. */
#define parcel_array(parcel, items, count, room)                                                                       \
    (parcel_list(parcel, items, count), (room) = (parcel)->packs ? (room) : grow_room_of_list(count))

/* A table of ITEM, whose keys are no texts: the items keep their order. */
#define parcel_table(parcel, table, ITEM) parcel_take_table((parcel), (table), sizeof(((ITEM *)0)->key), sizeof(ITEM))

#endif
