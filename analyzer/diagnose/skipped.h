/* SPDX-License-Identifier: Apache-2.0
 *
 * A circle of waits that is there because ranks left out a collective: all others of it wait there, and those that went
 * past it wait for these in what came next.
 * Lives here: which collective of a circle it is, and who left it out. Must not live here: finding circles, verdicts.
 */
#ifndef COMMTAP_DIAGNOSE_SKIPPED_H
#define COMMTAP_DIAGNOSE_SKIPPED_H

#include "analyzer/wait_for_graph/graph.h"

struct skipped {
    const struct stalled *stalled; /* NULL: nothing tells that it is so, or which of several it is */
    size_t waiting;                /* waits in it */
    size_t count;                  /* ranks that left it out */
    bool went_on;                  /* all of these have ended other calls since, and who waits in it has not */
    uint8_t *by;                   /* per party: it is one of these. Owned */
};

/* `cycle`: waits of the graph, in the order of waiting. Returns false when memory is short; the caller frees with
 * skipped_free in every case. */
bool skipped_find(struct skipped *skipped, const struct wait_for_graph *waits, const uint32_t *cycle, size_t count);
void skipped_free(struct skipped *skipped);

#endif
