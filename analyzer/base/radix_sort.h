/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting many numbers.
 * Lives here: sorting by digits, which compares nothing: so many steps a number, however many there are.
 * Must not live here: what the numbers stand for.
 */
#ifndef COMMTAP_BASE_RADIX_SORT_H
#define COMMTAP_BASE_RADIX_SORT_H

#include <stddef.h>
#include <stdint.h>

/* A number, and which item it is of. */
struct sort_key {
    uint64_t value;
    uint32_t index;
};

/* Signed numbers as such that have the same order; and back. */
static inline uint64_t sort_value(int64_t number) {
    return (uint64_t)number ^ UINT64_C(1) << 63;
}
static inline int64_t sort_number(uint64_t value) {
    return (int64_t)(value ^ UINT64_C(1) << 63);
}

/* Sorts by value; equal ones stay in their order. `scratch` has room for as many. */
void radix_sort(struct sort_key *keys, struct sort_key *scratch, size_t count);

#endif
