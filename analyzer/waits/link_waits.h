/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks waited for each other's messages, link by link.
 * Lives here: the table of links.
 * Must not live here: what a wait is (waits.h).
 */
#ifndef COMMTAP_WAITS_LINK_WAITS_H
#define COMMTAP_WAITS_LINK_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/base/parcel.h"

enum { LINK_WAITS_MOST = 1 << 20 }; /* links: 64 MB with their places; where there are more, none is known */

struct link_waits_key {
    uint32_t from, to; /* indices of dumps */
};

struct link_waits_row {
    struct link_waits_key key;
    uint64_t messages, bytes; /* matched */
    int64_t late_sender_ns;   /* the receiver waited */
    int64_t late_receiver_ns; /* the sender waited */
};

HASH_TABLE_OF(link_waits_rows, struct link_waits_row, struct link_waits_key);

struct link_waits {
    struct hash_table rows;
    bool overflow; /* more than LINK_WAITS_MOST: there are no rows */
    bool no_memory;
};

/* Starts zeroed. Adds messages, or what was waited for them. */
void link_waits_add(struct link_waits *waits, const struct link_waits_row *part);
/* Whatever the order of adding and merging, the sums are the same. */
void link_waits_merge(struct link_waits *into, const struct link_waits *from);
void link_waits_parcel(struct link_waits *waits, struct parcel *parcel);
void link_waits_free(struct link_waits *waits);

#endif
