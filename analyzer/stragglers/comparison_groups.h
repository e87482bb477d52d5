/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranks are compared with each other, and by which communicator's collectives.
 * Lives here: choosing for every rank at most one reference communicator, by a sample of the records.
 * Must not live here: comparison by messages (message_cuts.h), times.
 *
 * Ranks that take part in the same collectives form a comparison group. The largest communicator that is used often
 * enough comes first; ranks it does not hold may form further comparison groups on others.
 */
#ifndef COMMTAP_STRAGGLERS_COMPARISON_GROUPS_H
#define COMMTAP_STRAGGLERS_COMPARISON_GROUPS_H

#include "analyzer/match/cut.h"
#include "analyzer/match/directory.h"

struct comparison_groups {
    size_t count;
    uint32_t *communicators; /* per comparison group: index into the directory, NOWHERE without one */
    bool *collectives;       /* per comparison group: its ranks meet in collectives in every step */
    bool *often;             /* per comparison group: it is compared by what every step holds, not a few collectives */
    uint64_t *calls;         /* per comparison group: about so many collectives of each rank; UINT64_MAX where it is
                                compared by messages */
    bool *met;          /* per communicator of the directory: its ranks meet there again and again, all along the run */
    uint32_t *group_of; /* per dump: comparison group or NOWHERE */
    struct cut *cuts;   /* per dump: what ends its stretches */
    struct cut
        *tasks; /* per dump: what ends its tasks where work is dealt out on demand, beside that; CUT_NONE: nothing */
};

/* Returns false when memory is short; the caller frees with comparison_groups_free in every case. */
bool comparison_groups_choose(struct comparison_groups *groups, const struct match_directory *directory);
void comparison_groups_free(struct comparison_groups *groups);

#endif
