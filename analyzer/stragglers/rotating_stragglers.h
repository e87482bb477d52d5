/* SPDX-License-Identifier: Apache-2.0
 *
 * Is another rank slow each time?
 * Lives here: the test on a table of self times before single collectives.
 * Must not live here: where the table comes from, what a claim needs besides, words.
 *
 * Uneven input lengths, garbage collection or checkpoint writers make some rank late in most steps, and each time
 * another: no rank is slow on average, but the slowest of each step is, and everybody waits for it. Noise has a
 * slowest rank each time as well. What noise can explain is measured on the same collective: of values whose tail
 * falls as an exponential does, the gaps between the largest ones, the j-th times j, are on average equal (Renyi);
 * where the tail falls faster (Gaussian, bounded, two-valued noise), the gap at the top is smaller than the others say.
 * The excess of a collective is how far its slowest rank lies above the next ones, less what the gaps below say:
 * on average 0 or less whatever the noise, unless its tail is heavier than exponential. It is tested whether its mean
 * is above 0, over batches of the run, and whether it is large more often than noise allows. How many ranks are slow at
 * once is not known: "the next ones" begin behind the slowest, or the slowest 2, 4, 8 ... Where the time between
 * collectives shows a period, a period's times are added up, from each of its places on, and tested, too: a rank that
 * is slow in all of a step stands out more clearly there. Of what is significant after correction for all these tests,
 * the costliest counts.
 *
 * What is slow all the while is taken out first (a column's median ratio to its peers). Where most of the excess is one
 * rank's or one host's, nobody takes turns.
 */
#ifndef COMMTAP_STRAGGLERS_ROTATING_STRAGGLERS_H
#define COMMTAP_STRAGGLERS_ROTATING_STRAGGLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROTATING_COLUMNS_MIN = 4, ROTATING_PEERS_MIN = 3, ROTATING_ROWS_MIN = 16 };

/* Self times before collectives (rows, by ascending number) on ranks (columns), rows * columns values, ns >= 0. Rank
 * classes number the ranks that do the same work, each has at least ROTATING_PEERS_MIN; hosts are numbered 0 ..
 * host_count - 1.
 */
struct rotating_table {
    size_t rows, columns;
    const int64_t *self_ns;
    const uint32_t *numbers;            /* per row */
    const uint32_t *class_of, *host_of; /* per column */
    size_t host_count;
    unsigned begin; /* where rows hold several collectives: number of the first of these modulo how many they are */
};

struct rotating {
    double confidence; /* as in significance.h, at least CONFIDENCE_VERDICT; 0 where nobody takes turns */
    double lead_ns;    /* per collective, how far the slowest lies above the next ones in rows in which it stands out */
    double extra_ns;   /* the excess of the mean collective */
    unsigned width;    /* collectives that were taken together */
    unsigned begin;    /* ... and the number of the first of them modulo that */
    size_t rows;       /* of so many */
    size_t stood_out;  /* rows in which a rank stands out */
    double ratio;      /* in these, its self time / median of its rank class */
    double most;       /* share of these in which the same rank is the slowest, of the rank with most */
    uint32_t *times_slowest; /* per column: number of these in which it is the slowest */
};

/* Judges the table. With fewer columns or rows than the least, or where one rank or host has most of the excess,
 * confidence is 0. Returns false when memory is short; the caller frees with rotating_free in every case. */
bool rotating_judge(const struct rotating_table *table, struct rotating *rotating);
void rotating_free(struct rotating *rotating);

#endif
