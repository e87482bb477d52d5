/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes a suspicion a claim.
 * Lives here: naming hosts, ranks, roles, turns and links once they are judged, and what they cost. Of analyse.c
 * only. Must not live here: the walk, the statistics (significance.h, rotating_stragglers.h, links.h), printing.
 */
#ifndef COMMTAP_STRAGGLERS_VERDICTS_H
#define COMMTAP_STRAGGLERS_VERDICTS_H

#include "analyzer/stragglers/time_batches.h"
#include "analyzer/stragglers/stragglers.h"

enum {
    CLAIM_SHARE = 100,      /* what costs at least one hundredth of the time looked at matters */
    CLAIM_LINKS_MOST = 16,  /* named; the costliest */
    CLAIM_UNEVEN_SHARE = 3, /* more than a third of the ranks slow: not stragglers */
};

/* Where a cohort's verdicts are gathered. */
struct verdicts {
    struct straggler_analysis *analysis;
    const struct blocks *blocks;
    size_t *lists;   /* next free place in dump_lists */
    bool *explained; /* per dump: its host is named */
};

/* Names the roles, hosts and ranks of a cohort, and that its ranks take turns. Takes out of `blocks` what roles
 * explain. Returns false when memory is short, as all below. */
bool claims_name_cohort(struct verdicts *verdicts, const struct roles *roles, struct blocks *blocks);
/* That ranks of verdicts->blocks take turns, after those that are slow for themselves are named. */
bool claims_name_turns(struct verdicts *verdicts, const struct roles *roles);
/* Slow links. */
bool claims_name_links(struct verdicts *verdicts);
/* What only collectives show, after all else is named; `explained`, per dump, is overwritten. */
bool claims_name_groups(struct straggler_analysis *analysis, bool *explained);

/* Is the dump one of those that the straggler is about? */
bool claims_concern(const struct straggler *straggler, size_t dump);

#endif
