/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes a suspicion a claim.
 * Lives here: naming hosts, ranks, rank classes, turns and links once they are judged, and what they cost. Of analyse.c
 * only.
 * Must not live here: the walk, the statistics (significance.h, rotating_stragglers.h, links.h), printing.
 */
#ifndef COMMTAP_STRAGGLERS_VERDICTS_H
#define COMMTAP_STRAGGLERS_VERDICTS_H

#include "analyzer/stragglers/time_batches.h"
#include "analyzer/stragglers/stragglers.h"

enum {
    VERDICT_SHARE = 100,       /* what costs at least one hundredth of the time looked at matters */
    VERDICT_LINKS_MOST = 16,   /* named; the costliest */
    VERDICT_UNEVEN_SHARE = 3,  /* more than a third of the ranks slow: not stragglers */
    VERDICT_LESSER_SHARE = 10, /* those above that take a tenth of what all take longer, or less, are in doubt */
    VERDICT_TWO_OF = 4,        /* of so many two may be: the median of the three others is one that is not */
};

/* Of who is slow beyond chance, but next to nothing beside others: below CONFIDENCE_VERDICT. */
#define CONFIDENCE_DOUBTED 0.89

/* Where a comparison group's verdicts are gathered. */
struct verdicts {
    struct straggler_analysis *analysis;
    const struct time_batches *batches;
    size_t *lists;   /* next free place in dump_lists */
    bool *explained; /* per dump: its host is named */
    bool by_waits; /* what ranks work is known, by more than a hundredth, only from their waits, which tell of all work
                      since the wait before: more at once than in one stretch */
};

/* Whether ranks can hold up the others at all. Where equal slices of time are compared the busiest is who gets most
 * done, and work that is handed out on demand goes to whoever is free: there it has to be those that are waited for
 * more than all others of their comparison group together, those who are not compared included. Elsewhere always. */
bool verdicts_may_hold_up(const struct straggler_analysis *analysis, const size_t *dumps, size_t count);
/* Chance of what has chance `p` by itself, with all the times that somebody is looked for (struct straggler_analysis,
 * beside_left_out). */
double verdicts_chance(const struct straggler_analysis *analysis, double p);
/* Names the rank classes, hosts and ranks of a comparison group, and that its ranks take turns. Takes out of `batches`
 * what rank classes explain. Returns false when memory is short, as all below. */
bool verdicts_name_comparison_group(struct verdicts *verdicts, const struct rank_classes *classes,
                                    struct time_batches *batches);
/* That ranks of verdicts->batches take turns, after those that are slow for themselves are named. */
bool verdicts_name_rotating(struct verdicts *verdicts, const struct rank_classes *classes);
/* *unlike: two ranks do different work, for in most stretches one of them does next to nothing. Neither has a peer
 * then: who works all the while cannot be judged, and the other one, as a master that writes checkpoints, only by how
 * far each of its stretches is from what is usual for it, into analysis->leads. */
bool verdicts_judge_unlike(struct straggler_analysis *analysis, const struct time_batches *batches, bool *unlike);
/* Whose the leads of the comparison group's stretches are, into analysis->leads. */
bool verdicts_judge_leads(struct straggler_analysis *analysis, const struct rank_classes *classes,
                          const struct time_batches *batches);
/* Slow links. */
bool verdicts_name_links(struct verdicts *verdicts);
/* What only collectives show, after all else is named; `explained`, per dump, is overwritten. */
bool verdicts_name_groups(struct straggler_analysis *analysis, bool *explained);

/* Is the dump one of those that the straggler is about? */
bool straggler_concerns(const struct straggler *straggler, size_t dump);

#endif
