/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/radix_sort.h"

#include <string.h>

enum {
    FEW = 32, /* are brought to their places one by one */
    MANY = 4096,
    BITS_OF_SOME = 8,  /* of a digit: each pass also goes through all digits there can be ... */
    BITS_OF_MANY = 11, /* ... which must fit into the cache beside what is sorted */
};

static void insert_each(struct sort_key *keys, size_t count) {
    for (size_t i = 1; i < count; i++) {
        struct sort_key key = keys[i];
        size_t at = i;
        for (; at > 0 && keys[at - 1].value > key.value; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
}

/* Bits in which not all are alike. */
static uint64_t differing_bits(const struct sort_key *keys, size_t count) {
    uint64_t all = UINT64_MAX, any = 0;
    for (size_t i = 0; i < count; i++) {
        all &= keys[i].value;
        any |= keys[i].value;
    }
    return all ^ any;
}

static void sort_by_digit(struct sort_key *to, const struct sort_key *from, size_t count, unsigned shift,
                          unsigned bits) {
    size_t starts[1 << BITS_OF_MANY], digits = (size_t)1 << bits, at = 0;
    memset(starts, 0, digits * sizeof *starts);
    for (size_t i = 0; i < count; i++)
        starts[from[i].value >> shift & (digits - 1)]++;
    for (size_t d = 0; d < digits; d++) {
        size_t these = starts[d];
        starts[d] = at;
        at += these;
    }
    for (size_t i = 0; i < count; i++)
        to[starts[from[i].value >> shift & (digits - 1)]++] = from[i];
}

void radix_sort(struct sort_key *keys, struct sort_key *scratch, size_t count) {
    unsigned bits = count < MANY ? BITS_OF_SOME : BITS_OF_MANY;
    struct sort_key *from = keys, *to = scratch;
    if (count <= FEW) {
        insert_each(keys, count);
        return;
    }
    uint64_t differing = differing_bits(keys, count);
    for (unsigned shift = 0; shift < 64; shift += bits) {
        if ((differing >> shift & ((UINT64_C(1) << bits) - 1)) == 0)
            continue;
        sort_by_digit(to, from, count, shift, bits);
        struct sort_key *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != keys)
        memcpy(keys, from, count * sizeof *keys);
}
