/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/parcel.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash.h"

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static uint64_t checksum(const unsigned char *bytes, size_t size) {
    uint64_t sum = hash_mix(UINT64_C(0x70617263656c), size), word;
    size_t at = 0;
    for (; size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        sum = hash_mix(sum, word);
    }
    for (; at < size; at++)
        sum = hash_mix(sum, bytes[at]);
    return sum;
}

struct parcel parcel_to_pack(void) {
    return (struct parcel){.packs = true};
}

void parcel_seal(struct parcel *parcel) {
    uint64_t sum = checksum(parcel->bytes, parcel->size);
    parcel_field(parcel, &sum);
}

void parcel_free(struct parcel *parcel) {
    free(parcel->bytes);
    *parcel = (struct parcel){.packs = true};
}

struct parcel parcel_to_unpack(const void *bytes, size_t size) {
    struct parcel parcel = {.bytes = (unsigned char *)bytes, .size = size};
    uint64_t sum = 0;
    parcel.failed = size < sizeof sum;
    if (!parcel.failed) {
        parcel.size -= sizeof sum;
        memcpy(&sum, parcel.bytes + parcel.size, sizeof sum);
        parcel.failed = sum != checksum(parcel.bytes, parcel.size);
    }
    return parcel;
}

bool parcel_is_used_up(const struct parcel *parcel) {
    return !parcel->failed && parcel->at == parcel->size;
}

/* ---- its parts --------------------------------------------------------------------------------------------------- */

void parcel_bytes(struct parcel *parcel, void *data, size_t size) {
    if (size == 0 || parcel->failed)
        return;
    if (parcel->packs) {
        size_t wanted;
        parcel->failed =
            __builtin_add_overflow(parcel->size, size, &wanted) || !grow_to(parcel->bytes, parcel->room, wanted);
        if (parcel->failed)
            return;
        memcpy(parcel->bytes + parcel->size, data, size);
        parcel->size = wanted;
        return;
    }
    parcel->failed = size > parcel->size - parcel->at;
    if (parcel->failed)
        return;
    memcpy(data, parcel->bytes + parcel->at, size);
    parcel->at += size;
}

void parcel_flag(struct parcel *parcel, bool *flag) {
    unsigned char value = parcel->packs && *flag;
    parcel_field(parcel, &value);
    if (value > 1)
        parcel->failed = true;
    if (!parcel->packs && !parcel->failed)
        *flag = value == 1;
}

bool parcel_is_there(struct parcel *parcel, bool there) {
    bool is = parcel->packs && there;
    parcel_flag(parcel, &is);
    return is;
}

/* Whether so many items, of which each fills at least a byte, can be there yet. */
static bool can_follow(struct parcel *parcel, size_t count, size_t item_bytes) {
    if (!parcel->failed && count > (parcel->size - parcel->at) / item_bytes)
        parcel->failed = true;
    return !parcel->failed;
}

static size_t zeros_at(const unsigned char *items, size_t from, size_t count, size_t item_bytes) {
    size_t to = from;
    while (to < count) {
        const unsigned char *item = items + to * item_bytes;
        if (item[0] != 0 || (item_bytes > 1 && memcmp(item, item + 1, item_bytes - 1) != 0))
            break;
        to++;
    }
    return to - from;
}

static size_t others_at(const unsigned char *items, size_t from, size_t count, size_t item_bytes) {
    size_t to = from;
    while (to < count && zeros_at(items, to, to + 1, item_bytes) == 0)
        to++;
    return to - from;
}

/* Runs: how many are zero, how many are not, and these. */
void parcel_items(struct parcel *parcel, void *items, size_t count, size_t item_bytes) {
    unsigned char *at = items;
    for (size_t i = 0; i < count && !parcel->failed;) {
        size_t run[2] = {0}; /* of zeros, of others */
        if (parcel->packs) {
            run[0] = zeros_at(at, i, count, item_bytes);
            run[1] = others_at(at, i + run[0], count, item_bytes);
        }
        parcel_field(parcel, &run);
        if (run[0] > count - i || run[1] > count - i - run[0] || run[0] + run[1] == 0)
            parcel->failed = true;
        if (parcel->failed)
            return;
        if (!parcel->packs && run[0] > 0)
            memset(at + i * item_bytes, 0, run[0] * item_bytes);
        parcel_bytes(parcel, at + (i + run[0]) * item_bytes, run[1] * item_bytes);
        i += run[0] + run[1];
    }
}

void *parcel_take_list(struct parcel *parcel, void *items, size_t *count, size_t item_bytes) {
    size_t number = parcel->packs ? *count : 0;
    parcel_field(parcel, &number);
    if (parcel->packs) {
        parcel_bytes(parcel, items, number * item_bytes);
        return items;
    }
    if (!can_follow(parcel, number, item_bytes))
        return items;
    size_t room = 0;
    void *taken = number > 0 ? grow_room(NULL, &room, number, item_bytes) : NULL;
    if (number > 0 && !taken) {
        parcel->failed = true;
        return items;
    }
    free(items);
    parcel_bytes(parcel, taken, number * item_bytes);
    *count = number;
    return taken;
}

void parcel_take_table(struct parcel *parcel, struct hash_table *table, size_t key_bytes, size_t item_bytes) {
    size_t number = parcel->packs ? table->count : 0;
    parcel_field(parcel, &number);
    if (parcel->packs) {
        parcel_bytes(parcel, table->items, number * item_bytes);
        return;
    }
    if (!can_follow(parcel, number, item_bytes))
        return;
    hash_table_free(table);
    for (size_t i = 0; i < number && !parcel->failed; i++, parcel->at += item_bytes) {
        const unsigned char *packed = parcel->bytes + parcel->at;
        void *item = hash_table_add(table, packed, key_bytes, item_bytes);
        parcel->failed = !item || table->count != i + 1;
        if (item)
            memcpy(item, packed, item_bytes);
    }
}
