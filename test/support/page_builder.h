/* SPDX-License-Identifier: Apache-2.0
 *
 * A synthetic lane's ring of compact pages: packs records into slots as shim/format.h says.
 * Lives here: the forms of a record, the lane's templates.
 * Must not live here: code shared with the loader or the shim, which would hide a common mistake; sections
 * (dump_builder.h).
 */
#ifndef COMMTAP_TEST_PAGE_BUILDER_H
#define COMMTAP_TEST_PAGE_BUILDER_H

#include <stdint.h>

#include "test/support/dump_builder.h"

/* Few, so that small jobs use every form: a call's further variants say what differs themselves, and what finds no
 * template is written in all its words. */
enum { PAGE_BUILDER_TEMPLATES = 32, PAGE_BUILDER_VARIANTS = 4 };

struct page_builder;

/* For the lane's pages, which are zeroed and stay the caller's. Ended with page_builder_free. */
struct page_builder *page_builder_new(struct dump_builder *dump, uint32_t lane, struct ring_page *pages,
                                      uint32_t count);
/* Appends the record with that ticket; the oldest page is taken anew when all are full. Templates are defined in the
 * dump as they are needed. */
void page_builder_add(struct page_builder *builder, const struct record *record, uint64_t ticket);
void page_builder_free(struct page_builder *builder);

#endif
