/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/leads/rank_rows.h"

#include <stdlib.h>

#include "analyzer/base/sort.h"
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

static bool is_less(const struct row_value *a, const struct row_value *b) {
    return a->value < b->value || (a->value == b->value && a->row < b->row);
}

static int compare_row_values(const void *a, const void *b) {
    return is_less(b, a) - is_less(a, b);
}

DEFINE_SORT(sort_each, struct row_value, is_less, compare_row_values)

void sort_row_values(struct row_value *values, size_t count) {
    sort_each(values, count);
}
