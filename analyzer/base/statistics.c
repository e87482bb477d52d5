/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/radix_sort.h"
#include "analyzer/base/sort.h"

#define COMPARE_VALUES(name, type)                                                                                     \
    int name(const void *a, const void *b) {                                                                           \
        type left = *(const type *)a, right = *(const type *)b;                                                        \
        return (left > right) - (left < right);                                                                        \
    }
COMPARE_VALUES(compare_int32, int32_t)
COMPARE_VALUES(compare_int64, int64_t)
COMPARE_VALUES(compare_uint64, uint64_t)
COMPARE_VALUES(compare_double, double)

int compare_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

#define LESS_VALUE(a, b) (*(a) < *(b))
DEFINE_SORT(sort_each_int64, int64_t, LESS_VALUE, compare_int64)
DEFINE_SORT(sort_each_double, double, LESS_VALUE, compare_double)

void sort_int64(int64_t *values, size_t count) {
    sort_each_int64(values, count);
}

void sort_double(double *values, size_t count) {
    sort_each_double(values, count);
}

static int64_t half_way(int64_t low, int64_t high) {
    return low + (int64_t)(((uint64_t)high - (uint64_t)low) / 2);
}

int64_t median_int64(int64_t *values, size_t count) {
    int64_t low = median_low_int64(values, count);
    return half_way(low, values[count / 2]);
}

/* ---- the middle of many ------------------------------------------------------------------------------------------ */

enum { FEW = 256, DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

static size_t digit_of(int64_t value, unsigned shift) {
    return sort_value(value) >> shift & (DIGITS - 1);
}

/* From where on the highest digit goes in which values differ; 64: they are all alike. */
static unsigned highest_digit(const int64_t *values, size_t count) {
    uint64_t all = UINT64_MAX, any = 0;
    for (size_t i = 0; i < count; i++) {
        all &= sort_value(values[i]);
        any |= sort_value(values[i]);
    }
    if (all == any)
        return 64;
    unsigned highest = 63 - (unsigned)__builtin_clzll(all ^ any);
    return highest < DIGIT_BITS ? 0 : highest + 1 - DIGIT_BITS;
}

/* The largest value with that digit, and the smallest with a higher one. */
static int64_t half_way_beyond(const int64_t *values, size_t count, unsigned shift, size_t digit) {
    int64_t low = INT64_MIN, high = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t own = digit_of(values[i], shift);
        low = own == digit && values[i] > low ? values[i] : low;
        high = own > digit && values[i] < high ? values[i] : high;
    }
    return half_way(low, high);
}

static size_t keep_digit(int64_t *values, size_t count, unsigned shift, size_t digit) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (digit_of(values[i], shift) == digit)
            values[kept++] = values[i];
    return kept;
}

/* Digit by digit from the highest, of those that have the middle one's so far. */
int64_t median_unsorted_int64(int64_t *values, size_t count) {
    size_t low = (count - 1) / 2, high = count / 2; /* places of the two in the middle */
    while (count > FEW) {
        size_t counts[DIGITS] = {0}, digit = 0;
        unsigned shift = highest_digit(values, count);
        if (shift == 64)
            return values[0];
        for (size_t i = 0; i < count; i++)
            counts[digit_of(values[i], shift)]++;
        for (; low >= counts[digit]; digit++) {
            low -= counts[digit];
            high -= counts[digit];
        }
        if (high >= counts[digit])
            return half_way_beyond(values, count, shift, digit);
        count = keep_digit(values, count, shift, digit);
    }
    sort_int64(values, count);
    return half_way(values[low], values[high]);
}

/* ---- sorted ------------------------------------------------------------------------------------------------------ */

/* The middle value; of an even number the lower or the higher of the two in the middle. Sorts. */
#define MEDIANS(kind, type)                                                                                            \
    type median_low_##kind(type *values, size_t count) {                                                               \
        sort_##kind(values, count);                                                                                    \
        return values[(count - 1) / 2];                                                                                \
    }                                                                                                                  \
    type median_high_##kind(type *values, size_t count) {                                                              \
        sort_##kind(values, count);                                                                                    \
        return values[count / 2];                                                                                      \
    }
MEDIANS(int64, int64_t)
MEDIANS(double, double)

double median_double(double *values, size_t count) {
    double low = median_low_double(values, count);
    return count % 2 ? low : (low + values[count / 2]) / 2;
}

double quantile_low_double(const double *sorted, size_t count, unsigned percent) {
    return sorted[percent * (count - 1) / 100];
}

void distances_from(double *values, size_t count, double center) {
    for (size_t i = 0; i < count; i++)
        values[i] = fabs(values[i] - center);
}
