/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash table of operations.
 * Lives here: finding and adding, classes of sizes where there are too many.
 * Must not live here: what a transfer is.
 */
#include "analyzer/waits/transfers.h"

#include <stdlib.h>

#include "analyzer/base/ns.h"
#include "analyzer/base/grow.h"
#include "shim/format.h"

enum { ROWS_MOST = 1 << 14 }; /* more are put together in classes */

static bool same_key(const struct transfer *a, const struct transfer *b) {
    return a->communicator == b->communicator && a->call == b->call && a->device == b->device && a->bytes == b->bytes &&
           a->size_class == b->size_class;
}

static struct transfer *slot_of(struct transfer *slots, size_t size, const struct transfer *key) {
    uint64_t hash = mix(mix(key->communicator, (uint64_t)key->call << 2 | key->device), key->bytes);
    size_t at = (size_t)(hash >> 20) & (size - 1);
    while (slots[at].members > 0 && !same_key(&slots[at], key))
        at = (at + 1) & (size - 1);
    return &slots[at];
}

static bool grow(struct transfers *transfers) {
    size_t size = transfers->size ? 2 * transfers->size : 64;
    struct transfer *slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < transfers->size; i++)
        if (transfers->slots[i].members > 0)
            *slot_of(slots, size, &transfers->slots[i]) = transfers->slots[i];
    free(transfers->slots);
    transfers->slots = slots;
    transfers->size = size;
    return true;
}

static void put_in_class(struct transfer *one) {
    if (one->bytes == BYTES_UNKNOWN || one->size_class)
        return;
    one->bytes = one->bytes ? UINT64_C(1) << (63 - __builtin_clzll(one->bytes)) : 0;
    one->size_class = true;
}

static void coarsen(struct transfers *transfers) {
    struct transfers coarse = {.coarse = true, .no_memory = transfers->no_memory};
    for (size_t i = 0; i < transfers->size; i++)
        if (transfers->slots[i].members > 0)
            transfers_add(&coarse, &transfers->slots[i]);
    free(transfers->slots);
    *transfers = coarse;
}

void transfers_add(struct transfers *transfers, const struct transfer *one) {
    struct transfer key = *one;
    if (transfers->coarse)
        put_in_class(&key);
    if (2 * transfers->count >= transfers->size && !grow(transfers)) {
        transfers->no_memory = true;
        return;
    }
    struct transfer *row = slot_of(transfers->slots, transfers->size, &key);
    if (row->members == 0) {
        *row = key;
        transfers->count++;
        if (!transfers->coarse && transfers->count > ROWS_MOST)
            coarsen(transfers);
        return;
    }
    row->collectives += key.collectives;
    row->members += key.members;
    row->wait_ns = add_ns(row->wait_ns, key.wait_ns);
    row->transfer_ns = add_ns(row->transfer_ns, key.transfer_ns);
    row->completion_ns = add_ns(row->completion_ns, key.completion_ns);
    row->least_ns = key.least_ns < row->least_ns ? key.least_ns : row->least_ns;
    row->most_ns = key.most_ns > row->most_ns ? key.most_ns : row->most_ns;
}

void transfers_merge(struct transfers *into, const struct transfers *from) {
    if (from->coarse && !into->coarse)
        coarsen(into);
    for (size_t i = 0; i < from->size; i++)
        if (from->slots[i].members > 0)
            transfers_add(into, &from->slots[i]);
    into->no_memory |= from->no_memory;
}

void transfers_free(struct transfers *transfers) {
    free(transfers->slots);
    *transfers = (struct transfers){0};
}

static int compare_rows(const void *a, const void *b) {
    const struct transfer *left = a, *right = b;
    if (left->communicator != right->communicator)
        return left->communicator < right->communicator ? -1 : 1;
    if (left->call != right->call)
        return left->call < right->call ? -1 : 1;
    if (left->device != right->device)
        return left->device ? 1 : -1;
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

struct transfer *transfers_sorted(const struct transfers *transfers) {
    struct transfer *rows = transfers->count > 0 ? malloc(transfers->count * sizeof *rows) : NULL;
    size_t count = 0;
    for (size_t i = 0; rows && i < transfers->size; i++)
        if (transfers->slots[i].members > 0)
            rows[count++] = transfers->slots[i];
    if (rows)
        qsort(rows, count, sizeof *rows, compare_rows);
    return rows;
}
