/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/leads/kept_rows.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/statistics.h"

enum { EFFECTIVE_PART = 2 }; /* half of the stretches count */

/* Keeps the rows whose value is `most` or less. */
static bool keep_rows(struct kept_rows *kept, const struct leads_table *table, const double *values, double most) {
    size_t n = table->columns, rows = 0;
    for (size_t row = 0; row < table->rows; row++)
        rows += values[row] <= most;
    *kept = (struct kept_rows){.table = *table};
    kept->table.rows = 0;
    if (rows == 0 || rows == table->rows)
        return true;
    kept->table.self_ns = kept->self_ns = calloc(rows * n, sizeof *kept->self_ns);
    kept->table.numbers = kept->numbers = calloc(rows, sizeof *kept->numbers);
    kept->row_of = calloc(rows, sizeof *kept->row_of);
    if (!kept->self_ns || !kept->numbers || !kept->row_of)
        return false;
    for (size_t row = 0; row < table->rows; row++)
        if (values[row] <= most) {
            size_t at = kept->table.rows++;
            memcpy(kept->self_ns + at * n, table->self_ns + row * n, n * sizeof *kept->self_ns);
            kept->numbers[at] = table->numbers[row];
            kept->row_of[at] = row;
        }
    return true;
}

/* The longest of the stretches that remain; `sorted` ascending. */
static double longest_usual(const double *sorted, size_t count) {
    double sum = 0, squares = 0, longest = 0;
    for (size_t i = 0; i < count; i++) {
        sum += sorted[i];
        squares += sorted[i] * sorted[i];
        if (EFFECTIVE_PART * sum * sum >= (double)(i + 1) * squares)
            longest = sorted[i];
    }
    return longest;
}

bool kept_rows_usual(struct kept_rows *kept, const struct leads_table *table) {
    double *lengths = calloc(2 * table->rows + 1, sizeof *lengths), *sorted = lengths + table->rows;
    *kept = (struct kept_rows){0};
    if (!lengths)
        return false;
    for (size_t row = 0; row < table->rows; row++)
        for (size_t c = 0; c < table->columns; c++)
            lengths[row] += (double)table->self_ns[row * table->columns + c];
    memcpy(sorted, lengths, table->rows * sizeof *sorted);
    sort_double(sorted, table->rows);
    bool done = keep_rows(kept, table, lengths, longest_usual(sorted, table->rows));
    free(lengths);
    return done;
}

bool kept_rows_below(struct kept_rows *kept, const struct leads_table *table, const struct lead *leads, double least) {
    double *values = calloc(table->rows + 1, sizeof *values);
    *kept = (struct kept_rows){0};
    if (!values)
        return false;
    for (size_t row = 0; row < table->rows; row++)
        values[row] = leads[row].ns >= least;
    bool done = keep_rows(kept, table, values, 0);
    free(values);
    return done;
}

void kept_rows_free(struct kept_rows *kept) {
    free(kept->self_ns);
    free(kept->numbers);
    free(kept->row_of);
}
