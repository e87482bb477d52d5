/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that was away a few times.
 * Lives here: whether what it worked longer than its peers is one piece or a few. Must not live here: how long the
 * others waited (waits.h), words.
 */
#ifndef COMMTAP_STRAGGLERS_PAUSES_H
#define COMMTAP_STRAGGLERS_PAUSES_H

#include "analyzer/stragglers/stragglers.h"

enum { PAUSES_FEW = 9 }; /* of two ranks: ten pauses of the same one are beyond chance (leads.h) */

struct pauses {
    unsigned count; /* 0: none, or more than a few */
    int64_t in_all_ns;
};

/* The pauses that at least half lies in of what the rank worked longer than the median of those it is compared with, in
 * all: of stretches that follow each other, since several collectives may be waited in for one, as for a first step in
 * which a program is compiled; each longer by half of what the longest one is longer by. None where it is compared with
 * nobody. *no_memory is set where memory is short. */
struct pauses pauses_find(const struct straggler_analysis *analysis, size_t dump, bool *no_memory);

#endif
