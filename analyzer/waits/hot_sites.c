/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging waits by the name of the call site.
 * Lives here: sums and their order.
 * Must not live here: names.
 */
#include "analyzer/waits/hot_sites.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/ns.h"
#include "analyzer/base/grow.h"

enum { LEAST_SHARE = 1000 };

static bool hot_site_matters(const struct site_wait *wait, int64_t total) {
    return wait->wait_ns > total / LEAST_SHARE || wait->waited_for_ns > total / LEAST_SHARE;
}

/* Equal labels are one string. */
static bool add_hot_site(struct hot_sites *sites, const char *label, const struct site_wait *wait) {
    size_t i = 0;
    while (i < sites->count && sites->items[i].site != label)
        i++;
    if (i == sites->count) {
        if (!grow_list(sites->items, sites->count))
            return false;
        sites->items[sites->count++] = (struct hot_site){.site = label};
    }
    sites->items[i].wait_ns = add_ns(sites->items[i].wait_ns, wait->wait_ns);
    sites->items[i].waited_for_ns = add_ns(sites->items[i].waited_for_ns, wait->waited_for_ns);
    return true;
}

static int compare_sites(const void *a, const void *b) {
    const struct hot_site *left = a, *right = b;
    if (left->wait_ns != right->wait_ns)
        return left->wait_ns > right->wait_ns ? -1 : 1;
    return strcmp(left->site, right->site);
}

bool hot_sites_build(struct hot_sites *sites, const struct site_waits *waits, struct symbols *symbols,
                     struct site_labels *labels) {
    int64_t total = 0;
    bool enough_memory = true;
    *sites = (struct hot_sites){0};
    for (size_t i = 0; i < waits->sums.count; i++)
        total = add_ns(total, site_wait_sums_items(&waits->sums)[i].wait_ns);
    for (size_t i = 0; enough_memory && i < waits->sums.count; i++)
        if (hot_site_matters(&site_wait_sums_items(&waits->sums)[i], total))
            enough_memory = symbols_want(symbols, site_wait_sums_items(&waits->sums)[i].key.dump,
                                         site_wait_sums_items(&waits->sums)[i].key.stack);
    enough_memory = enough_memory && symbols_resolve(symbols);
    for (size_t i = 0; enough_memory && i < waits->sums.count; i++) {
        const struct site_wait *wait = &site_wait_sums_items(&waits->sums)[i];
        if (!hot_site_matters(wait, total))
            continue;
        const char *label = site_label(labels, wait->key.dump, wait->key.stack);
        enough_memory = label && add_hot_site(sites, label, wait);
    }
    if (sites->count > 0)
        qsort(sites->items, sites->count, sizeof *sites->items, compare_sites);
    return enough_memory;
}

void hot_sites_free(struct hot_sites *sites) {
    free(sites->items);
    *sites = (struct hot_sites){0};
}

struct site_wait hot_site_of(const struct site_waits *waits, const size_t *dumps, size_t count) {
    struct site_wait best = {.key = {.stack = STACK_NONE}};
    for (size_t i = 0; i < waits->sums.count; i++) {
        const struct site_wait *wait = &site_wait_sums_items(&waits->sums)[i];
        bool better =
            wait->waited_for_ns > best.waited_for_ns ||
            (wait->waited_for_ns == best.waited_for_ns && best.key.stack != STACK_NONE &&
             (wait->key.dump < best.key.dump || (wait->key.dump == best.key.dump && wait->key.stack < best.key.stack)));
        if (wait->waited_for_ns == 0 || !better)
            continue;
        for (size_t d = 0; d < count; d++)
            if (dumps[d] == wait->key.dump)
                best = *wait;
    }
    return best;
}
