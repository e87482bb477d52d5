/* SPDX-License-Identifier: Apache-2.0
 *
 * When a rank is slow: in few stretches, regularly or not, or for a part of the run.
 * Lives here: telling its slow stretches from its others. Must not live here: whether it is slow at all (leads.h).
 *
 * For a part of the run: the part in which its times above the others' median stand highest among all of its own, by
 * their places (a rank sum, so that a few huge ones make no part), if they do beyond chance and its median stretch
 * there is slow. Else its slow stretches are those above the point where these times fall apart into two kinds (Otsu,
 * "A threshold selection method from gray-level histograms", 1979).
 */
#ifndef COMMTAP_LEADS_SLOW_STRETCHES_H
#define COMMTAP_LEADS_SLOW_STRETCHES_H

#include "analyzer/leads/leads_table.h"

/* Notes a slow stretch, after those before it, where there is room and all stretches of the table are on record. */
void slow_stretches_note(const struct leads_table *table, struct rank_leads *out, uint32_t number);

/* The distance at which most of ascending numbers follow each other, none left out; 0: there is none. */
uint32_t slow_stretches_distance(const uint32_t *numbers, unsigned count);

/* Fills in what `out` says of when the column is slow, and its self_ratio. Returns false when memory is short. */
bool slow_stretches_find(const struct leads_table *table, size_t column, struct rank_leads *out);

#endif
