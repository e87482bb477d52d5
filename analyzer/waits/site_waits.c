/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of waits by call site.
 * Lives here: finding and adding.
 * Must not live here: how a wait is worked out.
 */
#include "analyzer/waits/site_waits.h"

#include "analyzer/base/ns.h"
#include "shim/format.h"

void site_waits_add(struct site_waits *waits, size_t dump, uint32_t stack, int64_t wait_ns, int64_t waited_for_ns) {
    if (stack == STACK_NONE || (wait_ns == 0 && waited_for_ns == 0))
        return;
    struct site_wait *site = site_wait_sums_add(&waits->sums, &(struct site_key){(uint32_t)dump, stack});
    if (!site) {
        waits->no_memory = true;
        return;
    }
    site->wait_ns = add_ns(site->wait_ns, wait_ns);
    site->waited_for_ns = add_ns(site->waited_for_ns, waited_for_ns);
}

void site_waits_merge(struct site_waits *into, const struct site_waits *from) {
    for (size_t i = 0; i < from->sums.count; i++) {
        const struct site_wait *site = &site_wait_sums_items(&from->sums)[i];
        site_waits_add(into, site->key.dump, site->key.stack, site->wait_ns, site->waited_for_ns);
    }
    into->no_memory |= from->no_memory;
}

void site_waits_parcel(struct site_waits *waits, struct parcel *parcel) {
    parcel_table(parcel, &waits->sums, struct site_wait);
    parcel_flag(parcel, &waits->no_memory);
}

void site_waits_free(struct site_waits *waits) {
    hash_table_free(&waits->sums);
    *waits = (struct site_waits){0};
}

struct site_wait site_waits_of(const struct site_waits *waits, size_t dump, uint32_t stack) {
    struct site_key key = {(uint32_t)dump, stack};
    const struct site_wait *site = site_wait_sums_find(&waits->sums, &key);
    return site ? *site : (struct site_wait){.key = key};
}
