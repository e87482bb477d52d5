/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of operations by what they are.
 * Lives here: finding and adding, classes of sizes where there are too many.
 * Must not live here: what a transfer is.
 */
#include "analyzer/waits/transfers.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/ns.h"
#include "shim/format.h"

enum { ROWS_MOST = 1 << 14 }; /* more are put together in classes */

static void put_in_class(struct transfer_key *key) {
    if (key->bytes == BYTES_UNKNOWN || key->size_class)
        return;
    key->bytes = key->bytes ? UINT64_C(1) << (63 - __builtin_clzll(key->bytes)) : 0;
    key->size_class = true;
}

static void coarsen(struct transfers *transfers) {
    struct transfers coarse = {.coarse = true, .no_memory = transfers->no_memory};
    for (size_t i = 0; i < transfers->rows.count; i++)
        transfers_add(&coarse, &transfer_rows_items(&transfers->rows)[i]);
    hash_table_free(&transfers->rows);
    *transfers = coarse;
}

void transfers_add(struct transfers *transfers, const struct transfer *one) {
    struct transfer_key key = one->key;
    if (transfers->coarse)
        put_in_class(&key);
    struct transfer *row = transfer_rows_add(&transfers->rows, &key);
    if (!row) {
        transfers->no_memory = true;
        return;
    }
    if (row->members == 0) {
        *row = *one;
        row->key = key;
        if (!transfers->coarse && transfers->rows.count > ROWS_MOST)
            coarsen(transfers);
        return;
    }
    row->collectives += one->collectives;
    row->members += one->members;
    row->wait_ns = add_ns(row->wait_ns, one->wait_ns);
    row->transfer_ns = add_ns(row->transfer_ns, one->transfer_ns);
    row->own_members += one->own_members;
    row->own_ns = add_ns(row->own_ns, one->own_ns);
    row->completion_ns = add_ns(row->completion_ns, one->completion_ns);
    row->least_ns = one->least_ns < row->least_ns ? one->least_ns : row->least_ns;
    row->most_ns = one->most_ns > row->most_ns ? one->most_ns : row->most_ns;
}

void transfers_merge(struct transfers *into, const struct transfers *from) {
    if (from->coarse && !into->coarse)
        coarsen(into);
    for (size_t i = 0; i < from->rows.count; i++)
        transfers_add(into, &transfer_rows_items(&from->rows)[i]);
    into->no_memory |= from->no_memory;
}

void transfers_parcel(struct transfers *transfers, struct parcel *parcel) {
    parcel_table(parcel, &transfers->rows, struct transfer);
    parcel_flag(parcel, &transfers->coarse);
    parcel_flag(parcel, &transfers->no_memory);
}

void transfers_free(struct transfers *transfers) {
    hash_table_free(&transfers->rows);
    *transfers = (struct transfers){0};
}

static int compare_rows(const void *a, const void *b) {
    const struct transfer_key *left = &((const struct transfer *)a)->key, *right = &((const struct transfer *)b)->key;
    if (left->communicator != right->communicator)
        return left->communicator < right->communicator ? -1 : 1;
    if (left->call != right->call)
        return left->call < right->call ? -1 : 1;
    if (left->device != right->device)
        return left->device ? 1 : -1;
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

struct transfer *transfers_sorted(const struct transfers *transfers) {
    size_t count = transfers->rows.count;
    struct transfer *rows = count > 0 ? malloc(count * sizeof *rows) : NULL;
    if (rows) {
        memcpy(rows, transfers->rows.items, count * sizeof *rows);
        qsort(rows, count, sizeof *rows, compare_rows);
    }
    return rows;
}
