/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/leads/slow_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/statistics.h"

enum {
    PART_SHARE = TIME_BATCHES_MIN, /* a part is an eighth of the run at least, as in slow_stretches.c */
    PEERS_MIN = 3, /* others, each beside two more, to measure on how much one height resembles the next */
};
#define CORRELATION_MOST 0.9 /* of neighbouring pieces; beyond, a part and a drift are the same */

struct part {
    size_t from, to; /* pieces */
    double height;   /* mean */
};

/* ---- heights ------------------------------------------------------------------------------------------------- */

/* By how much each value of a row is above the median of the others; `sorted` has room for all. */
static void heights_of_row(const double *self, size_t columns, bool level, double *sorted, double *out) {
    memcpy(sorted, self, columns * sizeof *sorted);
    sort_double(sorted, columns);
    size_t low = (columns - 2) / 2, high = (columns - 1) / 2; /* among the others */
    for (size_t c = 0; c < columns; c++) {
        /* whoever is at or before a place in the middle takes that place from the others */
        double a = sorted[self[c] <= sorted[low] ? low + 1 : low];
        double b = sorted[self[c] <= sorted[high] ? high + 1 : high];
        double median = (a + b) / 2;
        /* one more nanosecond each: a stretch without any own time is as good as equal */
        out[c] = level ? self[c] - median : (self[c] + 1) / (median + 1);
    }
}

static void heights_of_piece(struct slow_parts *parts, size_t piece, const double *above, size_t rows, bool level,
                             double *scratch) {
    for (size_t c = 0; c < parts->columns; c++) {
        for (size_t row = 0; row < rows; row++)
            scratch[row] = above[row * parts->columns + c];
        double median = median_double(scratch, rows);
        parts->heights[c * PIECES_MOST + piece].height = level ? median : log(median);
    }
    parts->rows[piece] = (double)rows;
}

static void places_of_piece(struct slow_parts *parts, size_t piece, const double *places, size_t rows) {
    double n = (double)parts->columns, deviation = sqrt((n * n - 1) / 12);
    for (size_t row = 0; row < rows; row++)
        for (size_t c = 0; c < parts->columns; c++)
            parts->heights[c * PIECES_MOST + piece].places +=
                (places[row * parts->columns + c] - (n - 1) / 2) / deviation;
}

/* ---- how much one piece resembles the next ------------------------------------------------------------------- */

/* Autocorrelation of deviations from `means` means; estimated low by (1 + 4 r) / n for each (Kendall, "Note on bias in
 * the estimation of autocorrelation", 1954). */
static double correlation_of(const double *deviations, size_t count, unsigned means, double *squares) {
    double product = 0, bias = means / (double)count;
    *squares = 0;
    for (size_t p = 0; p < count; p++) {
        *squares += deviations[p] * deviations[p];
        product += p > 0 ? deviations[p] * deviations[p - 1] : 0;
    }
    return *squares > 0 ? fmax(0, (product / *squares + bias) / (1 - 4 * bias)) : 0;
}

static double correlation_of_column(const struct slow_parts *parts, size_t column) {
    const struct height *heights = parts->heights + column * PIECES_MOST;
    double deviations[PIECES_MOST] = {0}, mean = 0, squares;
    for (size_t p = 0; p < parts->pieces; p++)
        mean += heights[p].height / (double)parts->pieces;
    for (size_t p = 0; p < parts->pieces; p++)
        deviations[p] = heights[p].height - mean;
    return correlation_of(deviations, parts->pieces, 1, &squares);
}

