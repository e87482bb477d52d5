/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits by call site: where the ranks sit while they wait, and where those come from that they wait for.
 * Lives here: sums by (dump, stack).
 * Must not live here: how a wait is worked out (waits.c), names of stacks.
 */
#ifndef COMMTAP_WAITS_SITE_WAITS_H
#define COMMTAP_WAITS_SITE_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/base/parcel.h"

struct site_key {
    uint32_t dump, stack;
};

struct site_wait {
    struct site_key key;
    int64_t wait_ns;       /* spent here waiting for others */
    int64_t waited_for_ns; /* spent by others waiting for this rank to come here */
};

HASH_TABLE_OF(site_wait_sums, struct site_wait, struct site_key);

struct site_waits {
    struct hash_table sums; /* of sites */
    bool no_memory;         /* some could not be added */
};

/* Starts zeroed. Adds to a site; stack STACK_NONE is left out. */
void site_waits_add(struct site_waits *waits, size_t dump, uint32_t stack, int64_t wait_ns, int64_t waited_for_ns);
void site_waits_merge(struct site_waits *into, const struct site_waits *from);
void site_waits_parcel(struct site_waits *waits, struct parcel *parcel);
void site_waits_free(struct site_waits *waits);

/* Sums of a site; zeros where it has none. */
struct site_wait site_waits_of(const struct site_waits *waits, size_t dump, uint32_t stack);

#endif
