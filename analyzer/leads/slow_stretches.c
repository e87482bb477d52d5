/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/leads/slow_stretches.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/significance.h"
#include "analyzer/base/statistics.h"
#include "analyzer/leads/rank_rows.h"

enum {
    PHASE_PARTS = 8,    /* a phase, and the rest of the run, have an eighth of it at least: TIME_BATCHES_MIN */
    REGULAR_SHARE = 70, /* per cent of the distances that are equal: as of a step (step_period.c) */
    SLOW_MIN = 3,       /* stretches, to say how regularly they come */
};
/* Standard deviations: 1 in 30,000 for one part of the run by chance, 1 in 100 for a few hundred that differ. */
#define PHASE_DEVIATIONS 4.0

struct stretches {
    const struct leads_table *table;
    struct rank_rows rank;
    double *scratch;
    struct row_value *sorted; /* room for all rows */
    int64_t *slow;            /* rows that are slow */
    size_t slow_count;
};

static bool stretches_init(struct stretches *s, const struct leads_table *table, size_t column) {
    *s = (struct stretches){.table = table,
                            .scratch = calloc(table->rows + 1, sizeof *s->scratch),
                            .sorted = calloc(table->rows, sizeof *s->sorted),
                            .slow = calloc(table->rows, sizeof *s->slow)};
    return rank_rows_init(&s->rank, table, column) && s->scratch && s->sorted && s->slow;
}

static void stretches_free(struct stretches *s) {
    rank_rows_free(&s->rank);
    free(s->scratch);
    free(s->sorted);
    free(s->slow);
}

/* The median of own / others' over the rows in [from, to), or over those outside, each with the weight of the others'
 * time in it: where hardly any work is done between two collectives of a step, nothing shows there. */
static double median_ratio(const struct stretches *s, size_t from, size_t to, bool inside) {
    size_t count = 0;
    double all = 0, until = 0;
    for (size_t row = 0; row < s->rank.rows; row++)
        if ((row >= from && row < to) == inside) {
            double ratio = (s->rank.own[row] + 1) / (s->rank.others[row] + 1); /* without any time as good as equal */
            s->sorted[count++] = (struct row_value){ratio, row};
            all += s->rank.others[row] + 1;
        }
    sort_row_values(s->sorted, count);
    for (size_t i = 0; i < count; i++) {
        until += s->rank.others[s->sorted[i].row] + 1;
        if (2 * until >= all)
            return s->sorted[i].value;
    }
    return 1;
}

/* ---- a part of the run --------------------------------------------------------------------------------------- */

/* scratch[row] becomes the sum of the places, from 0, that all rows before that one have among all. */
static void sum_places(const struct stretches *s) {
    for (size_t row = 0; row < s->rank.rows; row++)
        s->sorted[row] = (struct row_value){s->rank.above[row], row};
    sort_row_values(s->sorted, s->rank.rows);
    s->scratch[0] = 0;
    for (size_t i = 0; i < s->rank.rows; i++)
        s->scratch[s->sorted[i].row + 1] = (double)i;
    for (size_t row = 0; row < s->rank.rows; row++)
        s->scratch[row + 1] += s->scratch[row];
}

