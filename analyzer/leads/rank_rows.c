/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/leads/rank_rows.h"

#include <stdlib.h>

#include "analyzer/base/statistics.h"

bool rank_rows_init(struct rank_rows *rank, const struct leads_table *table, size_t column) {
    size_t n = table->columns;
    *rank = (struct rank_rows){.rows = table->rows,
                               .own = calloc(table->rows + 1, sizeof *rank->own),
                               .others = calloc(table->rows + 1, sizeof *rank->others),
                               .above = calloc(table->rows + 1, sizeof *rank->above)};
    int64_t *row_of = malloc(n * sizeof *row_of);
    bool done = rank->own && rank->others && rank->above && row_of;
    for (size_t row = 0; done && row < table->rows; row++) {
        const int64_t *self = table->self_ns + row * n;
        for (size_t c = 0, at = 0; c < n; c++)
            if (c != column)
                row_of[at++] = self[c];
        rank->own[row] = (double)self[column];
        rank->others[row] = (double)median_int64(row_of, n - 1);
        rank->above[row] = rank->own[row] - rank->others[row];
    }
    free(row_of);
    return done;
}

void rank_rows_free(struct rank_rows *rank) {
    free(rank->own);
    free(rank->others);
    free(rank->above);
}

static int compare_row_values(const void *a, const void *b) {
    const struct row_value *left = a, *right = b;
    if (left->value != right->value)
        return left->value < right->value ? -1 : 1;
    return left->row < right->row ? -1 : left->row > right->row;
}

void sort_row_values(struct row_value *values, size_t count) {
    qsort(values, count, sizeof *values, compare_row_values);
}
