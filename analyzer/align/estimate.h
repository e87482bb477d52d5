/* SPDX-License-Identifier: Apache-2.0
 *
 * From observations to one map per host.
 * Lives here: the order in which hosts find their place, the likely line, its guaranteed bounds, wandering clocks.
 * Must not live here: dumps, records.
 *
 * Common time is the first host's clock. Per host, in stretches of time: the likely line through the differences of its
 * exits from the median exit of all hosts, clipped into the corridor that causality guarantees. Where no line fits the
 * corridor the clock wanders: the stretch is halved. (Method and evidence: block medians of exits are right to a few
 * microseconds even with one host always late, where the middle of the corridor is off by tens.)
 */
#ifndef COMMTAP_ALIGN_ESTIMATE_H
#define COMMTAP_ALIGN_ESTIMATE_H

#include "analyzer/align/observations.h"

/* Fills in offset, knots, errors and counts of every host but the first from `observations`. On entry the hosts'
 * offsets are first guesses and their errors are those of reading a clock. Returns false when memory is short. */
bool clock_estimate(struct clock_host *hosts, size_t host_count, const struct observations *observations);

#endif
