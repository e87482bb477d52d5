/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a job's time that a user asked for (--from, --to, --step, --epoch).
 * Lives here: each rank's window on the common clock, which records lie in it, how much of it is on record.
 * Must not live here: the values' syntax (load/filter.h), sums, sentences.
 *
 * A call belongs to the window in which it begins, so that windows side by side share no call. What ran on a GPU begins
 * where it ran; so do the calls that enqueued it, where that is on record. A non-blocking operation begins when it is
 * posted. Steps and epochs are each rank's own: from its own beginning of the first one to its own end of the last one.
 */
#ifndef COMMTAP_PROFILE_SCOPE_H
#define COMMTAP_PROFILE_SCOPE_H

#include "analyzer/job/job.h"
#include "analyzer/steps/steps.h"
#include "analyzer/load/filter.h"

/* Common ns, `to_ns` not included; from_ns >= to_ns: nothing of this rank. */
struct scope_span {
    int64_t from_ns, to_ns;
};

struct scope {
    bool limited; /* false: the whole job, and nothing else here is set */
    const struct filter *filter;
    const struct common_clock *clock;
    struct scope_span *spans;       /* per dump of the clock */
    int64_t job_from_ns, job_to_ns; /* the job's first and last moment */
    int64_t from_ns, to_ns;         /* of all spans together, within the job; from_ns >= to_ns: nothing */
    uint32_t step_count;            /* steps of the job, where some were asked for: numbers 0 .. step_count - 1 */
    size_t ranks_without_step;      /* that pass the filter and have none of the steps asked for */
    uint32_t epoch_count;           /* epochs of the job, where some were asked for: numbers 0 .. epoch_count - 1 */
    /* over the ranks that pass the filter */
    int64_t asked_ns; /* sum of the spans within the job */
    int64_t seen_ns;  /* of that, where no record is missing */
    bool complete;    /* no record is missing */
};

/* Works out the windows of `filter` on every dump of `clock`, which is built over job->dumps. All must outlive the
 * scope. Returns false when memory is short; the caller frees with scope_free in every case. */
bool scope_build(struct scope *scope, const struct job *job, const struct common_clock *clock,
                 const struct filter *filter, const struct step_marker *marker);
void scope_free(struct scope *scope);

/* False where all of the job's time is meant: `scope` is NULL or has no limits. */
static inline bool scope_is_limited(const struct scope *scope) {
    return scope && scope->limited;
}

/* True where no moment of the job was left to look at: the steps do not exist, or the window lies outside. */
bool scope_is_empty(const struct scope *scope);

/* Drops the steps of each rank that do not begin in its window; numbers stay. */
void scope_keep_steps(const struct scope *scope, struct steps *steps);

/* Whether a user who asks for functions, communicators and sizes sees a record of that call on that communicator (NULL:
 * on none) of so many bytes. */
bool filter_lets_pass(const struct filter *filter, const struct dump *dump, uint16_t call,
                      const struct dump_communicator *communicator, uint64_t bytes);

/* ---- walking records ------------------------------------------------------------------------- */

/* When a launch ran. */
struct scope_launch {
    uint32_t op;
    int64_t at_ns;
};

/* Which records of one dump lie in a scope. */
struct scope_dump {
    const struct scope *scope; /* NULL: all records */
    const struct dump *dump;
    size_t d;
    /* private */
    struct scope_launch *launches; /* by op */
    size_t launch_count;
};

/* For `dump`, which is number `d` of the scope's clock. `scope` may be NULL or without limits. Returns false when
 * memory is short; the caller frees with scope_dump_end in every case. */
bool scope_dump_begin(struct scope_dump *part, const struct scope *scope, const struct dump *dump, size_t d);
bool scope_dump_holds(const struct scope_dump *part, const struct record *record);
void scope_dump_end(struct scope_dump *part);

/* One dump's records that lie in a scope, lane by lane, each lane in ticket order. */
struct scope_walk {
    struct scope_dump part;
    bool no_memory;
    /* private */
    struct record_cursor cursor;
    uint32_t lane;
    bool open;
};

/* Starts a walk over `dump`, which is number `d` of the scope's clock. `scope` may be NULL or without limits. */
void scope_walk_begin(struct scope_walk *walk, const struct scope *scope, const struct dump *dump, size_t d);
/* The next record, valid until the next call. NULL at the end, and where memory is short: walk->no_memory tells. */
const struct record *scope_walk_next(struct scope_walk *walk);
void scope_walk_end(struct scope_walk *walk);

#endif
