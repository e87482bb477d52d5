/* SPDX-License-Identifier: Apache-2.0
 *
 * Who came late to MPI_Finalize, and how long the others waited there.
 * Lives here: the one wait of a run that happens once, told by what dumps' headers keep. Must not live here: waits in
 * calls (waits.h), those that never came (diagnose), whether it is worth a sentence.
 *
 * The processes are put in the order in which they came. In their second half, where the gap between two of them is the
 * longest, those behind it are late: where most came later than some, these were early. Libraries need not let
 * MPI_Finalize wait: who left it before the first of the late ones came shows that this one does not.
 */
#ifndef COMMTAP_WAITS_FINALIZE_WAITS_H
#define COMMTAP_WAITS_FINALIZE_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/align/common_clock.h"

/* Scheduling, paging and file systems hold a process up for less. */
#define FINALIZE_LEAST_NS INT64_C(100000000)

struct finalize_waits {
    size_t *dumps; /* one for each process: those that were in time, then those that were late, each in order; owned */
    size_t count;
    size_t late;       /* the last so many; 0: nobody waited there, or that is not known */
    int64_t late_ns;   /* when the first of them came, common clock */
    int64_t waited_ns; /* by each of the others at least: FINALIZE_LEAST_NS, and more than the error of the clocks */
};

/* Of all processes of the clock, where each of them came to MPI_Finalize. Returns false when memory is short; the
 * caller frees with finalize_waits_free in every case. */
bool finalize_waits_find(struct finalize_waits *waits, const struct common_clock *clock);
void finalize_waits_free(struct finalize_waits *waits);

#endif
