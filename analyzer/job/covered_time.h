/* SPDX-License-Identifier: Apache-2.0
 *
 * Of which time every rank's records are there.
 * Lives here: holes in one dump's records, and the stretches of common time in which no rank has one.
 * Must not live here: what happened in them, how many records were lost (load/), the time that a user asked for.
 *
 * A ring overwrites its oldest records and trace windows keep only samples of them, on every rank from another moment
 * on. A rank whose calls are not on record seems to work: whoever compares ranks looks only at stretches that all of
 * them cover.
 */
#ifndef COMMTAP_JOB_COVERED_TIME_H
#define COMMTAP_JOB_COVERED_TIME_H

#include "analyzer/align/common_clock.h"

/* Common ns. A hole: records of what happened in it are missing. Covered: none is. */
struct time_stretch {
    int64_t from, to;
};

struct time_stretches {
    struct time_stretch *items; /* by time; they do not overlap */
    size_t count, room;
};

/* Finds the holes in one dump's records. -NS_MOST and NS_MOST stand for the beginning and the end of its process.
 * Returns false when memory is short; the caller frees with time_stretches_free in every case. */
bool dump_holes_find(struct time_stretches *holes, const struct common_clock *clock, size_t dump);
void time_stretches_free(struct time_stretches *stretches);

struct covered_time {
    struct time_stretches stretches;
    bool whole;   /* nothing is missing: one stretch without end */
    bool *silent; /* per dump: at no moment is all of it on record. It takes no part in the stretches */
};

/* Finds what all dumps of the clock cover. Returns false when memory is short; the caller frees with covered_time_free
 * in every case. */
bool covered_time_find(struct covered_time *covered, const struct common_clock *clock);
void covered_time_free(struct covered_time *covered);

enum { COVERED_NOWHERE = UINT32_MAX };

/* The last stretch that [from, to] touches, COVERED_NOWHERE where it touches none. NULL covers everything. */
uint32_t covered_time_at(const struct covered_time *covered, int64_t from, int64_t to);
/* Whether [from, to] lies within that stretch. */
bool covered_time_holds(const struct covered_time *covered, uint32_t stretch, int64_t from, int64_t to);
/* The bounds of a stretch; of NULL, those of all time. */
struct time_stretch covered_time_bounds(const struct covered_time *covered, uint32_t stretch);

/* How much of [from, to] is covered, ns. */
int64_t covered_time_within(const struct covered_time *covered, int64_t from, int64_t to);

#endif
