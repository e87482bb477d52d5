/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/leads.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/significance.h"
#include "analyzer/base/statistics.h"
#include "analyzer/stragglers/slow_part.h"
#include "analyzer/stragglers/slow_stretches.h"

enum {
    ROWS_MIN = 16,      /* as of turns: two for each of TIME_BATCHES_MIN batches */
    PARTS = 8,          /* of the run, whose means are compared: TIME_BATCHES_MIN */
    TESTS = 2,          /* this one, and that of significance.h */
    TESTS_BESIDE = 2,   /* of its leads over all, and over all but one */
    TESTS_SHARED = 4,   /* ... and of what it leads by together with one other: Bonferroni once more */
    TESTS_EQUAL = 2,    /* each of these with all stretches as long as they are, and with all equally long */
    TESTS_PART = 8,     /* ... and of its places in a part of the run */
    TESTS_REGULAR = 8,  /* ... and of both that they are its own and that they come regularly */
    ADDED_KEPT = 4,     /* widths of rows added up: most ranks ask for the same one or two */
    ALIKE_COLUMNS = 64, /* so many ranks tell how much rows resemble each other as well as all of them */
    HALVINGS = 50,      /* of an interval, until the bound is as low as it gets */
    EFFECTIVE_PART = 2, /* of the stretches */
    GRID = 4096,        /* steps of all leads together: what a lead is rounded by is less than noise */
};
#define ALIKE_LEAST       1.5  /* of eight means: what independent rows show in one of eight cases is not added up */
#define BOUND_LOOKED_AT   0.2  /* the bound is at most about four times what the chance is, there */
#define MOST_LEADS        1.5  /* two thirds: twice what all others have together */
#define REGULAR_LOOKED_AT 0.1  /* three pauses of one of two are likelier, and too few to come regularly */
#define CHANCE_LOOKED_AT  0.05 /* what is likelier than a suspicion (CONFIDENCE_SUSPECT) is not looked at further */

/* Who is ahead in a row, and by how much. */
struct lead {
    double ns;
    uint32_t columns[2]; /* of a single rank: the same twice */
};

/* The table as it is tested: levelled, several rows added up. */
struct lead_rows {
    size_t rows, columns;
    double *self;
    double *places;      /* of each value in its row, from 0; ties share the mean place */
    struct lead *leads;  /* of the slowest, over the second */
    struct lead *shared; /* of the two slowest, over the third; without three columns 0 */
    struct added_rows {
        struct lead_rows *rows; /* the same with `width` of them as one; NULL: not asked for */
        size_t width;
    } added[ADDED_KEPT]; /* by width, modulo how many are kept */
};

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

