/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's own time step by step, where its steps are marked on record and are few.
 * Lives here: which step a piece of own time belongs to. Must not live here: what own time is (ranks.h), steps that are
 * found from operations (steps/).
 *
 * A trace of a few steps has no more parts that are alike than steps: within one the stages of a pipeline work at
 * different moments, and where ranks run ahead of each other they do the same at different times. A step begins at its
 * mark (MPI_Pcontrol(100), a profiler's ProfilerStep), or, in a profiler's trace without marks, at each collective in
 * which all ranks that are compared meet. What a GPU does belongs to the step in which it was launched.
 */
#ifndef COMMTAP_STRAGGLERS_OWN_STEPS_H
#define COMMTAP_STRAGGLERS_OWN_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/base/parcel.h"

enum { OWN_STEPS_MOST = 64 }; /* of more steps batches of equal work (time_batches.h) hold several each */

struct own_step {
    int64_t begin_ns;            /* common clock */
    int64_t self_ns, beside_ns;  /* own time in it; of that, work on record while the rank communicated */
    uint32_t first_op, launches; /* the first number of a launch in it, and whether there is any */
};

/* All zero to begin with. */
struct own_steps {
    struct own_step *rows; /* room for OWN_STEPS_MOST; NULL before the first mark, or where there are too many */
    size_t count;
    bool too_many, marked;
    bool meets; /* where nothing is marked, a collective of `meeting` begins a step: then the last one has no end */
    uint32_t meeting; /* local index of a communicator */
};

void own_steps_free(struct own_steps *steps);

/* A step begins, by a mark or by a collective of the communicator `meeting`, which after a mark counts for nothing.
 * Returns false when memory is short. */
bool own_steps_mark(struct own_steps *steps, int64_t at_ns);
bool own_steps_meet(struct own_steps *steps, int64_t at_ns);
/* So many of them are whole. */
size_t own_steps_whole(const struct own_steps *steps);
/* An operation with that number was launched then; numbers rise. */
void own_steps_launched(struct own_steps *steps, uint32_t op, int64_t at_ns);

/* The step in which something was launched, by its time or its number: NULL before the first. */
struct own_step *own_steps_at(const struct own_steps *steps, int64_t at_ns);
struct own_step *own_steps_of_launch(const struct own_steps *steps, uint32_t op);

/* Time of the rank's own for that step; NULL, and from >= to: none. */
void own_steps_add(struct own_step *step, int64_t from_ns, int64_t to_ns);

/* Leaves what the rank did beside communication out of its own time (sign -1), or takes that back (1). */
void own_steps_count_beside(struct own_steps *steps, int sign);

void own_steps_parcel(struct own_steps *steps, struct parcel *parcel);

#endif
