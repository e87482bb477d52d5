/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/leads/slow_stretches.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/significance.h"
#include "analyzer/base/statistics.h"

enum {
    PHASE_PARTS = 8,    /* a phase, and the rest of the run, have an eighth of it at least: TIME_BATCHES_MIN */
    REGULAR_SHARE = 70, /* per cent of the distances that are equal: as of a step (step_period.c) */
    SLOW_MIN = 3,       /* stretches, to say how regularly they come */
};
/* Standard deviations: 1 in 30,000 for one part of the run by chance, 1 in 100 for a few hundred that differ. */
#define PHASE_DEVIATIONS 4.0

struct row_value {
    double value;
    size_t row;
};

static int compare_row_values(const void *a, const void *b) {
    const struct row_value *left = a, *right = b;
    if (left->value != right->value)
        return left->value < right->value ? -1 : 1;
    return left->row < right->row ? -1 : left->row > right->row;
}

/* One rank's stretches beside those of the others. */
struct stretches {
    const struct leads_table *table;
    size_t rows;
    double *own, *others; /* self time, and the median of the others' */
    double *above;        /* own less the others' */
    double *scratch;
    struct row_value *sorted; /* room for all rows */
    int64_t *slow;            /* rows that are slow */
    size_t slow_count;
};

static bool stretches_init(struct stretches *s, const struct leads_table *table, size_t column) {
    *s = (struct stretches){.table = table,
                            .rows = table->rows,
                            .own = calloc(table->rows, sizeof *s->own),
                            .others = calloc(table->rows, sizeof *s->others),
                            .above = calloc(table->rows, sizeof *s->above),
                            .scratch = calloc(table->rows + 1, sizeof *s->scratch),
                            .sorted = calloc(table->rows, sizeof *s->sorted),
                            .slow = calloc(table->rows, sizeof *s->slow)};
    int64_t *row_of = malloc(table->columns * sizeof *row_of);
    bool done = s->own && s->others && s->above && s->scratch && s->sorted && s->slow && row_of;
    for (size_t row = 0; done && row < table->rows; row++) {
        const int64_t *self = table->self_ns + row * table->columns;
        for (size_t c = 0, at = 0; c < table->columns; c++)
            if (c != column)
                row_of[at++] = self[c];
        s->own[row] = (double)self[column];
        s->others[row] = (double)median_int64(row_of, table->columns - 1);
        s->above[row] = s->own[row] - s->others[row];
    }
    free(row_of);
    return done;
}

static void stretches_free(struct stretches *s) {
    free(s->own);
    free(s->others);
    free(s->above);
    free(s->scratch);
    free(s->sorted);
    free(s->slow);
}

/* The median of own / others' over the rows in [from, to), or over those outside, each with the weight of the others'
 * time in it: where hardly any work is done between two collectives of a step, nothing shows there. */
static double median_ratio(const struct stretches *s, size_t from, size_t to, bool inside) {
    size_t count = 0;
    double all = 0, until = 0;
    for (size_t row = 0; row < s->rows; row++)
        if ((row >= from && row < to) == inside) {
            double ratio = (s->own[row] + 1) / (s->others[row] + 1); /* without any time as good as equal */
            s->sorted[count++] = (struct row_value){ratio, row};
            all += s->others[row] + 1;
        }
    qsort(s->sorted, count, sizeof *s->sorted, compare_row_values);
    for (size_t i = 0; i < count; i++) {
        until += s->others[s->sorted[i].row] + 1;
        if (2 * until >= all)
            return s->sorted[i].value;
    }
    return 1;
}

/* ---- a part of the run --------------------------------------------------------------------------------------- */

/* scratch[row] becomes the sum of the places, from 0, that all rows before that one have among all. */
static void sum_places(const struct stretches *s) {
    for (size_t row = 0; row < s->rows; row++)
        s->sorted[row] = (struct row_value){s->above[row], row};
    qsort(s->sorted, s->rows, sizeof *s->sorted, compare_row_values);
    s->scratch[0] = 0;
    for (size_t i = 0; i < s->rows; i++)
        s->scratch[s->sorted[i].row + 1] = (double)i;
    for (size_t row = 0; row < s->rows; row++)
        s->scratch[row + 1] += s->scratch[row];
}

/* The part whose places stand highest, in standard deviations of a rank sum: as many as are returned. */
static double highest_part(const struct stretches *s, size_t *from, size_t *to) {
    double n = (double)s->rows, best = 0;
    size_t least = s->rows / PHASE_PARTS + 1;
    for (size_t a = 0; a < s->rows; a++)
        for (size_t b = a + least; b <= s->rows && b - a + least <= s->rows; b++) {
            double inside = (double)(b - a), sum = s->scratch[b] - s->scratch[a];
            double high = (sum - inside * (n - 1) / 2) / sqrt(inside * (n - inside) * (n + 1) / 12);
            if (high > best) {
                best = high;
                *from = a;
                *to = b;
            }
        }
    return best;
}

/* Where a rank is as slow in the rest of the run, no part of it is what sets its slow stretches apart. */
static void find_phase(struct stretches *s, struct rank_leads *out) {
    size_t from = 0, to = 0;
    sum_places(s);
    out->phase = highest_part(s, &from, &to) >= PHASE_DEVIATIONS && median_ratio(s, from, to, true) >= SLOW_RATIO &&
                 median_ratio(s, from, to, false) < SLOW_RATIO;
    out->usual_ratio = out->phase ? median_ratio(s, from, to, false) : median_ratio(s, 0, s->rows, true);
    for (size_t row = from; out->phase && row < to; row++)
        s->slow[s->slow_count++] = (int64_t)row;
}

/* ---- now and then -------------------------------------------------------------------------------------------- */

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