static void rows_free(struct lead_rows *rows) {
    for (size_t i = 0; i < ADDED_KEPT; i++)
        drop_added(&rows->added[i]);
    free_values(rows);
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
    const struct placed_value *first = &sorted[n - 1], *second = &sorted[n - 2];
    rows->leads[row] = (struct lead){first->value - second->value, {first->column, first->column}};
    if (n > 2)
        rows->shared[row] = (struct lead){second->value - sorted[n - 3].value, {first->column, second->column}};
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

/* Makes the mean of each row the same: in rows of a long warm-up chance alone leads by more than a slow rank does
 * later.
 */
static void equal_rows(struct lead_rows *rows) {
    for (size_t row = 0; row < rows->rows; row++) {
        double *self = rows->self + row * rows->columns, sum = 0;
        for (size_t c = 0; c < rows->columns; c++)
            sum += self[c];
        for (size_t c = 0; sum > 0 && c < rows->columns; c++)
            self[c] *= (double)rows->columns / sum;
    }
}

static bool single_rows(struct lead_rows *rows, const struct leads_table *table, bool equal, double *unit) {
    if (!rows_init(rows, table->rows, table->columns))
        return false;
    for (size_t i = 0; i < table->rows * table->columns; i++)
        rows->self[i] = (double)table->self_ns[i];
    for (size_t c = 0; c < table->columns; c++)
        unit[c] = 1;
    if (equal)
        equal_rows(rows);
    return (!table->level || level_columns(rows, unit)) && place_rows(rows);
}

/* Stretches that follow each other within a few time slices become one row; what is left over at the end is left
 * out. */
static bool rows_at_once(struct lead_rows *rows, const struct lead_rows *single, const struct leads_table *table) {
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
static const struct lead_rows *rows_of_width(struct lead_rows *rows, size_t width) {
    struct added_rows *added = &rows->added[width % ADDED_KEPT];
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

/* ---- rows that resemble each other --------------------------------------------------------------------------- */

/* Two columns that are left out; one: the same twice. */
struct left_out {
    size_t a, b;
};

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
    double parts[PARTS] = {0}, sum = 0, squares = 0, of_parts = 0, per_part = (double)rows->rows / PARTS;
    for (size_t row = 0; row < rows->rows; row++) {
        double place = place_without(rows, row, column, out);
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
 * where two others remain; where another slow rank is left out too, the mean over the others, for none is left that
 * would spoil it. `scratch` has room for all columns. */
static double rows_alike(const struct lead_rows *rows, struct left_out judged, double *scratch) {
    size_t count = 0, step = 1 + (rows->columns - 1) / ALIKE_COLUMNS;
    double sum = 0;
    for (size_t c = 0; c < rows->columns; c += step)
        if (c != judged.a && c != judged.b) {
            scratch[count] = column_alike(rows, c, rows->columns > 2 ? judged : (struct left_out){c, c});
            sum += scratch[count++];
        }
    return fmax(1, judged.a == judged.b ? median_double(scratch, count) : sum / (double)count);
}

/* ---- the test ------------------------------------------------------------------------------------------------ */

/* Whose leads are asked about. */
struct question {
    size_t column, partner; /* what either of them has; of a single rank the same twice */
    bool shared;            /* what it leads by together with any other one, not what it leads by alone */
    struct left_out out;    /* where it is measured how much rows resemble each other */
    bool exact;             /* not its bound alone: of a rank that nothing of the table chose */
};

/* By chance a rank has an equal part of the leads, two have twice that, and so has whoever is one of the two slowest.
 */
static double share_of(const struct question *question, const struct lead_rows *rows) {
    return (question->shared || question->partner != question->column ? 2 : 1) / (double)rows->columns;
}

static const struct lead *leads_asked_about(const struct question *question, const struct lead_rows *rows) {
    return question->shared ? rows->shared : rows->leads;
}

static bool is_asked_about(const struct question *question, const struct lead *lead) {
    for (int i = 0; i < 2; i++)
        if (lead->columns[i] == question->column || lead->columns[i] == question->partner)
            return true;
    return false;
}

/* Sum over the leads of ln(1 + (exp(t lead) - 1) share), the logarithm of the moment generating function of what is due
 * to a share of the ranks, and its derivative. */
static double log_moment(const struct lead *leads, size_t count, double share, double t, double *derivative) {
    double sum = 0;
    *derivative = 0;
    for (size_t i = 0; i < count; i++) {
        double lead = leads[i].ns, x = t * lead;
        sum += x > 30 ? x + log(share) : log1p(expm1(x) * share);
        *derivative += lead / (1 + (1 / share - 1) * exp(-x));
    }
    return sum;
}

struct lead_sums {
    double own, all, largest;
};

static struct lead_sums sum_of_leads(const struct lead_rows *rows, const struct question *question) {
    const struct lead *leads = leads_asked_about(question, rows);
    struct lead_sums sums = {0};
    for (size_t row = 0; row < rows->rows; row++) {
        sums.all += leads[row].ns;
        sums.own += is_asked_about(question, &leads[row]) ? leads[row].ns : 0;
        sums.largest = fmax(sums.largest, leads[row].ns);
    }
    return sums;
}

/* Chernoff's bound of the chance that the leads asked about sum to as much. */
static double chernoff_bound(const struct lead_rows *rows, const struct question *question) {
    const struct lead *leads = leads_asked_about(question, rows);
    const struct lead_sums sums = sum_of_leads(rows, question);
    double share = share_of(question, rows), derivative, low = 0;
    if (sums.largest <= 0 || sums.own <= sums.all * share)
        return 1;
    double high = 1 / sums.largest;
    for (int i = 0; i < HALVINGS && (log_moment(leads, rows->rows, share, high, &derivative), derivative < sums.own);
         i++)
        high *= 2;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        log_moment(leads, rows->rows, share, middle, &derivative);
        if (derivative < sums.own)
            low = middle;
        else
            high = middle;
    }
    return exp(fmin(0, log_moment(leads, rows->rows, share, low, &derivative) - low * sums.own));
}

/* That chance itself, of leads rounded to a GRID-th of all: their sums are added up one lead after the other. Rounded
 * leads are as much any rank's as others are, so that the test stays exact. Negative: no memory. */
static double exact_chance(const struct lead_rows *rows, const struct question *question) {
    const struct lead *leads = leads_asked_about(question, rows);
    const struct lead_sums sums = sum_of_leads(rows, question);
    double share = share_of(question, rows), *below = calloc(GRID + 1, sizeof *below), beyond = 0;
    size_t own = 0;
    if (!below)
        return -1;
    for (size_t row = 0; row < rows->rows; row++)
        own += is_asked_about(question, &leads[row]) ? (size_t)lround(leads[row].ns / sums.all * GRID) : 0;
    own = own > GRID ? GRID : own;
    below[0] = 1;
    for (size_t row = 0; row < rows->rows; row++) {
        size_t lead = (size_t)lround(leads[row].ns / sums.all * GRID);
        for (size_t sum = own; lead > 0 && sum-- > 0;) {
            beyond += sum + lead >= own ? share * below[sum] : 0;
            below[sum] = (1 - share) * below[sum] + (sum >= lead ? share * below[sum - lead] : 0);
        }
    }
    free(below);
    return own > 0 ? beyond : 1;
}

static double chance_of_sum(const struct lead_rows *rows, const struct question *question) {
    double bound = chernoff_bound(rows, question);
    return !question->exact || bound > BOUND_LOOKED_AT ? bound : exact_chance(rows, question);
}

/* What is likelier is not looked at further. Corrected for testing all ranks, a chance comes out as if it were as many
 * times larger as there are more ranks than such that lead at all, of which each row has two at most. */
static double looked_at(const struct lead_rows *rows) {
    return CHANCE_LOOKED_AT * fmin(1, 2 * (double)rows->rows / (double)rows->columns);
}

/* The chance that the leads asked about sum to as much. Of rows that resemble each other as many as count as one, and
 * one more, are added up first. Negative: no memory. */
static double chance_of(struct lead_rows *apart, const struct question *question, double *scratch) {
    double chance = chance_of_sum(apart, question);
    if (chance < 0 || chance > looked_at(apart))
        return chance;
    double alike = rows_alike(apart, question->out, scratch);
    size_t width = alike >= ALIKE_LEAST ? (size_t)ceil(alike) + 1 : 1;
    if (apart->rows / width < PARTS)
        return 1;
    const struct lead_rows *rows = rows_of_width(apart, width);
    chance = rows ? chance_of_sum(rows, question) : -1;
    return chance < 0 ? chance : pow(chance, 1 / rows_alike(rows, question->out, scratch));
}

/* ---- ranks beside each other --------------------------------------------------------------------------------- */

/* One of the two ranks that lead most, and the table without it: beside a rank that is slow at times, too, nobody's
 * leads are more than half of all. */
struct leader {
    size_t column;
    struct lead_rows single, apart; /* without it */
};

struct judging {
    const struct leads_table *table;
    struct lead_rows single, apart;
    struct leader leaders[2]; /* the first leads most */
    double *unit;
    double *scratch; /* two values of each column */
};

static bool rows_without(struct lead_rows *rows, const struct lead_rows *from, size_t column) {
    size_t n = from->columns;
    if (!rows_init(rows, from->rows, n - 1))
        return false;
    for (size_t row = 0; row < from->rows; row++)
        for (size_t c = 0; c < n; c++)
            if (c != column)
                rows->self[row * (n - 1) + c - (c > column)] = from->self[row * n + c];
    return place_rows(rows);
}

struct span {
    size_t from, to; /* rows */
};

/* Sums of the leads by column; `unit` NULL: as they are. */
static void sum_leads(const struct lead *leads, struct span span, size_t columns, const double *unit, double *sums) {
    for (size_t c = 0; c < columns; c++)
        sums[c] = 0;
    for (size_t row = span.from; row < span.to; row++)
        for (int i = 0; i < 1 + (leads[row].columns[1] != leads[row].columns[0]); i++)
            sums[leads[row].columns[i]] += leads[row].ns * (unit ? unit[leads[row].columns[i]] : 1);
}

static bool find_leaders(struct judging *judging) {
    double *sums = judging->scratch;
    sum_leads(judging->apart.leads, (struct span){0, judging->apart.rows}, judging->apart.columns, NULL, sums);
    struct leader *leaders = judging->leaders;
    for (size_t c = 1; c < judging->apart.columns; c++)
        leaders[0].column = sums[c] > sums[leaders[0].column] ? c : leaders[0].column;
    leaders[1].column = leaders[0].column == 0;
    for (size_t c = 0; c < judging->apart.columns; c++)
        if (c != leaders[0].column && sums[c] > sums[leaders[1].column])
            leaders[1].column = c;
    for (int k = 0; k < 2; k++)
        if (!rows_without(&leaders[k].single, &judging->single, leaders[k].column) ||
            !rows_at_once(&leaders[k].apart, &leaders[k].single, judging->table))
            return false;
    return true;
}

/* The one of the leaders that this rank may go unnoticed beside. */
static struct leader *leader_beside(struct judging *judging, size_t column) {
    return &judging->leaders[judging->leaders[0].column == column];
}

/* The chance of a rank's leads over all others but the leader, where those of both are more than two ranks' by chance:
 * else a rank that shares its slow stretches with the leader, as where ranks of two groups take turns, would be ahead
 * in those alone once the leader is left out. Any other rank might have been the leader. Negative: no memory. */
static double chance_beside(struct judging *judging, size_t column) {
    struct leader *leader = leader_beside(judging, column);
    size_t own = column - (column > leader->column), others = judging->apart.columns - 1;
    const struct question of_own = {own, own, false, {own, own}, false};
    double alone =
        chance_of(&leader->apart, &of_own, judging->scratch); /* first: most ranks lead in few rows, if any */
    if (alone < 0 || alone > looked_at(&leader->apart))
        return alone;
    const struct question of_both = {column, leader->column, false, {column, column}, false};
    double both = chance_of(&judging->apart, &of_both, judging->scratch);
    return both < 0 ? both : fmin(1, fmax(alone, both > CHANCE_LOOKED_AT ? both : both * (double)others));
}

/* ---- all ranks ----------------------------------------------------------------------------------------------- */

/* What a rank's leads in the span are of a mean stretch of the run, less the median rank's. */
static double mean_lead(const struct judging *judging, const struct lead_rows *rows, const struct lead *leads,
                        struct span span, size_t column, size_t without) {
    size_t n = rows->columns;
    double *unit = judging->scratch, *sums = judging->scratch + judging->single.columns;
    for (size_t c = 0; c < n; c++)
        unit[c] = judging->unit[c + (c >= without)];
    sum_leads(leads, span, n, unit, sums);
    double own = sums[column];
    return (own - median_double(sums, n)) / (double)rows->rows;
}

/* The chance of what a rank leads by together with another one: of two that are slow in the very same stretches neither
 * leads by much alone. Slow in a part of the run, that other one would make all rows resemble each other. Negative: no
 * memory. */
static double chance_shared(struct judging *judging, size_t column) {
    size_t columns = judging->single.columns;
    size_t other = columns > 4 ? leader_beside(judging, column)->column : column; /* three remain to be measured on */
    const struct question question = {column, column, true, {column, other}, false};
    return columns > 2 ? chance_of(&judging->apart, &question, judging->scratch) : 1;
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

/* Of a rank's leads over all, of those over all but one, and of those that it shares with another one. */
struct chances {
    double alone, beside, shared;
};

static bool chances_of_leads(struct judging *judging, size_t column, unsigned tests, struct chances *out) {
    *out = (struct chances){.alone = chance_of(&judging->apart,
                                               &(struct question){column, column, false, {column, column}, true},
                                               judging->scratch),
                            .beside = judging->single.columns > 2 ? chance_beside(judging, column) : 1,
                            .shared = chance_shared(judging, column)};
    bool done = out->alone >= 0 && out->beside >= 0 && out->shared >= 0;
    out->alone *= tests;
    out->beside *= tests * TESTS_BESIDE;
    out->shared *= tests * TESTS_SHARED;
    return done;
}

static double least_of(const struct chances *chances) {
    return fmin(chances->alone, fmin(chances->beside, chances->shared));
}

static double lead_of(struct judging *judging, const struct chances *chances, struct span span, size_t column) {
    const struct lead_rows *single = &judging->single;
    if (chances->shared <= fmin(chances->alone, chances->beside))
        return mean_lead(judging, single, single->shared, span, column, single->columns);
    if (chances->beside >= chances->alone)
        return mean_lead(judging, single, single->leads, span, column, single->columns);
    const struct leader *leader = leader_beside(judging, column);
    return mean_lead(judging, &leader->single, leader->single.leads, span, column - (column > leader->column),
                     leader->column);
}

/* The chance of the rank's leads, each for itself, where they are most of all: 1 where they are not, as where ranks
 * take turns, each of them regularly. Negative: no memory. */
static double chance_of_most(const struct judging *judging, size_t column) {
    const struct question question = {column, column, false, {column, column}, true};
    const struct lead_sums sums = sum_of_leads(&judging->apart, &question);
    return MOST_LEADS * sums.own < sums.all ? 1 : chance_of_sum(&judging->apart, &question);
}

/* `equal`: the same table with all rows equally long; NULL: there is none. Returns false when memory is short. */
static bool judge_column(struct judging *judging, struct judging *equal, const struct slow_parts *parts, size_t column,
                         struct rank_leads *out) {
    struct chances chances, of_equal = {1, 1, 1};
    if (!chances_of_leads(judging, column, 1, &chances) ||
        (equal && !chances_of_leads(equal, column, TESTS_EQUAL, &of_equal)))
        return false;
    double part = TESTS_PART * slow_parts_chance(parts, column);
    const struct chances *least = least_of(&of_equal) < least_of(&chances) ? &of_equal : &chances;
    double p = fmin(1, fmin(part, least_of(least))), own = chance_of_most(judging, column);
    *out = (struct rank_leads){.p = p, .slow_ratio = 1};
    if (own < 0 || (p > looked_at(&judging->apart) && own > REGULAR_LOOKED_AT))
        return own >= 0;
    if (!slow_stretches_find(judging->table, column, out))
        return false;
    /* within a few time slices regularity is no more than one observation, either */
    bool comes_regularly = own <= REGULAR_LOOKED_AT && out->every > judging->table->at_once;
    double regular = comes_regularly ? TESTS_REGULAR * own * out->every_chance : 1;
    out->p = fmin(p, regular);
    if (out->p > looked_at(&judging->apart)) {
        *out = (struct rank_leads){.p = p, .slow_ratio = 1};
        return true;
    }
    size_t rows = judging->single.rows;
    struct span span = {0, rows};
    if (out->phase && part < least_of(least)) /* outside, in a long warm-up say, others may have led by as much */
        span = (struct span){out->first * rows / 1000, out->last * rows / 1000};
    out->lead_ns = lead_of(judging, least, span, column);
    if (regular < p)
        out->lead_ns = fmax(out->lead_ns, lead_of(judging, &(struct chances){0, 1, 1}, span, column));
    if (least->shared <= CHANCE_LOOKED_AT) /* of two that are slow at once one leads the other by chance alone */
        out->lead_ns = fmax(out->lead_ns, lead_of(judging, &(struct chances){1, 1, 0}, span, column));
    return true;
}

static bool judging_begin(struct judging *judging, const struct leads_table *table, bool equal) {
    *judging = (struct judging){.table = table,
                                .unit = calloc(table->columns, sizeof *judging->unit),
                                .scratch = calloc(2 * table->columns, sizeof *judging->scratch)};
    return judging->unit && judging->scratch && single_rows(&judging->single, table, equal, judging->unit) &&
           rows_at_once(&judging->apart, &judging->single, table) && (table->columns == 2 || find_leaders(judging));
}

static void judging_end(struct judging *judging) {
    rows_free(&judging->single);
    rows_free(&judging->apart);
    for (int k = 0; k < 2; k++) {
        rows_free(&judging->leaders[k].single);
        rows_free(&judging->leaders[k].apart);
    }
    free(judging->unit);
    free(judging->scratch);
}

/* Whether so few stretches take most of the time that the others hardly count beside them: by Kish's effective number,
 * fewer than half. Else making all equally long changes little. */
static bool few_are_most(const struct leads_table *table) {
    double sum = 0, squares = 0;
    for (size_t row = 0; row < table->rows; row++) {
        double length = 0;
        for (size_t c = 0; c < table->columns; c++)
            length += (double)table->self_ns[row * table->columns + c];
        sum += length;
        squares += length * length;
    }
    return EFFECTIVE_PART * sum * sum < (double)table->rows * squares;
}

bool leads_judge(const struct leads_table *table, struct rank_leads *out) {
    struct judging judging, equal = {0};
    const struct lead_rows *apart = &judging.apart;
    struct slow_parts parts = {0};
    for (size_t c = 0; c < table->columns; c++)
        out[c] = (struct rank_leads){.p = 1, .slow_ratio = 1};
    if (table->columns < 2 || table->rows < ROWS_MIN)
        return true;
    bool use_equal = !table->level && few_are_most(table);
    bool done = judging_begin(&judging, table, false) && (!use_equal || judging_begin(&equal, table, true)) &&
                slow_parts_find(&parts, apart->self, apart->places, apart->rows, apart->columns, table->level);
    for (size_t c = 0; done && c < table->columns; c++)
        done = judge_column(&judging, use_equal ? &equal : NULL, &parts, c, &out[c]);
    slow_parts_free(&parts);
    judging_end(&judging);
    judging_end(&equal);
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