bool slow_parts_find(struct slow_parts *parts, const double *self, const double *places, size_t rows, size_t columns,
                     bool level) {
    *parts = (struct slow_parts){.pieces = rows < PIECES_MOST ? rows : PIECES_MOST,
                                 .columns = columns,
                                 .heights = calloc(columns * PIECES_MOST + 1, sizeof *parts->heights),
                                 .correlations = calloc(columns + 1, sizeof *parts->correlations)};
    size_t most = parts->pieces > 0 ? rows / parts->pieces + 1 : 0;
    double *above = calloc(most * columns + 1, sizeof *above);
    double *scratch = malloc((most + columns + 1) * sizeof *scratch);
    bool done = parts->heights && parts->correlations && above && scratch;
    for (size_t p = 0; done && p < parts->pieces; p++) {
        size_t from = p * rows / parts->pieces, to = (p + 1) * rows / parts->pieces;
        for (size_t row = from; row < to; row++)
            heights_of_row(self + row * columns, columns, level, scratch, above + (row - from) * columns);
        heights_of_piece(parts, p, above, to - from, level, scratch);
        places_of_piece(parts, p, places + from * columns, to - from);
    }
    for (size_t c = 0; done && c < columns; c++)
        parts->correlations[c] = correlation_of_column(parts, c);
    if (done)
        sort_double(parts->correlations, columns);
    free(above);
    free(scratch);
    return done;
}

void slow_parts_free(struct slow_parts *parts) {
    free(parts->heights);
    free(parts->correlations);
}

/* ---- the test ------------------------------------------------------------------------------------------------ */

static struct part highest_part(const struct height *heights, size_t pieces, size_t least) {
    struct part best = {0};
    double highest = 0;
    for (size_t from = 0; from < pieces; from++) {
        double sum = 0;
        for (size_t to = from + 1; to <= pieces; to++) {
            sum += heights[to - 1].height;
            double count = (double)(to - from), stands = sum / sqrt(count);
            if (to - from < least || stands <= highest)
                continue;
            highest = stands;
            best = (struct part){from, to, sum / count};
        }
    }
    return best;
}

/* Distances from the mean of each side of the part; returns how many sides there are. */
static unsigned level_sides(const struct height *heights, size_t pieces, const struct part *part, double *out) {
    double sums[2] = {0};
    size_t counts[2] = {0};
    for (size_t p = 0; p < pieces; p++) {
        bool inside = p >= part->from && p < part->to;
        sums[inside] += heights[p].height;
        counts[inside]++;
    }
    for (size_t p = 0; p < pieces; p++) {
        bool inside = p >= part->from && p < part->to;
        out[p] = heights[p].height - sums[inside] / (double)counts[inside];
    }
    return counts[false] > 0 ? 2 : 1;
}

/* Student's tail of the part's height. How much one piece resembles the next is at least what it is on the median of
 * the ranks, and larger by a standard deviation of its estimate. */
static double chance_of_heights(const struct slow_parts *parts, const struct height *heights, const struct part *part) {
    double deviations[PIECES_MOST] = {0}, squares, count = (double)(part->to - part->from);
    unsigned sides = level_sides(heights, parts->pieces, part, deviations);
    unsigned degrees = (unsigned)parts->pieces - sides;
    double r = correlation_of(deviations, parts->pieces, sides, &squares);
    if (parts->columns > PEERS_MIN)
        r = fmax(r, parts->correlations[parts->columns / 2]);
    r = fmin(r + 1 / sqrt((double)parts->pieces), CORRELATION_MOST);
    if (squares <= 0)
        return 0;
    return student_both_tails(part->height / sqrt(squares / degrees / count * (1 + r) / (1 - r)), degrees) / 2;
}

double slow_parts_chance(const struct slow_parts *parts, size_t column) {
    const struct height *heights = parts->heights + column * PIECES_MOST;
    size_t least = parts->pieces / PART_SHARE, starts = parts->pieces - least + 1;
    if (parts->pieces < (size_t)2 * TIME_BATCHES_MIN)
        return 1;
    struct part part = highest_part(heights, parts->pieces, least);
    if (part.height <= 0)
        return 1;
    double places = 0, rows = 0, choices = (double)starts * (double)(starts + 1) / 2;
    for (size_t p = part.from; p < part.to; p++) {
        places += heights[p].places;
        rows += parts->rows[p];
    }
    double of_places = erfc(places / sqrt(2 * rows)) / 2;
    return fmin(1, choices * fmax(of_places, chance_of_heights(parts, heights, &part)));
}
