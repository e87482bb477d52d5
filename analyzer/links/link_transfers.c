/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/links/link_transfers.h"

#include <stdlib.h>

#include "analyzer/base/log_bins.h"

static int compare(const void *a, const void *b) {
    const struct link_transfer *left = a, *right = b;
    if (left->size != right->size)
        return left->size < right->size ? -1 : 1;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->to < right->to ? -1 : left->to > right->to;
}

/* False where a row tells nothing: unused, torn, receives, or a peer without a dump. */
static bool read_row(const struct match_directory *directory, size_t dump, const struct transfer_row *row,
                     struct link_transfer *out) {
    if (row->version == 0 || row->version & 1 || row->sends != 1 || row->steps == 0 || row->bytes == 0 ||
        row->wait_wire == 0 || row->wait_wire > INT64_MAX / 2 || row->steps > INT64_MAX / 2)
        return false;
    struct match_place place = match_place_of(directory, dump, row->comm);
    if (place.communicator == NOWHERE)
        return false;
    const struct match_communicator *communicator = &directory->communicators[place.communicator];
    uint32_t peer = match_position_of(communicator, row->peer);
    if (peer == NOWHERE || communicator->dump_of[peer] == dump)
        return false;
    *out = (struct link_transfer){.from = (uint32_t)dump,
                                  .to = communicator->dump_of[peer],
                                  .size = log_bin_of(row->bytes / row->steps),
                                  .operations = row->operations,
                                  .steps = row->steps,
                                  .bytes = row->bytes < INT64_MAX ? row->bytes : INT64_MAX,
                                  .wire_ns = row->wait_wire,
                                  .channels = row->channels};
    return true;
}

static uint64_t sum(uint64_t a, uint64_t b) {
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* Rows of several communicators between the same two ranks are one. */
static size_t join_transfers(struct link_transfer *items, size_t count) {
    size_t kept = 0;
    qsort(items, count, sizeof *items, compare);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || compare(&items[kept - 1], &items[i]) != 0) {
            items[kept++] = items[i];
            continue;
        }
        struct link_transfer *into = &items[kept - 1];
        into->operations = sum(into->operations, items[i].operations);
        into->steps = sum(into->steps, items[i].steps);
        into->bytes = sum(into->bytes, items[i].bytes);
        into->wire_ns = sum(into->wire_ns, items[i].wire_ns);
        into->channels = items[i].channels > into->channels ? items[i].channels : into->channels;
    }
    return kept;
}

struct link_transfer *link_transfers_list(const struct match_directory *directory, size_t *count, bool *no_memory) {
    size_t rows = 0, used = 0;
    *count = 0;
    for (size_t d = 0; d < directory->dump_count; d++)
        rows += directory->dumps[d]->transfer_count;
    struct link_transfer *items = rows > 0 ? calloc(rows, sizeof *items) : NULL;
    *no_memory |= rows > 0 && !items;
    for (size_t d = 0; items && d < directory->dump_count; d++)
        for (uint32_t i = 0; i < directory->dumps[d]->transfer_count; i++)
            used += read_row(directory, d, &directory->dumps[d]->transfers[i], &items[used]);
    if (items)
        *count = join_transfers(items, used);
    return items;
}
