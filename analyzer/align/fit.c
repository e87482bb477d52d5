/* SPDX-License-Identifier: Apache-2.0
 *
 * Differences are taken from a centre before they become doubles: nanoseconds of a day then keep their last digit.
 */
#include "analyzer/align/fit.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/ns.h"
#include "analyzer/base/statistics.h"

enum {
    BLOCK_MIN = 20,
    BLOCKS_MAX = 50,
    BLOCKS_NEEDED = 3,
    POINTS_FOR_DRIFT = 4,
    SLOPES_MAX = BLOCK_MIN * BLOCKS_NEEDED
};
enum { SEARCH_ROUNDS = 80, DRIFT_GRID = 32 };

int64_t clock_line_at(const struct clock_line *line, int64_t at) {
    return add_ns(line->offset, ns_clamped(round(line->drift * (double)(at - line->center))));
}

/* Of what is left of the points beside a line. */
static size_t block_medians(const struct clock_point *points, size_t count, const struct clock_line *line,
                            int64_t *scratch, struct clock_point *medians, size_t room) {
    size_t blocks = count / BLOCK_MIN;
    if (blocks > room)
        blocks = room;
    for (size_t b = 0; b < blocks; b++) {
        size_t from = count * b / blocks, to = count * (b + 1) / blocks;
        for (size_t i = from; i < to; i++)
            scratch[i - from] = add_ns(points[i].value, -clock_line_at(line, points[i].at));
        medians[b] = (struct clock_point){points[from + (to - from) / 2].at, median_int64(scratch, to - from)};
    }
    return blocks;
}

size_t clock_block_medians(const struct clock_point *points, size_t count, int64_t *scratch,
                           struct clock_point *medians, size_t room) {
    struct clock_line none = {0};
    return block_medians(points, count, &none, scratch, medians, room);
}

/* Least squares. */
static struct clock_line through(const struct clock_point *points, size_t count) {
    struct clock_line line = {.center = points[count / 2].at, .offset = points[count / 2].value};
    double t = 0, v = 0, tt = 0, tv = 0;
    for (size_t i = 0; i < count; i++) {
        t += (double)(points[i].at - line.center) / (double)count;
        v += (double)(points[i].value - line.offset) / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        double x = (double)(points[i].at - line.center) - t;
        tt += x * x;
        tv += x * ((double)(points[i].value - line.offset) - v);
    }
    line.drift = tt > 0 ? tv / tt : 0;
    line.offset = add_ns(line.offset, ns_clamped(round(v - line.drift * t)));
    return line;
}

/* Few points: the median of all slopes between them, then the median of what is left (Theil and Sen). */
static struct clock_line through_few(const struct clock_point *points, size_t count, int64_t *scratch) {
    struct clock_line line = {.center = points[count / 2].at};
    double slopes[SLOPES_MAX * (SLOPES_MAX - 1) / 2];
    size_t n = 0;
    for (size_t i = 0; i < count && count >= POINTS_FOR_DRIFT; i++)
        for (size_t j = i + 1; j < count; j++)
            if (points[j].at > points[i].at)
                slopes[n++] = (double)(points[j].value - points[i].value) / (double)(points[j].at - points[i].at);
    for (size_t i = 1; i < n; i++) { /* few enough for insertion */
        double slope = slopes[i];
        size_t j = i;
        for (; j > 0 && slopes[j - 1] > slope; j--)
            slopes[j] = slopes[j - 1];
        slopes[j] = slope;
    }
    line.drift = n > 0 ? slopes[n / 2] : 0;
    for (size_t i = 0; i < count; i++)
        scratch[i] = add_ns(points[i].value, -ns_clamped(round(line.drift * (double)(points[i].at - line.center))));
    line.offset = median_int64(scratch, count);
    return line;
}

struct clock_line clock_line_fit(const struct clock_point *points, size_t count, int64_t *scratch) {
    struct clock_point medians[BLOCKS_MAX];
    if (count < SLOPES_MAX)
        return through_few(points, count, scratch);
    struct clock_line line = {.center = points[count / 2].at};
    for (int pass = 0; pass < 2; pass++) { /* within a block the first one's drift hides what is off its middle */
        size_t blocks = block_medians(points, count, &line, scratch, medians, BLOCKS_MAX);
        struct clock_line correction = through(medians, blocks);
        line.offset = add_ns(line.offset, clock_line_at(&correction, line.center));
        line.drift += correction.drift;
    }
    return line;
}

