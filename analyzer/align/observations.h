/* SPDX-License-Identifier: Apache-2.0
 *
 * What the clocks of two domains are compared by: moments of one operation that must have followed each other.
 * Lives here: records -> causes and effects per domain and operation.
 * Must not live here: clocks, fits.
 *
 * Of an operation that no member leaves before every member entered, every entry precedes every exit. From a root:
 * the root's entry precedes the others' exits; to a root the other way round. A send's entry precedes its receive's
 * exit; of a synchronous send the receive's entry also precedes the send's exit. Of GPU operations the device's times
 * count, widened by what the device's clock may be off: a host's return proves nothing.
 */
#ifndef COMMTAP_ALIGN_OBSERVATIONS_H
#define COMMTAP_ALIGN_OBSERVATIONS_H

#include "analyzer/align/common_clock.h"

#define OBSERVATION_NONE INT64_MIN

/* One operation in one domain, over all its ranks. Times are the domain's CLOCK_MONOTONIC ns. */
struct observation {
    uint64_t key; /* of the operation, equal on all domains */
    uint32_t domain;
    bool exact;     /* the exit is that of a call that nobody leaves before everybody entered: exits nearly coincide */
    int64_t cause;  /* latest entry that other domains' exits wait for, OBSERVATION_NONE */
    int64_t effect; /* earliest exit that waits for other domains' entries, OBSERVATION_NONE */
};

struct observations {
    struct observation *items; /* by key, then domain; of operations in at least two domains */
    size_t count;
};

/* Reads all records of all dumps; keeps a share, chosen by the operations' keys, that bounds memory. Returns false when
 * memory is short; freed with observations_free in every case. */
bool observations_collect(struct observations *observations, const struct common_clock *clock);
void observations_free(struct observations *observations);

#endif
