/* SPDX-License-Identifier: Apache-2.0
 *
 * From observations to one map per clock domain.
 * Lives here: the order in which domains find their place, the likely line, its guaranteed bounds, wandering clocks.
 * Must not live here: dumps, records.
 *
 * Common time is the first domain's clock. Per domain, in stretches of time: the likely line through the differences of
 * its exits from the median exit of all domains, clipped into the corridor that causality guarantees. Where no line
 * fits the corridor the clock wanders: the stretch is halved. (Method and evidence: block medians of exits are right to
 * a few microseconds even with one domain always late, where the middle of the corridor is off by tens.)
 */
#ifndef COMMTAP_ALIGN_ESTIMATE_H
#define COMMTAP_ALIGN_ESTIMATE_H

#include "analyzer/align/observations.h"

/* Fills in offset, knots, errors and counts of every domain but the first from `observations`. On entry the domains'
 * offsets are first guesses and their errors are those of reading a clock. Returns false when memory is short. */
bool clock_estimate(struct clock_domain *domains, size_t domain_count, const struct observations *observations);

#endif
