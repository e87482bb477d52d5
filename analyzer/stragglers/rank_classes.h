/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that do the same work by design: only those may be compared with each other.
 * Lives here: what a rank calls, roles by it, and judging ranks among their peers and roles among each other.
 * Must not live here: the statistics (significance.h), what a verdict costs, names.
 *
 * Two ranks have one role when they make the same calls on communicators of the same sizes, and have the same place in
 * those communicators, smaller than the cohort's, on which messages are sent: the stages of a pipeline. Calls that
 * are rarer than a quarter of the collectives that the cohort is compared by say nothing. Where places leave half of
 * the ranks without a peer they do not count; where calls do, all ranks have one role.
 */
#ifndef COMMTAP_STRAGGLERS_RANK_CLASSES_H
#define COMMTAP_STRAGGLERS_RANK_CLASSES_H

#include "analyzer/stragglers/time_batches.h"
#include "analyzer/base/significance.h"

enum { ROLE_CALLS_MOST = 48 }; /* of one rank; further ones are left out */

/* How often a rank made each of its calls. All zero to begin with. */
struct role_profile {
    struct role_call {
        uint32_t comm; /* local index */
        uint16_t call; /* index into the directory's calls */
        uint16_t direction;
        uint64_t count;
    } calls[ROLE_CALLS_MOST];
    size_t count;
};

/* Takes the rank's next record. */
void role_profile_add(struct role_profile *profile, const struct match_record *item);

struct roles {
    size_t count;
    uint32_t *role_of; /* per column of the blocks: 0 .. count - 1 */
    size_t *sizes;     /* per role */
    bool placed;       /* places in communicators tell roles apart */
    /* per column: the stage of a pipeline, from 1: the place in the one communicator, smaller than the cohort's, on
     * which it sends messages. All 0 where places tell no roles apart, or a rank has no such communicator or several.
     */
    uint32_t *stage_of;
};

/* Finds the roles of the columns of `blocks`. `profiles` and `reference` (the local index of the communicator that the
 * cohort is compared by) are per dump; `communicator` is that one's index in the directory. Returns false when memory
 * is short; the caller frees with roles_free in every case. */
bool roles_find(struct roles *roles, const struct role_profile *profiles, const uint32_t *reference,
                const struct match_directory *directory, uint32_t communicator, const struct blocks *blocks);
void roles_free(struct roles *roles);

/* Judges every column among those of its role into out[columns]; a rank alone in its role among all columns, or not at
 * all (ratio 0) where roles are places. Returns the largest number of blocks that count as independent, negative when
 * memory is short. */
double roles_judge_ranks(const struct roles *roles, const struct blocks *blocks, struct significance *out);

/* Judges the roles by the medians of their ranks into out[count]; count must be at least 2. Returns as above. */
double roles_judge(const struct roles *roles, const struct blocks *blocks, struct significance *out);

/* Replaces the blocks' self times by what they were if all roles had equal medians in each block. Returns false when
 * memory is short. */
bool roles_level(const struct roles *roles, struct blocks *blocks);

#endif
