/* SPDX-License-Identifier: Apache-2.0
 *
 * What all operations of a rank of a trace add up to, in the tables of a dump.
 * Lives here: rows per operation and size, per peer, per call site. Must not live here: where in a file they lie.
 */
#ifndef COMMTAP_IMPORT_AGGREGATES_H
#define COMMTAP_IMPORT_AGGREGATES_H

#include "analyzer/import/trace.h"
#include "shim/format.h"

struct aggregates {
    const struct trace *trace;
    const struct trace_event **sorted; /* what is on a communicator, in the order of the table that is filled */
    size_t count;
    uint32_t rows, site_rows, peer_rows; /* that the tables need, a free one at the end of each */
};

/* Takes in a rank's events, which are not copied. False: memory is short. Freed by aggregates_free in every case. */
bool aggregates_take(struct aggregates *aggregates, const struct trace *trace, const struct trace_event *events,
                     size_t count);
/* How many rows there will be. */
void aggregates_measure(struct aggregates *aggregates);
/* Fills tables of so many rows, all of them zero. Where no call site is known none is noted. */
void aggregates_fill(struct aggregates *aggregates, struct operation_row *rows, struct site_row *sites,
                     struct peer_row *peers);
void aggregates_free(struct aggregates *aggregates);

#endif
