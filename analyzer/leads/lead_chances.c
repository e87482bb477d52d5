/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/leads/lead_chances.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/significance.h"
#include "analyzer/base/statistics.h"

enum {
    HALVINGS = 50,  /* of an interval, until the bound is as low as it gets */
    LARGE_PART = 2, /* half as large as the large leads: large, too */
    GRID = 4096,    /* steps of all leads together: what a lead is rounded by is less than noise */
};
#define ALIKE_LEAST     1.5 /* of eight means: what independent rows show in one of eight cases is not added up */
#define BOUND_LOOKED_AT 0.2 /* the bound is at most about four times what the chance is, there */

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

struct lead_sums sum_of_leads(const struct lead_rows *rows, const struct question *question) {
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

double chance_of_sum(const struct lead_rows *rows, const struct question *question) {
    double bound = chernoff_bound(rows, question);
    return !question->exact || bound > BOUND_LOOKED_AT ? bound : exact_chance(rows, question);
}

/* Half as large as those that make up half of what all asked about sum to, from the largest on. `sorted` ascending. */
static double least_large(const double *sorted, size_t count, double sum) {
    double large = 0;
    while (count > 0 && large < sum / 2)
        large += sorted[--count];
    return large > 0 ? sorted[count] / LARGE_PART : INFINITY;
}

double chance_of_large(const struct lead_rows *rows, const struct question *question, double *least) {
    const struct lead *leads = leads_asked_about(question, rows);
    double *own = malloc((rows->rows + 1) * sizeof *own);
    unsigned all = 0, large = 0;
    if (!own)
        return -1;
    for (size_t row = 0; row < rows->rows; row++)
        own[row] = is_asked_about(question, &leads[row]) ? leads[row].ns : 0;
    sort_double(own, rows->rows);
    *least = least_large(own, rows->rows, sum_of_leads(rows, question).own);
    free(own);
    for (size_t row = 0; row < rows->rows; row++) {
        all += leads[row].ns >= *least;
        large += leads[row].ns >= *least && is_asked_about(question, &leads[row]);
    }
    return binomial_tail(all, large, share_of(question, rows));
}

double looked_at(const struct lead_rows *rows) {
    return CHANCE_LOOKED_AT * fmin(1, 2 * (double)rows->rows / (double)rows->columns);
}

double chance_of(struct lead_rows *apart, const struct question *question, double *scratch) {
    double chance = chance_of_sum(apart, question);
    if (chance < 0 || chance > looked_at(apart))
        return chance;
    double alike = rows_alike(apart, question->out, scratch);
    size_t width = alike >= ALIKE_LEAST ? (size_t)ceil(alike) + 1 : 1;
    if (apart->rows / width < LEAD_PARTS)
        return 1;
    const struct lead_rows *rows = rows_of_width(apart, width);
    chance = rows ? chance_of_sum(rows, question) : -1;
    return chance < 0 ? chance : pow(chance, 1 / rows_alike(rows, question->out, scratch));
}
