/* SPDX-License-Identifier: Apache-2.0
 *
 * Is one of many slower than the others, or is it chance?
 * Lives here: exact binomial tail, rank sums, autocorrelation of batches, Benjamini-Hochberg.
 * Must not live here: where the table comes from, what follows from the answer.
 */
#include "analyzer/base/significance.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/statistics.h"

/* The fewest batches of which a rank among four that was slowest in all can be claimed: 2 * 4 * 4^-5 <= 0.01 */
#define INDEPENDENT_MIN   5.0
#define INDEPENDENT_MANY  8.0   /* from here on, counting can tell one of two from the other: 2 * 2^-8 <= 0.01 */
#define DRIFT_CORRELATION 0.975 /* of neighbouring batches, in the slowest drift taken for chance: 40 batches long */
#define DRIFT_FACTOR      2.0   /* a rank that shares its processor with another process is that slow */
#define STEPS_MANY        16    /* an autocorrelation of fewer is known to 0.25 at best (1 / sqrt(16)) */
#define CONFIDENCE_MOST   0.999

/* Work space of one table. */
struct significance_table {
    enum significance_rows rows;
    size_t batches, subjects;
    double *logs;      /* batches * subjects: ln(own / median of the others) */
    double *ranks;     /* per subject: sum over batches of its place, 1 = fastest */
    uint32_t *slowest; /* per subject: batches */
    int64_t *sorted;
    size_t *order;
    double *column;
};

static bool table_init(struct significance_table *table, size_t batches, size_t subjects, enum significance_rows rows) {
    *table = (struct significance_table){.rows = rows, .subjects = subjects};
    table->logs = calloc(batches * subjects, sizeof *table->logs);
    table->ranks = calloc(subjects, sizeof *table->ranks);
    table->slowest = calloc(subjects, sizeof *table->slowest);
    table->sorted = calloc(subjects, sizeof *table->sorted);
    table->order = calloc(subjects, sizeof *table->order);
    table->column = calloc(batches, sizeof *table->column);
    return table->logs && table->ranks && table->slowest && table->sorted && table->order && table->column;
}

static void table_free(struct significance_table *table) {
    free(table->logs);
    free(table->ranks);
    free(table->slowest);
    free(table->sorted);
    free(table->order);
    free(table->column);
}

int64_t median_without(const int64_t *sorted, size_t count, size_t position) {
    size_t others = count - 1;
    size_t low = (others - 1) / 2, high = others / 2; /* places among the others */
    int64_t a = sorted[low < position ? low : low + 1], b = sorted[high < position ? high : high + 1];
    return a + (b - a) / 2;
}

struct subject_value {
    int64_t value;
    size_t subject;
};

static int compare_pairs(const void *a, const void *b) {
    const struct subject_value *left = a, *right = b;
    if (left->value != right->value)
        return left->value < right->value ? -1 : 1;
    return left->subject < right->subject ? -1 : left->subject > right->subject;
}

/* Adds one batch: every subject's place (ties share the mean place) and its distance from the others' median. */
static bool add_block(struct significance_table *table, const int64_t *self, struct subject_value *pairs) {
    size_t n = table->subjects;
    for (size_t i = 0; i < n; i++)
        pairs[i] = (struct subject_value){self[i], i};
    qsort(pairs, n, sizeof *pairs, compare_pairs);
    if (pairs[n - 1].value <= 0)
        return false;
    for (size_t i = 0; i < n; i++)
        table->sorted[i] = pairs[i].value;
    double *logs = table->logs + table->batches * n;
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && pairs[end].value == pairs[i].value)
            end++;
        for (size_t j = i; j < end; j++) {
            double others = (double)median_without(table->sorted, n, j);
            /* one more nanosecond each: a batch without any own time is as good as equal */
            logs[pairs[j].subject] = log(((double)pairs[j].value + 1) / (others + 1));
            table->ranks[pairs[j].subject] += ((double)i + (double)end + 1) / 2;
        }
        i = end;
    }
    if (pairs[n - 1].value > pairs[n - 2].value)
        table->slowest[pairs[n - 1].subject]++;
    table->batches++;
    return true;
}

