/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose are the leads? A rank that is slow in few steps, or for a part of the run, and never on the average.
 * Lives here: the test on a table of self times of single stretches, and when such a rank is slow.
 * Must not live here: where the table comes from, what a claim needs besides, words.
 *
 * In each stretch the slowest rank is ahead of the second slowest by a lead, and that is what the others wait for.
 * Where nobody is slow the ranks are exchangeable: whatever the leads are, each is any rank's with equal chance. So the
 * sum of the leads that are one rank's is a sum of independent draws whose law is known, heavy tails or not, and the
 * chance that it comes to as much is at most Chernoff's bound of it. One huge lead proves nothing: it has to be
 * somebody's.
 *
 * Stretches that follow each other may resemble each other. How much they do is measured on the other ranks' places: by
 * how much more the means over an eighth of the run differ than places drawn anew in each stretch would. That many
 * stretches count as one.
 */
#ifndef COMMTAP_STRAGGLERS_LEADS_H
#define COMMTAP_STRAGGLERS_LEADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Self times of stretches (rows, by ascending number) on ranks of one class (columns): rows * columns values, ns >= 0.
 */
struct leads_table {
    size_t rows, columns;
    const int64_t *self_ns;
    const uint32_t *numbers; /* per row */
};

struct rank_leads {
    double p;          /* chance of as much where nobody is slow; 1 where too little is known */
    double confidence; /* as in significance.h, set by leads_correct */
    double lead_ns;    /* of its mean stretch, less the median rank's: what goes of each stretch on its account */
    double self_ratio; /* all of its time / all of the median rank's; 0: not judged */
    /* when it is slow: the stretches that stand apart from its others */
    size_t rows, slow_rows;
    double slow_ratio; /* in these, its time / the median's */
    double longer_ns;  /* by how much longer such a stretch is, on average */
    uint32_t first,
        last;       /* most lie between these places of the run, in 1/1000: one in EDGE on either side is left out */
    uint32_t every; /* most of them come so many stretches after the one before; 0: not regularly */
};

/* Judges every column into out[columns]. With fewer than two columns, or too few rows, nobody is judged. Returns false
 * when memory is short. */
bool leads_judge(const struct leads_table *table, struct rank_leads *out);

/* Corrects for testing `count` ranks at once, and for this being one of two tests. Returns false when memory is
 * short. */
bool leads_correct(struct rank_leads *const *ranks, size_t count);

#endif
