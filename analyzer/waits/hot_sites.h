/* SPDX-License-Identifier: Apache-2.0
 *
 * Call sites that hurt: where ranks wait for others, and where those others arrive late.
 * Lives here: site_waits of all ranks merged by the name of the site.
 * Must not live here: how waits are worked out, names.
 */
#ifndef COMMTAP_WAITS_HOT_SITES_H
#define COMMTAP_WAITS_HOT_SITES_H

#include "analyzer/waits/site_waits.h"
#include "analyzer/symbols/site_labels.h"

struct hot_site {
    const char *site;      /* a label: lives as long as the labels */
    int64_t wait_ns;       /* spent here waiting for later ranks, all ranks together */
    int64_t waited_for_ns; /* spent by others waiting for a rank to come here */
};

struct hot_sites {
    struct hot_site *items; /* the longest wait first, then by name */
    size_t count;
};

/* Sites with less than a thousandth of all waits are left out, so that their symbols need not be read. Returns false
 * when memory is short; the caller frees with hot_sites_free in every case. */
bool hot_sites_build(struct hot_sites *sites, const struct site_waits *waits, struct symbols *symbols,
                     struct site_labels *labels);
void hot_sites_free(struct hot_sites *sites);

/* Of the sites of these dumps the one at which the others waited for them longest; STACK_NONE in `stack` where they
 * never did. */
struct site_wait hot_site_of(const struct site_waits *waits, const size_t *dumps, size_t count);

#endif
