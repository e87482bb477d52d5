/* SPDX-License-Identifier: Apache-2.0
 *
 * One page of compact records, slot by slot (shim/format.h, struct ring_page).
 * Lives here: what the forms of a record mean, and the check of every word of them.
 * Must not live here: which pages a lane has (ring_pages.c), what a record means.
 */
#ifndef COMMTAP_LOAD_RING_PAGE_H
#define COMMTAP_LOAD_RING_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/format.h"

/* What a lane's compact records refer to, by number; of kind 0 where not defined. */
struct lane_templates {
    struct record_template *rows;
    size_t count;
};

/* A walk over a page's records from its first one on. The page may be the living writer's: each word is copied before
 * it is looked at, and a record counts only when the page is still the one the walk began with. */
struct page_walk {
    const struct ring_page *page;
    const struct lane_templates *templates;
    uint64_t number, window; /* of the page at the beginning */
    uint64_t ticket;         /* of the next record */
    uint64_t base;
    uint32_t base_op;
    uint32_t slot, used;
    const char *damage; /* what is wrong with the record at `slot`, NULL: nothing, the walk came to the end */
    bool is_undefined;  /* that damage: a template, which may be among what found no room */
    struct record record;
};

/* False where the page holds nothing that can be read. */
bool page_walk_begin(struct page_walk *walk, const struct ring_page *page, const struct lane_templates *templates);

/* The next record, valid until the next call; NULL: there is none, or what follows cannot be read. */
const struct record *page_walk_next(struct page_walk *walk);

#endif
