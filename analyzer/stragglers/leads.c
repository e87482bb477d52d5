/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/leads.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/significance.h"
#include "analyzer/base/statistics.h"
#include "analyzer/stragglers/slow_stretches.h"

enum {
    ROWS_MIN = 16, /* as of turns: two for each of TIME_BATCHES_MIN batches */
    PARTS = 8,     /* of the run, whose means are compared: TIME_BATCHES_MIN */
    TESTS = 2,     /* this one, and that of significance.h */
    HALVINGS = 50, /* of an interval, until the bound is as low as it gets */
};
#define ALIKE_LEAST      1.5  /* of eight means: what independent rows show in one of eight cases is not added up */
#define CHANCE_LOOKED_AT 0.05 /* what is likelier than a suspicion (CONFIDENCE_SUSPECT) is not looked at further */

/* Who is ahead in a row. */
struct lead {
    double ns;
    uint32_t column;
};

/* The table as it is tested: levelled, several rows added up. */
struct lead_rows {
    size_t rows, columns;
    double *self;
    double *places; /* of each value in its row, from 0; ties share the mean place */
    struct lead *leads;
};

static bool rows_init(struct lead_rows *rows, size_t count, size_t columns) {
    *rows = (struct lead_rows){.rows = count,
                               .columns = columns,
                               .self = calloc(count * columns, sizeof *rows->self),
                               .places = calloc(count * columns, sizeof *rows->places),
                               .leads = calloc(count, sizeof *rows->leads)};
    return rows->self && rows->places && rows->leads;
}

static void rows_free(struct lead_rows *rows) {
    free(rows->self);
    free(rows->places);
    free(rows->leads);
}

/* ---- leads, and who has which place -------------------------------------------------------------------------- */

struct placed_value {
    double value;
    uint32_t column;
};

static int compare_values(const void *a, const void *b) {
    const struct placed_value *left = a, *right = b;
    if (left->value != right->value)
        return left->value < right->value ? -1 : 1;
    return left->column < right->column ? -1 : left->column > right->column;
}

static void place_row(struct lead_rows *rows, size_t row, const struct placed_value *sorted) {
    size_t n = rows->columns;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && sorted[end].value == sorted[i].value; end++)
            ;
        for (size_t k = i; k < end; k++)
            rows->places[row * n + sorted[k].column] = ((double)i + (double)end - 1) / 2;
    }
    rows->leads[row] = (struct lead){sorted[n - 1].value - sorted[n - 2].value, sorted[n - 1].column};
}