/* ---- the corridor ---------------------------------------------------------------------------- */

/* Andrew's monotone chain, in place: the lower hull for sign = 1, the upper one for -1. */
static size_t half_hull(struct clock_point *points, size_t count, double sign) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        struct clock_point p = points[i];
        if (n > 0 && points[n - 1].at == p.at) {
            if (sign * (double)(p.value - points[n - 1].value) >= 0)
                continue;
            n--;
        }
        while (n >= 2) {
            struct clock_point a = points[n - 2], b = points[n - 1];
            double cross = (double)(b.at - a.at) * (double)(p.value - a.value) -
                           (double)(b.value - a.value) * (double)(p.at - a.at);
            if (sign * cross > 0)
                break;
            n--;
        }
        points[n++] = p;
    }
    return n;
}

/* Extreme of value - drift * at over a hull: the lowest for sign = 1. */
static double extreme(const struct clock_point *hull, size_t count, int64_t center, double drift, double sign) {
    double best = INFINITY;
    for (size_t i = 0; i < count; i++) {
        double left = sign * ((double)hull[i].value - drift * (double)(hull[i].at - center));
        if (left < best)
            best = left;
    }
    return sign * best;
}

static double width_at(const struct clock_corridor *c, double drift) {
    return extreme(c->upper, c->upper_count, c->center, drift, 1) -
           extreme(c->lower, c->lower_count, c->center, drift, -1);
}

/* Between a drift that fits and one that need not, the last one that fits. */
static double last_that_fits(const struct clock_corridor *c, double fits, double other) {
    if (width_at(c, other) >= 0)
        return other;
    for (int i = 0; i < SEARCH_ROUNDS; i++) {
        double middle = fits + (other - fits) / 2;
        if (width_at(c, middle) >= 0)
            fits = middle;
        else
            other = middle;
    }
    return fits;
}

struct clock_corridor clock_corridor_build(struct clock_point *upper, size_t upper_count, struct clock_point *lower,
                                           size_t lower_count, double most) {
    struct clock_corridor c = {.upper = upper, .lower = lower, .drift_low = -most, .drift_high = most};
    c.upper_count = half_hull(upper, upper_count, 1);
    c.lower_count = half_hull(lower, lower_count, -1);
    if (c.upper_count == 0 || c.lower_count == 0) {
        c.width = INFINITY;
        return c;
    }
    c.center = lower[0].at / 2 + upper[c.upper_count - 1].at / 2;
    double low = -most, high = most;
    for (int i = 0; i < SEARCH_ROUNDS; i++) {
        double left = low + (high - low) / 3, right = high - (high - low) / 3;
        if (width_at(&c, left) < width_at(&c, right))
            low = left;
        else
            high = right;
    }
    c.drift = c.drift_low = c.drift_high = low + (high - low) / 2;
    c.width = width_at(&c, c.drift);
    if (c.width >= 0) {
        c.drift_low = last_that_fits(&c, c.drift, -most);
        c.drift_high = last_that_fits(&c, c.drift, most);
    }
    return c;
}

void clock_corridor_at(const struct clock_corridor *c, int64_t at, int64_t *low, int64_t *high) {
    double lowest = INFINITY, highest = -INFINITY;
    for (int i = 0; i <= DRIFT_GRID; i++) {
        double drift = c->drift_low + (c->drift_high - c->drift_low) * i / DRIFT_GRID;
        double move = drift * (double)(at - c->center);
        double top = extreme(c->upper, c->upper_count, c->center, drift, 1) + move;
        double bottom = extreme(c->lower, c->lower_count, c->center, drift, -1) + move;
        highest = top > highest ? top : highest;
        lowest = bottom < lowest ? bottom : lowest;
    }
    /* what lies between two drifts of the grid may reach a little further: one ns and one part in a thousand */
    double slack = isfinite(highest - lowest) ? 1 + (highest - lowest) / 1000 : 0;
    *high = highest + slack < (double)NS_MOST ? (int64_t)ceil(highest + slack) : NS_MOST;
    *low = lowest - slack > -(double)NS_MOST ? (int64_t)floor(lowest - slack) : -NS_MOST;
}
