/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/leads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/significance.h"
#include "analyzer/base/statistics.h"

enum {
    ROWS_MIN = 16,      /* as of turns: two for each of TIME_BATCHES_MIN batches */
    PARTS = 8,          /* of the run, whose means are compared: TIME_BATCHES_MIN */
    TESTS = 2,          /* this one, and that of significance.h */
    HALVINGS = 50,      /* of an interval, until the bound is as low as it gets */
    REGULAR_SHARE = 70, /* per cent of the distances that are equal: as of a step (step_period.c) */
    SLOW_MIN = 3,       /* stretches, to say how regularly they come */
    EDGE = 20,          /* one in so many is slow by chance, at either end of a phase */
};

/* Who is ahead in a row. */
struct lead {
    double ns;
    uint32_t column;
};

struct leads_work {
    const struct leads_table *table;
    struct lead *leads;  /* per row */
    double *median;      /* per row */
    double *above;       /* rows: of one column, above the median */
    double *sums;        /* per column: of its leads */
    double *repeats;     /* per column: rows that count as one, as its places say */
    int64_t *row;        /* columns */
    double *part_places; /* columns * PARTS: sums of places */
    double *squares;     /* per column: of places */
};

static bool work_init(struct leads_work *work, const struct leads_table *table) {
    *work = (struct leads_work){.table = table,
                                .leads = calloc(table->rows, sizeof *work->leads),
                                .median = calloc(table->rows, sizeof *work->median),
                                .above = calloc(table->rows, sizeof *work->above),
                                .sums = calloc(2 * table->columns, sizeof *work->sums),
                                .repeats = calloc(table->columns, sizeof *work->repeats),
                                .row = calloc(table->columns, sizeof *work->row),
                                .part_places = calloc(table->columns * PARTS, sizeof *work->part_places),
                                .squares = calloc(table->columns, sizeof *work->squares)};
    return work->leads && work->median && work->above && work->sums && work->repeats && work->row &&
           work->part_places && work->squares;
}

static void work_free(struct leads_work *work) {
    free(work->leads);
    free(work->median);
    free(work->above);
    free(work->sums);
    free(work->repeats);
    free(work->row);
    free(work->part_places);
    free(work->squares);
}

/* ---- leads, and who has which place -------------------------------------------------------------------------- */

struct placed_value {
    int64_t value;
    uint32_t column;
};

static int compare_values(const void *a, const void *b) {
    const struct placed_value *left = a, *right = b;
    if (left->value != right->value)
        return left->value < right->value ? -1 : 1;
    return left->column < right->column ? -1 : left->column > right->column;
}

/* Ties share the mean place. */
static void add_places(struct leads_work *work, size_t row, const struct placed_value *sorted) {
    size_t n = work->table->columns, part = row * PARTS / work->table->rows;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && sorted[end].value == sorted[i].value; end++)
            ;
        double place = ((double)i + (double)end - 1) / 2 - ((double)n - 1) / 2;
        for (size_t k = i; k < end; k++) {
            work->part_places[(size_t)sorted[k].column * PARTS + part] += place;
            work->squares[sorted[k].column] += place * place;
        }
    }
}

static bool read_rows(struct leads_work *work) {
    const struct leads_table *table = work->table;
    size_t n = table->columns, below = (n - 1) / 2, above = n / 2;
    struct placed_value *sorted = malloc(n * sizeof *sorted);
    for (size_t row = 0; sorted && row < table->rows; row++) {
        for (size_t c = 0; c < n; c++)
            sorted[c] = (struct placed_value){table->self_ns[row * n + c], (uint32_t)c};
        qsort(sorted, n, sizeof *sorted, compare_values);
        work->median[row] = ((double)sorted[below].value + (double)sorted[above].value) / 2;
        work->leads[row] = (struct lead){(double)(sorted[n - 1].value - sorted[n - 2].value), sorted[n - 1].column};
        work->sums[work->leads[row].column] += work->leads[row].ns;
        add_places(work, row, sorted);
    }
    free(sorted);
    return sorted != NULL;
}

/* How many rows count as one: how much more the means of the parts vary than those of rows that are independent would.
 * The median over the ranks, so that one of them, slow in a part of the run, does not count against itself. */
static double rows_alike(struct leads_work *work) {
    const struct leads_table *table = work->table;
    double per_part = (double)table->rows / PARTS;
    for (size_t c = 0; c < table->columns; c++) {
        const double *parts = work->part_places + c * PARTS;
        double sum = 0, squares = 0;
        for (size_t p = 0; p < PARTS; p++) {
            sum += parts[p];
            squares += parts[p] * parts[p];
        }
        double mean = sum / (double)table->rows, variance = work->squares[c] / (double)table->rows - mean * mean;
        double of_parts = (squares / per_part / per_part - PARTS * mean * mean) / (PARTS - 1);
        work->repeats[c] = variance > 0 ? of_parts * per_part / variance : 1;
    }
    return fmax(1, median_double(work->repeats, table->columns));
}

/* ---- the test ------------------------------------------------------------------------------------------------ */

/* Sum over the leads of ln(1 + (exp(t lead) - 1) / n), the logarithm of the moment generating function of what is one
 * rank's, and its derivative. */
static double log_moment(const struct leads_work *work, double t, double *derivative) {
    double n = (double)work->table->columns, sum = 0;
    *derivative = 0;
    for (size_t row = 0; row < work->table->rows; row++) {
        double lead = work->leads[row].ns, x = t * lead;
        sum += x > 30 ? x - log(n) : log1p(expm1(x) / n);
        *derivative += lead / (1 + (n - 1) * exp(-x));
    }
    return sum;
}

