/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines through differences of two clocks.
 * Lives here: the likely line (block medians), the lines that no observation contradicts (a corridor of half-hulls).
 * Must not live here: where the points come from, domains, dumps.
 */
#ifndef COMMTAP_ALIGN_FIT_H
#define COMMTAP_ALIGN_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A difference of two clocks, `value` ns, seen at `at` ns of one of them. */
struct clock_point {
    int64_t at, value;
};

/* value(at) = offset + drift * (at - center) */
struct clock_line {
    int64_t center, offset;
    double drift; /* ns per ns */
};

int64_t clock_line_at(const struct clock_line *line, int64_t at);

/* The line through the medians of blocks of neighbouring points (at least 20 each; with fewer than three such blocks
 * the line of median slope between the points themselves), so that outliers do not count. `points` are in order of
 * `at`, count >= 1; `scratch` holds count values. Fewer than 4 points give a line without drift. */
struct clock_line clock_line_fit(const struct clock_point *points, size_t count, int64_t *scratch);

/* Medians of the same blocks, at most `room` of them. Returns how many. */
size_t clock_block_medians(const struct clock_point *points, size_t count, int64_t *scratch,
                           struct clock_point *medians, size_t room);

/* All lines that pass below every upper point and above every lower one. Both lists are in order of `at` and are
 * overwritten (only their hulls remain). */
struct clock_corridor {
    struct clock_point *upper, *lower; /* half-hulls, the caller's arrays */
    size_t upper_count, lower_count;
    int64_t center;
    double drift; /* of the widest line */
    double width; /* there, ns; negative: no line fits, the clock wanders or a match is false; INFINITY: one side has
                     no point */
    double drift_low, drift_high; /* of lines that fit; equal to drift where none does */
};

/* Drifts between -most and +most are tried: width is concave in the drift (a minimum of lines minus a maximum of
 * lines), hence a ternary search. */
struct clock_corridor clock_corridor_build(struct clock_point *upper, size_t upper_count, struct clock_point *lower,
                                           size_t lower_count, double most);

/* Lowest and highest value of any line that fits, at `at`; width must not be negative. INT64_MIN / 4, INT64_MAX / 4
 * where a side is open. */
void clock_corridor_at(const struct clock_corridor *corridor, int64_t at, int64_t *low, int64_t *high);

#endif
