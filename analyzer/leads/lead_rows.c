/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/leads/lead_rows.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/sort.h"
#include "analyzer/base/statistics.h"

enum { ALIKE_COLUMNS = 64 }; /* so many ranks tell how much rows resemble each other as well as all of them */

static bool rows_init(struct lead_rows *rows, size_t count, size_t columns) {
    *rows = (struct lead_rows){.rows = count,
                               .columns = columns,
                               .self = calloc(count * columns, sizeof *rows->self),
                               .places = calloc(count * columns, sizeof *rows->places),
                               .leads = calloc(count, sizeof *rows->leads),
                               .shared = calloc(count, sizeof *rows->shared)};
    return rows->self && rows->places && rows->leads && rows->shared;
}

static void free_values(struct lead_rows *rows) {
    free(rows->self);
    free(rows->places);
    free(rows->leads);
    free(rows->shared);
}

static void drop_added(struct added_rows *added) {
    if (added->rows)
        free_values(added->rows);
    free(added->rows);
    *added = (struct added_rows){0};
}

void rows_free(struct lead_rows *rows) {
    rows_share_end(rows);
    free_values(rows);
}

struct lead_rows rows_share(const struct lead_rows *rows) {
    struct lead_rows share = *rows;
    for (size_t i = 0; i < LEAD_ADDED_KEPT; i++)
        share.added[i] = (struct added_rows){0};
    return share;
}

void rows_share_end(struct lead_rows *share) {
    for (size_t i = 0; i < LEAD_ADDED_KEPT; i++)
        drop_added(&share->added[i]);
}

/* ---- leads, and who has which place -------------------------------------------------------------------------- */

struct placed_value {
    double value;
    uint32_t column;
};

static bool is_less(const struct placed_value *a, const struct placed_value *b) {
    return a->value < b->value || (a->value == b->value && a->column < b->column);
}

static int compare_placed(const void *a, const void *b) {
    return is_less(b, a) - is_less(a, b);
}

DEFINE_SORT(sort_placed, struct placed_value, is_less, compare_placed)

static void place_row(struct lead_rows *rows, size_t row, const struct placed_value *sorted) {
    size_t n = rows->columns;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && sorted[end].value == sorted[i].value; end++)
            ;
        for (size_t k = i; k < end; k++)
            rows->places[row * n + sorted[k].column] = ((double)i + (double)end - 1) / 2;
    }
    const struct placed_value *first = &sorted[n - 1], *second = &sorted[n - 2];
    rows->leads[row] = (struct lead){first->value - second->value, {first->column, first->column}};
    if (n > 2)
        rows->shared[row] = (struct lead){second->value - sorted[n - 3].value, {first->column, second->column}};
}

static bool place_rows(struct lead_rows *rows) {
    struct placed_value *sorted = calloc(rows->columns + 1, sizeof *sorted);
    for (size_t row = 0; sorted && row < rows->rows; row++) {
        for (size_t c = 0; c < rows->columns; c++)
            sorted[c] = (struct placed_value){rows->self[row * rows->columns + c], (uint32_t)c};
        sort_placed(sorted, rows->columns);
        place_row(rows, row, sorted);
    }
    free(sorted);
    return sorted != NULL;
}

/* Makes each value its distance from its column's median, as a multiple of the column's median distance; `unit` gets
 * those. Returns false when memory is short. */
static bool level_columns(struct lead_rows *rows, double *unit) {
    double *column = malloc(rows->rows * sizeof *column);
    for (size_t c = 0; column && c < rows->columns; c++) {
        double *first = rows->self + c;
        for (size_t row = 0; row < rows->rows; row++)
            column[row] = first[row * rows->columns];
        double median = median_double(column, rows->rows);
        distances_from(column, rows->rows, median);
        unit[c] = fmax(1, median_double(column, rows->rows));
        for (size_t row = 0; row < rows->rows; row++)
            first[row * rows->columns] = (first[row * rows->columns] - median) / unit[c];
    }
    free(column);
    return column != NULL;
}

bool rows_single(struct lead_rows *rows, const struct leads_table *table, double *unit) {
    if (!rows_init(rows, table->rows, table->columns))
        return false;
    for (size_t i = 0; i < table->rows * table->columns; i++)
        rows->self[i] = (double)table->self_ns[i];
    for (size_t c = 0; c < table->columns; c++)
        unit[c] = 1;
    return (!table->level || level_columns(rows, unit)) && place_rows(rows);
}

