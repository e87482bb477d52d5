/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose are the leads? A rank that is slow in few steps, or for a part of the run, and never on the average.
 * Lives here: the test on a table of self times of single stretches.
 * Must not live here: where the table comes from, when such a rank is slow (slow_stretches.h), what a claim needs
 * besides, words.
 *
 * In each stretch the slowest rank is ahead of the second slowest by a lead, and that is what the others wait for.
 * Where nobody is slow the ranks are exchangeable: whatever the leads are, each is any rank's with equal chance. So the
 * sum of the leads that are one rank's is a sum of independent draws whose law is known, heavy tails or not. The chance
 * that it comes to as much is at most Chernoff's bound of it, and is worked out where that is small. One huge lead
 * proves nothing: it has to be somebody's; what a rank is told by and what it costs are of the same stretches. The same
 * is tested without the few stretches that take most of the time (kept_rows.h), and whether a rank is among the slowest
 * all along a part of the run (slow_part.h).
 *
 * Of two ranks that are slow in the very same stretches neither leads the other by much. Both lead the third: the same
 * test is made on by how much the two slowest of a stretch are ahead, which chance gives any rank in 2 of n stretches.
 *
 * Stretches that follow each other may resemble each other. How much they do is measured on the places of the others
 * among themselves: by how much more the means over an eighth of the run differ than places drawn anew in each stretch
 * would. That many stretches and one more are then added up into one; what remains of the likeness is measured once
 * more, and that many of these count as one. Slow stretches far apart so keep their weight.
 */
#ifndef COMMTAP_LEADS_LEADS_H
#define COMMTAP_LEADS_LEADS_H

#include "analyzer/leads/leads_table.h"

/* Judges every column into out[columns]. With fewer than two columns, or too few rows, nobody is judged. On up to
 * `threads` threads, with the same result for any number. Returns false when memory is short. */
bool leads_judge(const struct leads_table *table, unsigned threads, struct rank_leads *out);

/* Corrects for testing `count` ranks at once, and for this being one of two tests. Returns false when memory is
 * short. */
bool leads_correct(struct rank_leads *const *ranks, size_t count);

#endif
