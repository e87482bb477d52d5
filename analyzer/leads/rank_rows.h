/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank's stretches beside those of the others.
 * Lives here: by how much longer each is, and their order. Must not live here: which of them are slow
 * (slow_stretches.h, regular_rows.h).
 */
#ifndef COMMTAP_LEADS_RANK_ROWS_H
#define COMMTAP_LEADS_RANK_ROWS_H

#include "analyzer/leads/leads_table.h"

/* Per row of the table. */
struct rank_rows {
    size_t rows;
    double *own, *others; /* self time, and the median of the others' */
    double *above;        /* own less the others' */
};

/* With two columns or more. Returns false when memory is short; rank_rows_free is due either way. */
bool rank_rows_init(struct rank_rows *rank, const struct leads_table *table, size_t column);

void rank_rows_free(struct rank_rows *rank);

struct row_value {
    double value;
    size_t row;
};

/* Sorts ascending by value, then by row. */
void sort_row_values(struct row_value *values, size_t count);

#endif
