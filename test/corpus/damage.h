/* SPDX-License-Identifier: Apache-2.0
 *
 * The corpus: ways in which a dump can be wrong, each made from a sound one.
 * Lives here: the list of damages and what `commtap check` must say of each.
 * Must not live here: running commands (test/unit/test_corpus.c).
 */
#ifndef COMMTAP_TEST_DAMAGE_H
#define COMMTAP_TEST_DAMAGE_H

#include <stdbool.h>

#include "test/support/dump_builder.h"

struct damage {
    const char *name;
    /* Damages a sound dump with something in every section. Returns how many bytes of it the file holds, 0 = all. */
    size_t (*apply)(struct dump_builder *builder);
    const char *says; /* part of the problem's text; NULL = nothing is wrong with the file */
    bool unusable;
};

extern const struct damage damages[];
extern const size_t damage_count;

/* The sound dump of one of two ranks. */
struct dump_builder *damage_base(int32_t rank);

#endif
