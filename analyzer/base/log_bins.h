/* SPDX-License-Identifier: Apache-2.0
 *
 * How times (or sizes) are distributed, to an eighth, in little room: bins that grow with the value.
 * Lives here: which bin a value falls into, quantiles and shares of a filled histogram.
 * Must not live here: what the values are.
 */
#ifndef COMMTAP_BASE_LOG_BINS_H
#define COMMTAP_BASE_LOG_BINS_H

#include <stdint.h>

enum { LOG_BINS = 200 }; /* 8 to an octave from 512 on: as ns, 17 s */

/* Below 512: 0; above the last: the last. */
uint32_t log_bin_of(uint64_t value);

/* The value below which `share` (0 .. 1) of the `count` > 0 entries lie, between a bin's edges in proportion. */
double log_bins_quantile(const uint32_t bins[LOG_BINS], uint64_t count, double share);

/* Share of the `count` > 0 entries in bins above that of `value`. */
double log_bins_above(const uint32_t bins[LOG_BINS], uint64_t count, double value);

/* Standard deviation of ln of that quantile where `worth` of the entries are independent, from its neighbours. */
double log_bins_error(const uint32_t bins[LOG_BINS], uint64_t count, double share, double worth);

#endif
