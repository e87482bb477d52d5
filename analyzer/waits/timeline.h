/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank's time as it went by: calls that may wait for others, and its own work before each of them.
 * Lives here: the stretches of one rank in order, each with the call site it belongs to.
 * Must not live here: other ranks, waits, costs.
 *
 * Stretches do not overlap: of calls of several threads at one time, and of calls inside others, only what sticks out
 * behind the earlier one is a stretch of its own. Polls, and the call that got what they asked for, are one. What lies
 * between two stretches is the rank's own work, and belongs to the call that it leads to. A call site is a stack and a
 * function; what is called `way` is the same number for the same way through the program on every rank, wherever its
 * libraries were loaded.
 */
#ifndef COMMTAP_WAITS_TIMELINE_H
#define COMMTAP_WAITS_TIMELINE_H

#include "analyzer/base/hash_table.h"
#include "analyzer/base/parcel.h"
#include "analyzer/match/instances.h"

struct stretch {
    int64_t from, to;   /* common ns */
    int64_t own_before; /* the rank's own work up to `from`, since its first stretch */
    int64_t waited;     /* of to - from, waiting for others; whoever knows fills it in */
    uint32_t site;      /* index into the timeline's sites */
    bool hole;          /* nothing is known of the rank in it */
};

struct timeline_site_key {
    uint32_t stack; /* an id of the rank's dump, STACK_NONE = unknown */
    uint32_t call;  /* index into the directory's calls, CALL_UNKNOWN */
};

struct timeline_site {
    struct timeline_site_key key;
    uint64_t way;
};

HASH_TABLE_OF(timeline_sites, struct timeline_site, struct timeline_site_key);

enum { TIMELINE_NOWHERE = 0 }; /* sites[0]: not known */

struct timeline {
    struct stretch *stretches; /* by time */
    size_t count;
    struct hash_table sites; /* in order of appearance */
    uint32_t polled_by;      /* lane + 1 whose polls the last stretch is, and nothing else; 0: none's */
};

/* Returns false when memory is short. timeline_free frees in every case. */
bool timeline_init(struct timeline *timeline);
void timeline_free(struct timeline *timeline);

/* Takes the rank's next record; those of one dump come in the dump's order (stream.h). Records of calls that do not
 * communicate are left out. Returns false when memory is short. */
bool timeline_add(struct timeline *timeline, const struct match_directory *directory, const struct match_record *item);

/* Nothing is known of the rank since its last stretch, or up to `until` where there is none: a stretch that is neither
 * work nor a call. Returns false when memory is short. */
bool timeline_add_hole(struct timeline *timeline, int64_t until);

/* Packs a rank's whole time, or unpacks it into a fresh timeline: no more records are added to that. */
void timeline_parcel(struct timeline *timeline, struct parcel *parcel);

/* How many stretches begin at or before `at`. */
size_t timeline_until(const struct timeline *timeline, int64_t at);

/* The rank's own work before the moment `at`. */
int64_t timeline_own_before(const struct timeline *timeline, int64_t at);

/* How many stretches begin at or before `at`, where `cursor` is at least as many: for moments that are asked for from
 * late to early, starting with timeline->count. */
size_t timeline_back_to(const struct timeline *timeline, size_t cursor, int64_t at);

/* The call that the rank is in at `at`, or that its work leads to; `cursor` is timeline_back_to's for that moment. */
uint32_t timeline_site_at(const struct timeline *timeline, size_t cursor, int64_t at);

#endif
