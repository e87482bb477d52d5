/* SPDX-License-Identifier: Apache-2.0
 *
 * Order statistics, and the orders themselves.
 * Lives here: comparing numbers and texts for qsort, sorting numbers, medians, quantiles, distances from a middle.
 * Must not live here: histograms (log_bins.h), tests (significance.h).
 *
 * Medians sort `values` ascending and leave them so, where nothing else is said; `count` is above 0. Of an even number
 * there are two in the middle: `median` is half-way between them, `median_low` the lower one, which a single slow one
 * does not move, `median_high` the upper one.
 */
#ifndef COMMTAP_BASE_STATISTICS_H
#define COMMTAP_BASE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

/* For qsort, ascending. */
int compare_int32(const void *a, const void *b);
int compare_int64(const void *a, const void *b);
int compare_uint64(const void *a, const void *b);
int compare_double(const void *a, const void *b);
int compare_text(const void *a, const void *b); /* of pointers to texts */

/* Ascending. */
void sort_int64(int64_t *values, size_t count);
void sort_double(double *values, size_t count);

/* Half-way is rounded towards the lower one, and never runs over. */
int64_t median_int64(int64_t *values, size_t count);
/* The same of many; leaves them in no order, and some of them not at all. */
int64_t median_unsorted_int64(int64_t *values, size_t count);
int64_t median_low_int64(int64_t *values, size_t count);
int64_t median_high_int64(int64_t *values, size_t count);

double median_double(double *values, size_t count);
double median_low_double(double *values, size_t count);
double median_high_double(double *values, size_t count);

/* The value that `percent` of the others lie at or below, the lower one between two. */
double quantile_low_double(const double *sorted, size_t count, unsigned percent);

/* Puts the distance from `center` in place of each value. */
void distances_from(double *values, size_t count, double center);

/* Of a normal distribution: the standard deviation in multiples of the median distance from the median, and the
 * quantiles of the distance from the middle in standard deviations. */
#define SD_OF_MEDIAN_DISTANCE 1.4826
#define NORMAL_DISTANCE_P60   0.8416
#define NORMAL_DISTANCE_P90   1.645

#endif
