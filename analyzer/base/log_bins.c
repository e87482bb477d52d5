/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight linear bins per octave.
 */
#include "analyzer/base/log_bins.h"

#include <math.h>

enum { FIRST_OCTAVE = 9 }; /* 512 */

uint32_t log_bin_of(uint64_t value) {
    if (value < 1 << FIRST_OCTAVE)
        return 0;
    unsigned octave = 63 - (unsigned)__builtin_clzll(value);
    unsigned bin = (octave - FIRST_OCTAVE) * 8 + (unsigned)(value >> (octave - 3) & 7);
    return bin < LOG_BINS ? bin : LOG_BINS - 1;
}

static double edge_of(unsigned bin) {
    return ldexp(8 + bin % 8, FIRST_OCTAVE - 3 + (int)(bin / 8));
}

double log_bins_quantile(const uint32_t bins[LOG_BINS], uint64_t count, double share) {
    double wanted = share * (double)count, below = 0;
    unsigned bin = 0;
    while (bin < LOG_BINS - 1 && below + bins[bin] < wanted)
        below += bins[bin++];
    double inside = bins[bin] ? (wanted - below) / bins[bin] : 0;
    return edge_of(bin) + inside * (edge_of(bin + 1) - edge_of(bin));
}

double log_bins_above(const uint32_t bins[LOG_BINS], uint64_t count, double value) {
    uint64_t above = 0;
    for (unsigned b = log_bin_of((uint64_t)value) + 1; b < LOG_BINS; b++)
        above += bins[b];
    return (double)above / (double)count;
}

double log_bins_error(const uint32_t bins[LOG_BINS], uint64_t count, double share, double worth) {
    double apart = sqrt(share * (1 - share) / worth);
    double low = share - apart > 0 ? share - apart : 0, high = share + apart < 1 ? share + apart : 1;
    return (log(log_bins_quantile(bins, count, high)) - log(log_bins_quantile(bins, count, low))) / 2;
}