/* The logarithm of Chernoff's bound of the chance that one rank's leads sum to as much. */
static double log_chance(const struct leads_work *work, double own) {
    double all = 0, largest = 0, derivative, low = 0;
    for (size_t row = 0; row < work->table->rows; row++) {
        all += work->leads[row].ns;
        largest = fmax(largest, work->leads[row].ns);
    }
    if (largest <= 0 || own * (double)work->table->columns <= all)
        return 0;
    double high = 1 / largest;
    for (int i = 0; i < HALVINGS && (log_moment(work, high, &derivative), derivative < own); i++)
        high *= 2;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        log_moment(work, middle, &derivative);
        if (derivative < own)
            low = middle;
        else
            high = middle;
    }
    return fmin(0, log_moment(work, low, &derivative) - low * own);
}

/* ---- when it is slow ----------------------------------------------------------------------------------------- */

/* Where a list of ascending values falls apart into two that differ most (Otsu): values above the result are high. */
static double split_of(const double *sorted, size_t count) {
    double sum = 0, low = 0, best = -1, split = INFINITY;
    for (size_t i = 0; i < count; i++)
        sum += sorted[i];
    for (size_t i = 0; i + 1 < count; i++) {
        double below = (double)(i + 1), over = (double)(count - i - 1);
        low += sorted[i];
        double apart = low / below - (sum - low) / over;
        if (sorted[i] < sorted[i + 1] && below * over * apart * apart > best) {
            best = below * over * apart * apart;
            split = sorted[i];
        }
    }
    return split;
}

/* The distance at which most of the slow rows follow each other; 0: there is none. `distances` are sorted by it. */
static uint32_t regular_distance(int64_t *distances, size_t count) {
    if (count + 1 < SLOW_MIN)
        return 0;
    qsort(distances, count, sizeof *distances, compare_int64);
    int64_t usual = distances[count / 2];
    size_t equal = 0;
    for (size_t i = 0; i < count; i++)
        equal += distances[i] == usual;
    return usual > 1 && 100 * equal >= (size_t)REGULAR_SHARE * count ? (uint32_t)usual : 0;
}

/* `split`: of the rank's times above the median, those above it are slow. `slow` gets their rows. Returns how many. */
static size_t add_up_slow_rows(const struct leads_work *work, size_t column, double split, int64_t *slow,
                               struct rank_leads *out) {
    const struct leads_table *table = work->table;
    double own = 0, usual = 0;
    size_t count = 0;
    for (size_t row = 0; row < table->rows; row++) {
        double self = (double)table->self_ns[row * table->columns + column];
        if (self - work->median[row] <= split)
            continue;
        slow[count++] = (int64_t)row;
        own += self;
        usual += work->median[row];
    }
    if (count > 0) {
        out->longer_ns = (own - usual) / (double)count;
        out->slow_ratio = (own + 1) / (usual + 1);
    }
    return count;
}

static bool describe_slow_rows(const struct leads_work *work, size_t column, double split, struct rank_leads *out) {
    const struct leads_table *table = work->table;
    int64_t *slow = malloc((table->rows + 1) * sizeof *slow);
    if (!slow)
        return false;
    size_t count = add_up_slow_rows(work, column, split, slow, out), edge = count / EDGE;
    out->slow_rows = count;
    if (count > 0 && count <= table->rows) {
        out->first = (uint32_t)((size_t)slow[edge] * 1000 / table->rows);
        out->last = (uint32_t)((size_t)slow[count - 1 - edge] * 1000 / table->rows);
        for (size_t i = 0; i + 1 < count; i++)
            slow[i] = (int64_t)table->numbers[slow[i + 1]] - (int64_t)table->numbers[slow[i]];
        out->every = regular_distance(slow, count - 1);
    }
    free(slow);
    return true;
}

static bool find_slow_rows(const struct leads_work *work, size_t column, struct rank_leads *out) {
    const struct leads_table *table = work->table;
    double own = 0, usual = 0;
    for (size_t row = 0; row < table->rows; row++) {
        double self = (double)table->self_ns[row * table->columns + column];
        work->above[row] = self - work->median[row];
        own += self;
        usual += work->median[row];
    }
    out->rows = table->rows;
    out->self_ratio = (own + 1) / (usual + 1);
    qsort(work->above, table->rows, sizeof *work->above, compare_double);
    return describe_slow_rows(work, column, split_of(work->above, table->rows), out);
}

/* ---- all ranks ----------------------------------------------------------------------------------------------- */

static bool judge_columns(struct leads_work *work, struct rank_leads *out) {
    size_t columns = work->table->columns;
    double alike = rows_alike(work), *sorted = work->sums + columns;
    memcpy(sorted, work->sums, columns * sizeof *sorted);
    double usual = median_double(sorted, columns);
    bool done = true;
    for (size_t c = 0; done && c < columns; c++) {
        out[c].p = exp(log_chance(work, work->sums[c]) / alike);
        out[c].lead_ns = (work->sums[c] - usual) / (double)work->table->rows;
        done = out[c].p > 0.05 || find_slow_rows(work, c, &out[c]);
    }
    return done;
}

bool leads_judge(const struct leads_table *table, struct rank_leads *out) {
    struct leads_work work;
    for (size_t c = 0; c < table->columns; c++)
        out[c] = (struct rank_leads){.p = 1, .slow_ratio = 1};
    if (table->columns < 2 || table->rows < ROWS_MIN)
        return true;
    bool done = work_init(&work, table) && read_rows(&work) && judge_columns(&work, out);
    work_free(&work);
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
