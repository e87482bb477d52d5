/* SPDX-License-Identifier: Apache-2.0
 *
 * What one rank's own records say about its time: communicating, computing, and how much of it before each collective.
 * Lives here: the walk over one rank's records in their order.
 * Must not live here: other ranks, waits, verdicts.
 */
#ifndef COMMTAP_STRAGGLERS_RANKS_H
#define COMMTAP_STRAGGLERS_RANKS_H

#include "analyzer/base/cache_lines.h"
#include "analyzer/stragglers/hidden_work.h"
#include "analyzer/stragglers/sampled_collectives.h"
#include "analyzer/stragglers/own_steps.h"
#include "analyzer/match/cut.h"
#include "analyzer/match/instances.h"

/* Self time of the stretches that a cut (cut.h) makes, in bins of 2^shift neighbouring numbers. A bin's number is the
 * stretch's >> shift, so bins of equal shift are the same on every rank. */
struct rank_bins {
    unsigned shift;
    uint32_t first;                 /* number of bin 0 */
    uint32_t count, room, capacity; /* room: that there is memory for, which grows up to the capacity */
    int64_t *self_ns;
    uint32_t *calls; /* stretches counted in the bin */
};

/* Where a stretch ended. */
struct rank_cut {
    int64_t at_ns;
    uint32_t number;
    bool counted; /* the stretch is in the bins */
};

enum { RANK_CUTS = HIDDEN_WORK_OPERATIONS }; /* no operation that hides anything began before so many */

/* What is remembered of a rank whose GPU operations have times of their own. */
struct rank_device {
    struct hidden_work hidden;
    struct rank_cut cuts[RANK_CUTS];
    unsigned next_cut;
};

struct rank_times {
    ON_OWN_LINES int64_t from_ns, to_ns; /* of the first and the last record, common clock; from > to: none */
    int64_t window_ns;                   /* stretches of which all records are there, Init and Finalize left out */
    int64_t comm_ns;                     /* union of communication calls in them */
    int64_t self_ns;     /* time in them outside of everything that may wait for others, and work on record in it */
    int64_t beside_ns;   /* of self_ns, work on record while the rank communicated */
    int64_t hidden_ns;   /* of self_ns, computation beside communication that only waits tell of (hidden_work.h) */
    int64_t left_out_ns; /* not of self_ns: beside_ns, where that is left out of it; else 0 */
    int64_t gpu_work_ns; /* time in which its GPU worked or copied by a profiler's trace; 0: nothing tells */
    struct rank_bins bins;
    struct rank_bins beside; /* the part of `bins` that is in beside_ns; none before there is any */
    struct sampled_collectives sampled;
    struct own_steps steps; /* self time by steps, where they are marked and few */
    /* private to the walk */
    struct cut cut;
    struct rank_device *device; /* NULL: GPU operations have no times of their own */
    uint32_t stretch;
    struct own_step *step, *work_step; /* of the record at hand, and of the last work on record; NULL: none */
    bool open, after_cut, polled;
    uint32_t slice; /* CUT_TIME: the first one that is not over */
    int64_t since_ns, comm_to_ns, busy_to_ns, work_to_ns, gpu_work_to_ns, pending_self_ns, pending_beside_ns;
};

/* `device` says that GPU operations have records of their own. `cut` may be of CUT_NONE; `bins` >= 2 bounds the bins
 * kept, `segments` >= 2 the samples. Returns false when memory is short. Freed with rank_times_free. */
bool rank_times_init(struct rank_times *times, const struct cut *cut, uint32_t bins, uint32_t segments, bool device);
void rank_times_free(struct rank_times *times);

/* Takes the rank's next record. `call` is NULL where it is unknown. Returns false when memory is short. */
bool rank_times_add(struct rank_times *times, const struct match_record *item, const struct call_name *call);
/* Ends the last stretch. */
void rank_times_finish(struct rank_times *times);

/* Leaves what it did beside communication out of own time; no sample of single stretches is kept. After all records. */
void rank_times_leave_out_beside(struct rank_times *times);
/* Takes that back, but for the sample. */
void rank_times_put_beside_back(struct rank_times *times);

/* Packs a rank's times before they are finished, or unpacks them into times that were made alike: no more records are
 * added to those. */
void rank_times_parcel(struct rank_times *times, struct parcel *parcel);

/* Coarsens the bins to 2^shift numbers; shift is at least the present one. */
void rank_bins_coarsen(struct rank_bins *bins, unsigned shift);

#endif