bool rows_at_once(struct lead_rows *rows, const struct lead_rows *single, const struct leads_table *table) {
    size_t n = single->columns;
    uint32_t at_once = table->at_once > 0 ? table->at_once : 1, first = table->numbers[0], slot = UINT32_MAX;
    uint32_t slots = (table->numbers[single->rows - 1] - first + 1) / at_once;
    if (!rows_init(rows, single->rows, n))
        return false;
    rows->rows = 0;
    for (size_t row = 0; row < single->rows && (table->numbers[row] - first) / at_once < slots; row++) {
        rows->rows += (table->numbers[row] - first) / at_once != slot;
        slot = (table->numbers[row] - first) / at_once;
        for (size_t c = 0; c < n; c++)
            rows->self[(rows->rows - 1) * n + c] += single->self[row * n + c];
    }
    return place_rows(rows);
}

/* `width` rows become one; what is left over at the end is left out. */
static bool add_rows(struct lead_rows *rows, const struct lead_rows *single, size_t width) {
    size_t n = single->columns;
    if (!rows_init(rows, single->rows / width, n))
        return false;
    for (size_t row = 0; row < rows->rows * width; row++)
        for (size_t c = 0; c < n; c++)
            rows->self[row / width * n + c] += single->self[row * n + c];
    return place_rows(rows);
}

/* The same for whoever asks: most ranks ask for the same width. NULL: no memory. */
const struct lead_rows *rows_of_width(struct lead_rows *rows, size_t width) {
    struct added_rows *added = &rows->added[width % LEAD_ADDED_KEPT];
    if (added->rows && added->width == width)
        return added->rows;
    drop_added(added);
    *added = (struct added_rows){calloc(1, sizeof *added->rows), width};
    if (!added->rows || !add_rows(added->rows, rows, width)) {
        drop_added(added);
        return NULL;
    }
    return added->rows;
}

bool rows_without(struct lead_rows *rows, const struct lead_rows *from, size_t column) {
    size_t n = from->columns;
    if (!rows_init(rows, from->rows, n - 1))
        return false;
    for (size_t row = 0; row < from->rows; row++)
        for (size_t c = 0; c < n; c++)
            if (c != column)
                rows->self[row * (n - 1) + c - (c > column)] = from->self[row * n + c];
    return place_rows(rows);
}

/* ---- rows that resemble each other --------------------------------------------------------------------------- */

/* A column's place among the others without those left out. */
static double place_without(const struct lead_rows *rows, size_t row, size_t column, struct left_out out) {
    const double *places = rows->places + row * rows->columns;
    double before = 0;
    for (int i = 0; i < 1 + (out.a != out.b); i++) {
        double other = places[i == 0 ? out.a : out.b];
        before += other < places[column] ? 1 : other > places[column] ? 0 : 0.5;
    }
    return places[column] - before;
}

/* How much more the means of a column's places over the parts vary than those of independent rows would. */
static double column_alike(const struct lead_rows *rows, size_t column, struct left_out out) {
    double parts[LEAD_PARTS] = {0}, sum = 0, squares = 0, of_parts = 0, per_part = (double)rows->rows / LEAD_PARTS;
    for (size_t row = 0; row < rows->rows; row++) {
        double place = place_without(rows, row, column, out);
        parts[row * LEAD_PARTS / rows->rows] += place;
        sum += place;
        squares += place * place;
    }
    double mean = sum / (double)rows->rows, variance = squares / (double)rows->rows - mean * mean;
    for (size_t p = 0; p < LEAD_PARTS; p++)
        of_parts += (parts[p] / per_part - mean) * (parts[p] / per_part - mean) / (LEAD_PARTS - 1);
    return variance > 0 ? of_parts * per_part / variance : 1;
}

/* How many rows count as one: the median over the ranks. Whoever is judged, slow in a part of the run, is left out
 * where two others remain; where another slow rank is left out too, the mean over the others, for none is left that
 * would spoil it. `scratch` has room for all columns. */
double rows_alike(const struct lead_rows *rows, struct left_out judged, double *scratch) {
    size_t count = 0, step = 1 + (rows->columns - 1) / ALIKE_COLUMNS;
    double sum = 0;
    for (size_t c = 0; c < rows->columns; c += step)
        if (c != judged.a && c != judged.b) {
            scratch[count] = column_alike(rows, c, rows->columns > 2 ? judged : (struct left_out){c, c});
            sum += scratch[count++];
        }
    return fmax(1, judged.a == judged.b ? median_double(scratch, count) : sum / (double)count);
}
