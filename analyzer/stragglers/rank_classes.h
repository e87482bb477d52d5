/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that do the same work by design: only those may be compared with each other.
 * Lives here: what a rank calls, its class by that, and judging ranks among their peers and classes among each other.
 * Must not live here: the statistics (significance.h), what a verdict costs, names.
 *
 * Two ranks are of one class when they make the same calls on communicators of the same sizes, and have the same
 * place in those communicators, smaller than the comparison group's, on which messages are sent: the stages of a
 * pipeline. Calls that are rarer than once in four stretches (cut.h) say
 * nothing. Where places leave half of the ranks without a peer they do not count; where calls do, all ranks are of
 * one class.
 */
#ifndef COMMTAP_STRAGGLERS_RANK_CLASSES_H
#define COMMTAP_STRAGGLERS_RANK_CLASSES_H

#include "analyzer/base/cache_lines.h"
#include "analyzer/base/parcel.h"
#include "analyzer/match/cut.h"
#include "analyzer/stragglers/time_batches.h"
#include "analyzer/base/significance.h"

enum { CALL_PROFILE_MOST = 48 }; /* of one rank; further ones are left out */

/* How often a rank made each of its calls. All zero to begin with. */
struct call_profile {
    ON_OWN_LINES struct profiled_call {
        uint32_t comm; /* local index */
        uint16_t call; /* index into the directory's calls */
        uint16_t direction;
        uint64_t count;
    } calls[CALL_PROFILE_MOST];
    size_t count;
};

/* Takes the rank's next record. */
void call_profile_add(struct call_profile *profile, const struct match_record *item);
/* Packs or unpacks it. */
void call_profile_parcel(struct call_profile *profile, struct parcel *parcel);

struct rank_classes {
    size_t count;
    uint32_t *class_of; /* per column of the batches: 0 .. count - 1 */
    size_t *sizes;      /* per rank class */
    bool placed;        /* places in communicators tell rank classes apart */
    /* per column: the stage of a pipeline, from 1: the place in the one communicator, smaller than the comparison
     * group's, on which it sends messages. All 0 where places tell no rank classes apart, or a rank has no such
     * communicator or several.
     */
    uint32_t *stage_of;
};

/* Finds the rank classes of the columns of `batches`. `profiles` and `cuts` are per dump; `whole` is how many ranks the
 * communicator has that the comparison group is compared by, without one the group itself. Returns false when memory is
 * short; the caller frees with rank_classes_free in every case. */
bool rank_classes_find(struct rank_classes *classes, const struct call_profile *profiles, const struct cut *cuts,
                       const struct match_directory *directory, uint32_t whole, const struct time_batches *batches);
void rank_classes_free(struct rank_classes *classes);

/* Judges every column among those of its rank class into out[columns]; a rank alone in its rank class among all
 * columns, or not at all (ratio 0) where rank classes are places. Returns the largest number of batches that count as
 * independent, negative when memory is short. */
double rank_classes_judge_ranks(const struct rank_classes *classes, const struct time_batches *batches,
                                struct significance *out);

/* Judges the rank classes by the medians of their ranks into out[count]; count must be at least 2. Returns as above. */
double rank_classes_judge(const struct rank_classes *classes, const struct time_batches *batches,
                          struct significance *out);

/* Replaces the batches' self times by what they were if all rank classes had equal medians in each batch. Returns false
 * when memory is short. */
bool rank_classes_level(const struct rank_classes *classes, struct time_batches *batches);

#endif
