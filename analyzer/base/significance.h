/* SPDX-License-Identifier: Apache-2.0
 *
 * Is one of many slower than the others, or is it chance?
 * Lives here: the test on a table of self times, and the correction for testing many at once.
 * Must not live here: where the table comes from, what follows from the answer.
 *
 * The table has one row per batch of the run and one column per subject (rank, host). Where nobody is slow the
 * subjects are exchangeable: in each batch any order of them is equally likely, whatever the noise looks like.
 * Two figures are tested against that: how often a subject is the slowest (binomial, 1/n) and where it stands on
 * average (rank sum). Batches that follow each other may resemble each other; the number of batches is reduced by their
 * autocorrelation before the test. Where that leaves too few, only a subject that is more than twice as slow as the
 * others in every batch can be told from a drift, by how far it stands above the drift's steps.
 */
#ifndef COMMTAP_BASE_SIGNIFICANCE_H
#define COMMTAP_BASE_SIGNIFICANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* With fewer than 8 not even a rank of two that was slower in all can be claimed: 2 * 2^-8 <= 0.01. More than 32 are
 * not asked for: they are shorter, and resemble each other more. */
enum { TIME_BATCHES_MIN = 8, TIME_BATCHES_MOST = 32 };

struct significance {
    double ratio;       /* median over the batches of own time / median time of the others; 0 = unknown */
    double persistence; /* share of batches in which that is above SLOW_RATIO */
    double slowest;     /* share of batches in which it was the slowest of all */
    double p;           /* chance of this or more where nobody is slow */
    double confidence;  /* 0 .. 0.999, set by significance_correct; 0.9 = one false alarm in a hundred such jobs */
};

/* What the rows of a table are. Steps are alike by themselves, and often few: of fewer than TIME_BATCHES_MIN a subject
 * that is the slowest in each is also told from chance by how far it stands above its own variation (Student). */
enum significance_rows { ROWS_ARE_TIME, ROWS_ARE_STEPS };
enum { STEP_ROWS_MIN = 3 }; /* two tell a deviation, but hardly how large it is usually */

#define SLOW_RATIO         1.05
#define CONFIDENCE_VERDICT 0.9
#define CONFIDENCE_SUSPECT 0.5

/* Judges `subjects` >= 2 columns of `self` (batches * subjects, row by row, ns >= 0) into out[subjects]. Batches in
 * which all times are 0 are left out. With fewer than TIME_BATCHES_MIN batches, or STEP_ROWS_MIN steps, p is 1. Returns
 * the number of batches that count as independent, negative when memory is short. */
double significance_judge(const int64_t *self, size_t batches, size_t subjects, enum significance_rows rows,
                          struct significance *out);

/* Corrects for testing `count` subjects at once (Benjamini-Hochberg) and sets confidence = 1 - 10 q. Returns false
 * when memory is short. */
bool significance_correct(struct significance *const *subjects, size_t count);

/* ln(n!), from any thread. */
double log_factorial(double n);

/* Chance of `hits` or more of `trials` where each has `chance`. */
double binomial_tail(unsigned trials, unsigned hits, double chance);

/* Chance that Student's t with `degrees` >= 1 degrees of freedom is as far from 0 as `t`, both directions. */
double student_both_tails(double t, unsigned degrees);

/* Median of the others: values sorted ascending, `position` the place of the one to leave out. */
int64_t median_without(const int64_t *sorted, size_t count, size_t position);

#endif