/* The part whose places stand highest, in standard deviations of a rank sum: as many as are returned. */
static double highest_part(const struct stretches *s, size_t *from, size_t *to) {
    double n = (double)s->rank.rows, best = 0;
    size_t least = s->rank.rows / PHASE_PARTS + 1;
    for (size_t a = 0; a < s->rank.rows; a++)
        for (size_t b = a + least; b <= s->rank.rows && b - a + least <= s->rank.rows; b++) {
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
    out->usual_ratio = out->phase ? median_ratio(s, from, to, false) : median_ratio(s, 0, s->rank.rows, true);
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
    for (size_t row = 0; row < s->rank.rows; row++)
        s->scratch[row] = s->rank.above[row];
    sort_double(s->scratch, s->rank.rows);
    double split = split_of(s->scratch, s->rank.rows);
    for (size_t row = 0; row < s->rank.rows; row++)
        if (s->rank.above[row] > split)
            s->slow[s->slow_count++] = (int64_t)row;
}

/* How many stretches the i-th slow row comes after the one before; `near`: with all between them on record. */
static int64_t distance_to(const struct stretches *s, size_t i, bool *near) {
    int64_t distance = (int64_t)s->table->numbers[s->slow[i]] - (int64_t)s->table->numbers[s->slow[i - 1]];
    *near = distance == s->slow[i] - s->slow[i - 1];
    return distance;
}

/* The distance at which most slow rows follow each other; 0: there is none. Of a long run samples are on record: from
 * one to the next the distance is a multiple of the usual one. */
static uint32_t usual_distance(const struct stretches *s, int64_t *distances) {
    size_t count = 0, equal = 0;
    bool near;
    for (size_t i = 1; i < s->slow_count; i++) {
        int64_t distance = distance_to(s, i, &near);
        if (near)
            distances[count++] = distance;
    }
    if (s->slow_count < SLOW_MIN || count == 0)
        return 0;
    sort_int64(distances, count);
    int64_t usual = distances[count / 2];
    for (size_t i = 1; i < s->slow_count; i++) {
        int64_t distance = distance_to(s, i, &near);
        equal += near ? distance == usual : distance % usual == 0;
    }
    if (usual < 2 || 100 * equal < (size_t)REGULAR_SHARE * (s->slow_count - 1))
        return 0;
    return (uint32_t)usual;
}

uint32_t slow_stretches_distance(const uint32_t *numbers, unsigned count) {
    int64_t distances[SLOW_NOTED];
    unsigned found = 0, equal = 0;
    for (unsigned i = 1; i < count && i <= SLOW_NOTED; i++)
        distances[found++] = (int64_t)numbers[i] - numbers[i - 1];
    if (count < SLOW_MIN)
        return 0;
    sort_int64(distances, found);
    int64_t usual = distances[found / 2];
    for (unsigned i = 0; i < found; i++)
        equal += distances[i] == usual;
    return usual > 0 && 100 * equal >= (unsigned)REGULAR_SHARE * found ? (uint32_t)usual : 0;
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
    uint32_t found = 0;
    size_t single = s->slow_count;
    if (distances && !out->phase)
        found = usual_distance(s, distances);
    if (distances && !out->phase && found == 0 && join_pairs(s)) {
        found = usual_distance(s, distances);
        if (found > 0) {
            out->slow_rows = s->slow_count;
            out->longer_ns *= (double)single / (double)s->slow_count;
        }
    }
    out->every = found;
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
        others += s->rank.others[from + i] + 1;
    out->slow_ratio = median_ratio(s, from, from + count, true);
    out->longer_ns = (out->slow_ratio - 1) * others / (double)count;
}

static void describe(struct stretches *s, struct rank_leads *out) {
    const size_t rows = s->rank.rows, slow = s->slow_count;
    double own = 0, others = 0, slow_own = 0, slow_others = 0;
    for (size_t row = 0; row < rows; row++) {
        own += s->rank.own[row];
        others += s->rank.others[row];
    }
    out->rows = rows;
    out->self_ratio = (own + 1) / (others + 1);
    out->slow_rows = slow;
    if (slow == 0 || rows == 0)
        return;
    for (size_t i = 0; i < slow; i++) {
        slow_own += s->rank.own[s->slow[i]];
        slow_others += s->rank.others[s->slow[i]];
    }
    out->longer_ns = (slow_own - slow_others) / (double)slow;
    out->slow_ratio = (slow_own + 1) / (slow_others + 1);
    if (out->phase)
        describe_phase(s, out);
    out->first = (uint32_t)(1000 * (double)s->slow[0] / (double)rows);
    out->last = (uint32_t)(1000 * (double)(s->slow[slow - 1] + 1) / (double)rows);
}

void slow_stretches_note(const struct leads_table *table, struct rank_leads *out, uint32_t number) {
    bool complete = table->numbers[table->rows - 1] - table->numbers[0] == table->rows - 1;
    if (complete && out->noted_count < SLOW_NOTED)
        out->noted[out->noted_count++] = number;
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
        for (size_t i = 0; !out->phase && i < s.slow_count; i++)
            slow_stretches_note(table, out, table->numbers[s.slow[i]]);
    }
    stretches_free(&s);
    return done;
}