static bool place_rows(struct lead_rows *rows) {
    struct placed_value *sorted = malloc(rows->columns * sizeof *sorted);
    for (size_t row = 0; sorted && row < rows->rows; row++) {
        for (size_t c = 0; c < rows->columns; c++)
            sorted[c] = (struct placed_value){rows->self[row * rows->columns + c], (uint32_t)c};
        qsort(sorted, rows->columns, sizeof *sorted, compare_values);
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

static bool single_rows(struct lead_rows *rows, const struct leads_table *table, double *unit) {
    if (!rows_init(rows, table->rows, table->columns))
        return false;
    for (size_t i = 0; i < table->rows * table->columns; i++)
        rows->self[i] = (double)table->self_ns[i];
    for (size_t c = 0; c < table->columns; c++)
        unit[c] = 1;
    return (!table->level || level_columns(rows, unit)) && place_rows(rows);
}

/* `width` rows become one; what is left over at the end is left out. */
static bool added_rows(struct lead_rows *rows, const struct lead_rows *single, size_t width) {
    size_t n = single->columns;
    if (!rows_init(rows, single->rows / width, n))
        return false;
    for (size_t row = 0; row < rows->rows * width; row++)
        for (size_t c = 0; c < n; c++)
            rows->self[row / width * n + c] += single->self[row * n + c];
    return place_rows(rows);
}

/* ---- rows that resemble each other --------------------------------------------------------------------------- */

/* A column's place among the others without `skip`. */
static double place_without(const struct lead_rows *rows, size_t row, size_t column, size_t skip) {
    const double *places = rows->places + row * rows->columns;
    if (skip == column)
        return places[column];
    double before = places[skip] < places[column] ? 1 : places[skip] > places[column] ? 0 : 0.5;
    return places[column] - before;
}

/* How much more the means of a column's places over the parts vary than those of independent rows would. */
static double column_alike(const struct lead_rows *rows, size_t column, size_t skip) {
    double parts[PARTS] = {0}, sum = 0, squares = 0, of_parts = 0, per_part = (double)rows->rows / PARTS;
    for (size_t row = 0; row < rows->rows; row++) {
        double place = place_without(rows, row, column, skip);
        parts[row * PARTS / rows->rows] += place;
        sum += place;
        squares += place * place;
    }
    double mean = sum / (double)rows->rows, variance = squares / (double)rows->rows - mean * mean;
    for (size_t p = 0; p < PARTS; p++)
        of_parts += (parts[p] / per_part - mean) * (parts[p] / per_part - mean) / (PARTS - 1);
    return variance > 0 ? of_parts * per_part / variance : 1;
}

/* How many rows count as one: the median over the ranks. Whoever is judged, slow in a part of the run, is left out
 * where two others remain. `scratch` has room for all columns. */
static double rows_alike(const struct lead_rows *rows, size_t judged, double *scratch) {
    size_t count = 0;
    for (size_t c = 0; c < rows->columns; c++)
        if (c != judged)
            scratch[count++] = column_alike(rows, c, rows->columns > 2 ? judged : c);
    return fmax(1, median_double(scratch, count));
}

/* ---- the test ------------------------------------------------------------------------------------------------ */

/* Sum over the leads of ln(1 + (exp(t lead) - 1) / n), the logarithm of the moment generating function of what is one
 * rank's, and its derivative. */
static double log_moment(const struct lead_rows *rows, double t, double *derivative) {
    double n = (double)rows->columns, sum = 0;
    *derivative = 0;
    for (size_t row = 0; row < rows->rows; row++) {
        double lead = rows->leads[row].ns, x = t * lead;
        sum += x > 30 ? x - log(n) : log1p(expm1(x) / n);
        *derivative += lead / (1 + (n - 1) * exp(-x));
    }
    return sum;
}

/* The logarithm of Chernoff's bound of the chance that one rank's leads sum to as much. */
static double log_chance(const struct lead_rows *rows, size_t column) {
    double own = 0, all = 0, largest = 0, derivative, low = 0;
    for (size_t row = 0; row < rows->rows; row++) {
        all += rows->leads[row].ns;
        own += rows->leads[row].column == column ? rows->leads[row].ns : 0;
        largest = fmax(largest, rows->leads[row].ns);
    }
    if (largest <= 0 || own * (double)rows->columns <= all)
        return 0;
    double high = 1 / largest;
    for (int i = 0; i < HALVINGS && (log_moment(rows, high, &derivative), derivative < own); i++)
        high *= 2;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        log_moment(rows, middle, &derivative);
        if (derivative < own)
            low = middle;
        else
            high = middle;
    }
    return fmin(0, log_moment(rows, low, &derivative) - low * own);
}

/* The same of rows that resemble each other: so many as count as one, and one more, are added up first. Positive: no
 * memory. */
static double log_chance_of_alike(const struct lead_rows *single, size_t column, double *scratch) {
    double alike = rows_alike(single, column, scratch);
    size_t width = alike >= ALIKE_LEAST ? (size_t)ceil(alike) + 1 : 1;
    struct lead_rows rows;
    if (single->rows / width < PARTS)
        return 0;
    double chance =
        added_rows(&rows, single, width) ? log_chance(&rows, column) / rows_alike(&rows, column, scratch) : 1;
    rows_free(&rows);
    return chance;
}

/* ---- all ranks ----------------------------------------------------------------------------------------------- */

/* Sums of the leads by column. */
static void sum_leads(const struct lead_rows *rows, const double *unit, double *sums) {
    for (size_t c = 0; c < rows->columns; c++)
        sums[c] = 0;
    for (size_t row = 0; row < rows->rows; row++)
        sums[rows->leads[row].column] += rows->leads[row].ns * unit[rows->leads[row].column];
}

/* `scratch` has room for two values of each column. */
static bool judge_columns(const struct leads_table *table, const struct lead_rows *rows, double *scratch,
                          const double *unit, struct rank_leads *out) {
    size_t columns = rows->columns;
    double *sums = scratch + columns;
    sum_leads(rows, unit, scratch);
    sum_leads(rows, unit, sums);
    double usual = median_double(scratch, columns);
    for (size_t c = 0; c < columns; c++) {
        out[c].lead_ns = (sums[c] - usual) / (double)rows->rows;
        out[c].p = exp(log_chance(rows, c));
        if (out[c].p > CHANCE_LOOKED_AT)
            continue;
        double chance = log_chance_of_alike(rows, c, scratch);
        if (chance > 0)
            return false;
        out[c].p = exp(chance);
        if (out[c].p <= CHANCE_LOOKED_AT && !slow_stretches_find(table, c, &out[c]))
            return false;
    }
    return true;
}

bool leads_judge(const struct leads_table *table, struct rank_leads *out) {
    struct lead_rows rows = {0};
    for (size_t c = 0; c < table->columns; c++)
        out[c] = (struct rank_leads){.p = 1, .slow_ratio = 1};
    if (table->columns < 2 || table->rows < ROWS_MIN)
        return true;
    double *scratch = calloc(2 * table->columns, sizeof *scratch), *unit = calloc(table->columns, sizeof *unit);
    bool done = scratch && unit && single_rows(&rows, table, unit) && judge_columns(table, &rows, scratch, unit, out);
    rows_free(&rows);
    free(scratch);
    free(unit);
    return done;
}

bool leads_correct(struct rank_leads *const *ranks, size_t count) {
    struct significance *copies = calloc(count + 1, sizeof *copies);
    struct significance **list = calloc(count + 1, sizeof *list);
    bool done = copies && list;
    for (size_t i = 0; done && i < count; i++) {
        copies[i].p = fmin(1, TESTS * ranks[i]->p);
        list[i] = &copies[i];
    }
    done = done && significance_correct(list, count);
    for (size_t i = 0; done && i < count; i++)
        ranks[i]->confidence = copies[i].confidence;
    free(copies);
    free(list);
    return done;
}
