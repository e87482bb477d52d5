/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int compare_int32(const void *a, const void *b) {
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

int compare_int64(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

int compare_uint64(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

int compare_double(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int compare_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int64_t median_int64(int64_t *values, size_t count) {
    int64_t low = median_low_int64(values, count), high = values[count / 2];
    return low + (int64_t)(((uint64_t)high - (uint64_t)low) / 2);
}

int64_t median_low_int64(int64_t *values, size_t count) {
    qsort(values, count, sizeof *values, compare_int64);
    return values[(count - 1) / 2];
}

int64_t median_high_int64(int64_t *values, size_t count) {
    qsort(values, count, sizeof *values, compare_int64);
    return values[count / 2];
}

double median_double(double *values, size_t count) {
    double low = median_low_double(values, count);
    return count % 2 ? low : (low + values[count / 2]) / 2;
}

double median_low_double(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_double);
    return values[(count - 1) / 2];
}

double median_high_double(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_double);
    return values[count / 2];
}

double quantile_low_double(const double *sorted, size_t count, unsigned percent) {
    return sorted[percent * (count - 1) / 100];
}

void distances_from(double *values, size_t count, double center) {
    for (size_t i = 0; i < count; i++)
        values[i] = fabs(values[i] - center);
}
