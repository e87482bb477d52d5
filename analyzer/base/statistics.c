/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

int64_t median_int64(int64_t *values, size_t count) {
    int64_t low = median_low_int64(values, count), high = values[count / 2];
    return low + (int64_t)(((uint64_t)high - (uint64_t)low) / 2);
}

/* The middle value; of an even number the lower or the higher of the two in the middle. Sorts. */
#define MEDIANS(kind, type)                                                                                            \
    type median_low_##kind(type *values, size_t count) {                                                               \
        qsort(values, count, sizeof *values, compare_##kind);                                                          \
        return values[(count - 1) / 2];                                                                                \
    }                                                                                                                  \
    type median_high_##kind(type *values, size_t count) {                                                              \
        qsort(values, count, sizeof *values, compare_##kind);                                                          \
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
