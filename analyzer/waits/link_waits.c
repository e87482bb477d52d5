/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/waits/link_waits.h"

#include "analyzer/base/ns.h"

static void give_up(struct link_waits *waits) {
    hash_table_free(&waits->rows);
    waits->overflow = true;
}

void link_waits_add(struct link_waits *waits, const struct link_waits_row *part) {
    if (waits->overflow || waits->no_memory)
        return;
    struct link_waits_row *row = link_waits_rows_add(&waits->rows, &part->key);
    if (!row) {
        waits->no_memory = true;
        return;
    }
    row->messages += part->messages;
    row->bytes = row->bytes > UINT64_MAX - part->bytes ? UINT64_MAX : row->bytes + part->bytes;
    row->late_sender_ns = add_ns(row->late_sender_ns, part->late_sender_ns);
    row->late_receiver_ns = add_ns(row->late_receiver_ns, part->late_receiver_ns);
    if (waits->rows.count > LINK_WAITS_MOST)
        give_up(waits);
}

void link_waits_merge(struct link_waits *into, const struct link_waits *from) {
    into->no_memory |= from->no_memory;
    if (from->overflow && !into->overflow)
        give_up(into);
    for (size_t i = 0; i < from->rows.count; i++)
        link_waits_add(into, &link_waits_rows_items(&from->rows)[i]);
}

void link_waits_parcel(struct link_waits *waits, struct parcel *parcel) {
    parcel_table(parcel, &waits->rows, struct link_waits_row);
    parcel_flag(parcel, &waits->overflow);
    parcel_flag(parcel, &waits->no_memory);
}

void link_waits_free(struct link_waits *waits) {
    hash_table_free(&waits->rows);
    *waits = (struct link_waits){0};
}
