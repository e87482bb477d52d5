/* SPDX-License-Identifier: Apache-2.0
 *
 * Receives posted with any source or any tag: which message of its channel each of them took.
 * Lives here: numbering them after the fact, where nothing is missing that could shift a number.
 * Must not live here: pairing with sends (messages.h).
 *
 * A wildcard receive enters its channel (communicator, source, tag) only when it matches. Messages of one channel are
 * received in the order in which the receives that took them were posted (MPI 4.1, 3.5: non-overtaking), so with all
 * records of the process at hand its number is its place among the channel's receives in the order of `op`. Nothing is
 * claimed where records were overwritten, receives are still pending, several threads posted any, or a matched probe
 * took messages in an order of its own.
 */
#ifndef COMMTAP_MATCH_WILDCARDS_H
#define COMMTAP_MATCH_WILDCARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/load/dump.h"

struct wildcard_ordinal {
    uint32_t op, ordinal;
};

struct wildcards {
    struct wildcard_ordinal *items; /* by op */
    size_t count;
};

/* Returns false when memory is short; freed with wildcards_free in every case. */
bool wildcards_number(struct wildcards *wildcards, const struct dump *dump);
void wildcards_free(struct wildcards *wildcards);

/* Ordinal of the receive with that op, SEQ_NONE where it is not known. */
uint32_t wildcards_ordinal(const struct wildcards *wildcards, uint32_t op);

#endif