static void find_high_rows(struct stretches *s) {
    for (size_t row = 0; row < s->rows; row++)
        s->scratch[row] = s->above[row];
    qsort(s->scratch, s->rows, sizeof *s->scratch, compare_double);
    double split = split_of(s->scratch, s->rows);
    for (size_t row = 0; row < s->rows; row++)
        if (s->above[row] > split)
            s->slow[s->slow_count++] = (int64_t)row;
}

/* How many stretches the i-th slow row comes after the one before; `near`: with all between them on record. */
static int64_t distance_to(const struct stretches *s, size_t i, bool *near) {
    int64_t distance = (int64_t)s->table->numbers[s->slow[i]] - (int64_t)s->table->numbers[s->slow[i - 1]];
    *near = distance == s->slow[i] - s->slow[i - 1];
    return distance;
}

/* How regularly slow rows follow each other. */
struct regularity {
    uint32_t every; /* the distance at which most do; 0: there is none */
    double chance;  /* of so many equal distances where rows are slow at random: 1 without any */
};

/* As many of the distances that are on record are equal, whatever distance it is: one of all rows. */
static double chance_of_equal(const struct stretches *s, size_t distances, size_t equal) {
    double slow_share = (double)s->slow_count / (double)s->rows;
    return fmin(1, (double)s->rows * binomial_tail((unsigned)distances, (unsigned)equal, slow_share));
}

/* Of a long run samples are on record: from one to the next the distance is a multiple of the usual one. */
static struct regularity regularity_of(const struct stretches *s, int64_t *distances) {
    size_t count = 0, equal = 0, near_equal = 0;
    bool near;
    for (size_t i = 1; i < s->slow_count; i++) {
        int64_t distance = distance_to(s, i, &near);
        if (near)
            distances[count++] = distance;
    }
    if (s->slow_count < SLOW_MIN || count == 0)
        return (struct regularity){0, 1};
    qsort(distances, count, sizeof *distances, compare_int64);
    int64_t usual = distances[count / 2];
    for (size_t i = 1; i < s->slow_count; i++) {
        int64_t distance = distance_to(s, i, &near);
        near_equal += near && distance == usual;
        equal += near ? distance == usual : distance % usual == 0;
    }
    if (usual < 2 || 100 * equal < (size_t)REGULAR_SHARE * (s->slow_count - 1))
        return (struct regularity){0, 1};
    return (struct regularity){(uint32_t)usual, chance_of_equal(s, count, near_equal)};
}

/* Leaves of two slow stretches in a row the first: what a rank does across the end of a stretch, as in a sweep, whose
 * ranks work twice in a step, is in both. Returns false where more follow each other. */
static bool join_pairs(struct stretches *s) {
    size_t count = 0, joined = SIZE_MAX;
    for (size_t i = 0; i < s->slow_count; i++) {
        bool follows = i > 0 && s->slow[i] == s->slow[i - 1] + 1;
        if (follows && joined == i - 1)
            return false;
        s->slow[count] = s->slow[i];
        joined = follows ? i : joined;
        count += !follows;
    }
    s->slow_count = count;
    return true;
}

static bool find_distance(struct stretches *s, struct rank_leads *out) {
    int64_t *distances = malloc((s->slow_count + 1) * sizeof *distances);
    struct regularity found = {0, 1};
    size_t single = s->slow_count;
    if (distances && !out->phase)
        found = regularity_of(s, distances);
    if (distances && !out->phase && found.every == 0 && join_pairs(s)) {
        found = regularity_of(s, distances);
        if (found.every > 0) {
            out->slow_rows = s->slow_count;
            out->longer_ns *= (double)single / (double)s->slow_count;
        }
    }
    out->every = found.every;
    out->every_chance = found.chance;
    free(distances);
    return distances != NULL;
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

/* Of a part of the run what is usual there: others may have paused in it, or the rank itself, for longer than all that
 * it takes more. */
static void describe_phase(struct stretches *s, struct rank_leads *out) {
    size_t from = (size_t)s->slow[0], count = s->slow_count;
    double others = 0;
    for (size_t i = 0; i < count; i++)
        others += s->others[from + i] + 1;
    out->slow_ratio = median_ratio(s, from, from + count, true);
    out->longer_ns = (out->slow_ratio - 1) * others / (double)count;
}

static void describe(struct stretches *s, struct rank_leads *out) {
    const size_t rows = s->rows, slow = s->slow_count;
    double own = 0, others = 0, slow_own = 0, slow_others = 0;
    for (size_t row = 0; row < rows; row++) {
        own += s->own[row];
        others += s->others[row];
    }
    out->rows = rows;
    out->self_ratio = (own + 1) / (others + 1);
    out->slow_rows = slow;
    if (slow == 0 || rows == 0)
        return;
    for (size_t i = 0; i < slow; i++) {
        slow_own += s->own[s->slow[i]];
        slow_others += s->others[s->slow[i]];
    }
    out->longer_ns = (slow_own - slow_others) / (double)slow;
    out->slow_ratio = (slow_own + 1) / (slow_others + 1);
    if (out->phase)
        describe_phase(s, out);
    out->first = (uint32_t)(1000 * (double)s->slow[0] / (double)rows);
    out->last = (uint32_t)(1000 * (double)(s->slow[slow - 1] + 1) / (double)rows);
}

bool slow_stretches_find(const struct leads_table *table, size_t column, struct rank_leads *out) {
    struct stretches s;
    bool done = stretches_init(&s, table, column);
    if (done) {
        find_phase(&s, out);
        if (!out->phase)
            find_high_rows(&s);
        describe(&s, out);
        done = find_distance(&s, out);
    }
    stretches_free(&s);
    return done;
}
