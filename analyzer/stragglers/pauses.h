/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that was away once.
 * Lives here: whether what it worked longer than its peers is one piece. Must not live here: how long the others waited
 * (waits.h), words.
 */
#ifndef COMMTAP_STRAGGLERS_PAUSES_H
#define COMMTAP_STRAGGLERS_PAUSES_H

#include "analyzer/stragglers/stragglers.h"

/* Whether most of what the rank worked longer than the median of those it is compared with, in all, lies in stretches
 * that follow each other: a pause that several collectives were waited in, as a first step in which a program is
 * compiled. False also where it is compared with nobody. *no_memory is set where memory is short. */
bool pause_is_one(const struct straggler_analysis *analysis, size_t dump, bool *no_memory);

#endif