/* Lag-1 autocorrelation of a column about its mean, and its sum of squares as weight. */
static double column_correlation(const struct significance_table *table, size_t subject, double *squares) {
    double mean = 0, product = 0;
    for (size_t b = 0; b < table->batches; b++)
        mean += table->logs[b * table->subjects + subject];
    mean /= (double)table->batches;
    *squares = 0;
    for (size_t b = 0; b < table->batches; b++) {
        double here = table->logs[b * table->subjects + subject] - mean;
        *squares += here * here;
        if (b + 1 < table->batches)
            product += here * (table->logs[(b + 1) * table->subjects + subject] - mean);
    }
    return *squares > 0 ? product / *squares : 0;
}

/* Batches that count as independent: K (1 - r) / (1 + r), r the mean autocorrelation over the subjects. */
static double independent_batches(const struct significance_table *table) {
    double sum = 0;
    size_t counted = 0;
    for (size_t i = 0; i < table->subjects; i++) {
        double squares;
        double correlation = column_correlation(table, i, &squares);
        if (squares > 0) {
            sum += correlation;
            counted++;
        }
    }
    /* the estimate from K values is low by about 1 / K */
    double r = counted ? sum / (double)counted + 1.0 / (double)table->batches : 0;
    r = r < 0 ? 0 : r > 0.95 ? 0.95 : r;
    return (double)table->batches * (1 - r) / (1 + r);
}

double log_factorial(double n) {
    int sign; /* lgamma() leaves it in a variable of all threads */
    return lgamma_r(n + 1, &sign);
}

double binomial_tail(unsigned trials, unsigned hits, double chance) {
    double sum = 0;
    for (unsigned k = hits; k <= trials; k++)
        sum += exp(log_factorial(trials) - log_factorial(k) - log_factorial((double)trials - k) + k * log(chance) +
                   (trials - k) * log1p(-chance));
    return sum < 1 ? sum : 1;
}

/* Where the speed of a job drifts (another job comes or goes), too few batches count as independent for counting. A
 * subject that was slower all the while by more than other jobs explain, and by many times the drift, is slow all the
 * same: chance that a drift as slow as DRIFT_CORRELATION, with the steps seen, stands so high. */
/* Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4: a finite sum for whole degrees. */
double student_both_tails(double t, unsigned degrees) {
    double angle = atan(fabs(t) / sqrt(degrees)), square = cos(angle) * cos(angle), sum = 0;
    bool odd = degrees % 2 != 0;
    double term = odd ? cos(angle) : 1;
    for (unsigned k = odd ? 2 : 1; k < degrees; k += 2) {
        sum += term;
        term *= square * k / (k + 1);
    }
    double within = odd ? 2 / M_PI * (angle + sin(angle) * sum) : sin(angle) * sum;
    return fmax(0, 1 - within);
}

static double chance_of_level(const struct significance_table *table, size_t subject) {
    double sum = 0, squares = 0, least = INFINITY;
    for (size_t b = 0; b < table->batches; b++) {
        double here = table->logs[b * table->subjects + subject];
        double step = b > 0 ? here - table->logs[(b - 1) * table->subjects + subject] : 0;
        sum += here;
        squares += step * step;
        least = fmin(least, here);
    }
    double variance = squares / (double)(table->batches - 1) / 2 / (1 - DRIFT_CORRELATION);
    return least > log(DRIFT_FACTOR) ? 0.5 * erfc(sum / (double)table->batches / sqrt(2 * variance)) : 1;
}

/* How likely it is the slowest as often, and stands as high among the others, as it does. */
static double chance_of_places(const struct significance_table *table, size_t subject, double independent) {
    double n = (double)table->subjects, k = (double)table->batches;
    if (independent < INDEPENDENT_MIN)
        return 1;
    unsigned trials = (unsigned)independent;
    unsigned hits = (unsigned)(table->slowest[subject] * (double)trials / k);
    double slowest = binomial_tail(trials, hits, 1 / n);
    if (table->subjects == 2) /* the place says the same again */
        return slowest;
    double above = table->ranks[subject] / k - (n + 1) / 2;
    double place = 0.5 * erfc(above / sqrt((n * n - 1) / 12 / independent) / sqrt(2));
    double both = 2 * (slowest < place ? slowest : place);
    return both < 1 ? both : 1;
}

