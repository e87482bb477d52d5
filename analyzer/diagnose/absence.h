/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a process that others wait for has been away from the library, and how long it ever was before: one that
 * reads a file for the first time, or computes for minutes, looks like one that never comes.
 * Lives here: lengths of absences, what is beyond all that may end by itself.
 * Must not live here: who waits for whom, verdicts.
 */
#ifndef COMMTAP_DIAGNOSE_ABSENCE_H
#define COMMTAP_DIAGNOSE_ABSENCE_H

#include "analyzer/wait_for_graph/graph.h"
#include "analyzer/wait_for_graph/moments.h"

struct absence {
    int64_t away_ns;    /* since its last call; -1: it is not away, or that is not known */
    int64_t longest_ns; /* before: the longest between two calls, as far as is on record; -1: nothing is */
};

/* Absences that are no longer than these may be work: as long as a job is given by the libraries themselves, and a few
 * times what was seen to end. */
#define ABSENCE_GIVEN_NS INT64_C(600000000000)
#define ABSENCE_FEW      3

/* How long a party had been away at that moment. Walks its records. */
struct absence absence_find(const struct wait_for_graph *waits, uint32_t party, const struct moment *until);
/* The same of an import: from its newest record to when the recorder's file was written, or, where that is not known,
 * to the newest record of all. */
struct absence absence_of_import(const struct wait_for_graph *waits, uint32_t party);
/* The longest time between two calls that is on record of any process, of as many as are looked at; -1: nothing is. */
int64_t absence_longest(const struct world *world);

#endif
