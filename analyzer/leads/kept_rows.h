/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of self times without some of its rows.
 * Lives here: which rows are left out. Must not live here: who leads in the others (leads.h).
 */
#ifndef COMMTAP_LEADS_KEPT_ROWS_H
#define COMMTAP_LEADS_KEPT_ROWS_H

#include "analyzer/leads/lead_rows.h"

struct kept_rows {
    struct leads_table table; /* without any rows where none was left out */
    int64_t *self_ns;
    uint32_t *numbers;
    size_t *row_of; /* of each of its rows: in the table of all */
};

/* Leaves out those few stretches that take most of the time: in the long ones of a warm-up chance alone leads by more
 * than a slow rank does all the rest of the run. The longest, over all ranks, until half of the others count by Kish's
 * effective number (sum)^2 / (sum of squares) of their lengths ("Survey Sampling", 1965). Which they are says nothing
 * of whose they are: the ranks remain exchangeable. */
bool kept_rows_usual(struct kept_rows *kept, const struct leads_table *table);

/* Leaves out where somebody leads by `least` or more: one of `leads` per row. */
bool kept_rows_below(struct kept_rows *kept, const struct leads_table *table, const struct lead *leads, double least);

/* Both return false when memory is short; this is due either way. */
void kept_rows_free(struct kept_rows *kept);

#endif