/* Of a few steps in each of which it is the slowest: chance that its mean distance from the others is as far above 0
 * as it is, measured by how much that differs from step to step. */
static double chance_of_distance(const struct significance_table *table, size_t subject) {
    double mean = 0, squares = 0, k = (double)table->batches;
    if (table->slowest[subject] < table->batches)
        return 1;
    for (size_t b = 0; b < table->batches; b++)
        mean += table->logs[b * table->subjects + subject] / k;
    for (size_t b = 0; b < table->batches; b++) {
        double here = table->logs[b * table->subjects + subject] - mean;
        squares += here * here;
    }
    if (mean <= 0)
        return 1;
    return squares > 0 ? student_both_tails(mean / sqrt(squares / (k - 1) / k), (unsigned)table->batches - 1) / 2 : 0;
}

/* Of steps that are not counted for less because they resemble each other. */
static double chance_of_steps(const struct significance_table *table, size_t subject, double independent) {
    unsigned steps = (unsigned)table->batches;
    if (steps < STEP_ROWS_MIN)
        return 1;
    double places = steps < STEPS_MANY ? binomial_tail(steps, table->slowest[subject], 1 / (double)table->subjects)
                                       : chance_of_places(table, subject, independent);
    return fmin(1, 2 * fmin(places, chance_of_distance(table, subject)));
}

static double chance_of(const struct significance_table *table, size_t subject, double independent) {
    if (table->rows == ROWS_ARE_STEPS)
        return chance_of_steps(table, subject, independent);
    if (table->batches < TIME_BATCHES_MIN)
        return 1;
    double places = chance_of_places(table, subject, independent);
    if (independent >= INDEPENDENT_MANY)
        return places;
    double level = chance_of_level(table, subject);
    if (independent < INDEPENDENT_MIN)
        return level;
    double both = 2 * (places < level ? places : level);
    return both < 1 ? both : 1;
}

static void describe_subject(const struct significance_table *table, size_t subject, double independent,
                             struct significance *out) {
    unsigned slow = 0;
    for (size_t b = 0; b < table->batches; b++) {
        table->column[b] = exp(table->logs[b * table->subjects + subject]);
        slow += table->column[b] > SLOW_RATIO;
    }
    *out = (struct significance){
        .ratio = median_double(table->column, table->batches),
        .persistence = (double)slow / (double)table->batches,
        .slowest = (double)table->slowest[subject] / (double)table->batches,
        .p = chance_of(table, subject, independent),
    };
}

double significance_judge(const int64_t *self, size_t batches, size_t subjects, enum significance_rows rows,
                          struct significance *out) {
    struct significance_table table;
    struct subject_value *pairs = calloc(subjects, sizeof *pairs);
    double independent = -1;
    for (size_t i = 0; i < subjects; i++)
        out[i] = (struct significance){.p = 1};
    if (table_init(&table, batches ? batches : 1, subjects, rows) && pairs) {
        for (size_t b = 0; b < batches; b++)
            add_block(&table, self + b * subjects, pairs);
        independent = table.batches ? independent_batches(&table) : 0;
        for (size_t i = 0; table.batches && i < subjects; i++)
            describe_subject(&table, i, independent, &out[i]);
    }
    table_free(&table);
    free(pairs);
    return independent;
}

static int compare_chances(const void *a, const void *b) {
    const struct significance *left = *(struct significance *const *)a, *right = *(struct significance *const *)b;
    return (left->p > right->p) - (left->p < right->p);
}

bool significance_correct(struct significance *const *subjects, size_t count) {
    struct significance **sorted = malloc((count ? count : 1) * sizeof *sorted);
    if (!sorted)
        return false;
    for (size_t i = 0; i < count; i++)
        sorted[i] = subjects[i];
    qsort(sorted, count, sizeof *sorted, compare_chances);
    double least = 1;
    for (size_t i = count; i-- > 0;) {
        double corrected = sorted[i]->p * (double)count / (double)(i + 1);
        least = corrected < least ? corrected : least;
        double confidence = 1 - 10 * least;
        sorted[i]->confidence = confidence < 0 ? 0 : confidence > CONFIDENCE_MOST ? CONFIDENCE_MOST : confidence;
    }
    free(sorted);
    return true;
}
