/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting a comparison group's run into batches that can be compared.
 * Lives here: the bins that all ranks have, and where batches end.
 * Must not live here: tests, verdicts.
 */
#include "analyzer/stragglers/time_batches.h"

#include <stdlib.h>

#include "analyzer/base/statistics.h"

enum { ONE_BIN_MOST = 8 }; /* one bin weighs at most this fraction of all: a long start leaves TIME_BATCHES_MIN */

/* The bins of all columns, side by side. */
struct common_bins {
    uint32_t first, end; /* numbers that every column has */
    int64_t *median;     /* per bin; -1 where the columns do not count the same collectives */
};

static int64_t self_in(const struct rank_times *times, uint32_t number) {
    return times->bins.self_ns[number - times->bins.first];
}

static uint32_t calls_in(const struct rank_times *times, uint32_t number) {
    return times->bins.calls[number - times->bins.first];
}

static void find_common(struct common_bins *bins, const struct time_batches *batches, struct rank_times *times) {
    unsigned shift = 0;
    for (size_t i = 0; i < batches->dump_count; i++)
        if (times[batches->dumps[i]].bins.shift > shift)
            shift = times[batches->dumps[i]].bins.shift;
    bins->first = 0;
    bins->end = UINT32_MAX;
    for (size_t i = 0; i < batches->dump_count; i++) {
        struct rank_bins *own = &times[batches->dumps[i]].bins;
        rank_bins_coarsen(own, shift);
        if (own->first > bins->first)
            bins->first = own->first;
        if (own->first + own->count < bins->end)
            bins->end = own->first + own->count;
    }
}

static bool fill_medians(struct common_bins *bins, const struct time_batches *batches, const struct rank_times *times) {
    int64_t *column = malloc(batches->dump_count * sizeof *column);
    bins->median = calloc(bins->end > bins->first ? bins->end - bins->first : 1, sizeof *bins->median);
    if (!column || !bins->median) {
        free(column);
        return false;
    }
    for (uint32_t number = bins->first; number < bins->end; number++) {
        uint32_t calls = calls_in(&times[batches->dumps[0]], number);
        bool same = calls > 0;
        for (size_t i = 0; i < batches->dump_count; i++) {
            same = same && calls_in(&times[batches->dumps[i]], number) == calls;
            column[i] = self_in(&times[batches->dumps[i]], number);
        }
        bins->median[number - bins->first] = same ? median_high_int64(column, batches->dump_count) : -1;
    }
    free(column);
    return true;
}

static int64_t sum_capped(const struct common_bins *bins, int64_t cap) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < bins->end - bins->first; i++)
        if (bins->median[i] > 0)
            sum = add_ns(sum, bins->median[i] < cap ? bins->median[i] : cap);
    return sum;
}

/* Adds bins to the current batch and ends it where the weight so far passes the next equal share. */
static void cut(struct time_batches *batches, const struct common_bins *bins, const struct rank_times *times,
                size_t most) {
    int64_t cap = sum_capped(bins, INT64_MAX) / ONE_BIN_MOST + 1;
    int64_t share = sum_capped(bins, cap) / (int64_t)most + 1, weight = 0, limit = share;
    for (uint32_t number = bins->first; number < bins->end; number++) {
        int64_t median = bins->median[number - bins->first];
        if (median < 0)
            continue;
        int64_t *row = batches->self_ns + batches->count * batches->dump_count;
        for (size_t i = 0; i < batches->dump_count; i++)
            row[i] = add_ns(row[i], self_in(&times[batches->dumps[i]], number));
        weight = add_ns(weight, median < cap ? median : cap);
        if (weight < limit)
            continue;
        batches->count++;
        limit = (weight / share + 1) * share;
    }
}

/* How many steps all columns have; 0: they differ. */
static size_t common_steps(const struct time_batches *batches, const struct rank_times *times) {
    size_t count = batches->dump_count > 0 ? own_steps_whole(&times[batches->dumps[0]].steps) : 0;
    for (size_t i = 0; i < batches->dump_count; i++)
        if (own_steps_whole(&times[batches->dumps[i]].steps) != count)
            return 0;
    return count;
}

static bool list_columns(struct time_batches *batches, const struct rank_times *times, const size_t *members,
                         size_t member_count) {
    *batches = (struct time_batches){.dumps = malloc((member_count ? member_count : 1) * sizeof *batches->dumps)};
    for (size_t i = 0; batches->dumps && i < member_count; i++)
        if (times[members[i]].bins.count > 0)
            batches->dumps[batches->dump_count++] = members[i];
    return batches->dumps != NULL;
}

/* Adds a row of so many steps. False where nobody worked in them, as in what follows the last mark. */
static bool add_steps(struct time_batches *batches, const struct rank_times *times, size_t first, size_t count) {
    int64_t *row = batches->self_ns + batches->count * batches->dump_count, sum = 0;
    for (size_t i = 0; i < batches->dump_count; i++) {
        row[i] = 0;
        for (size_t step = first; step < first + count; step++)
            row[i] = add_ns(row[i], times[batches->dumps[i]].steps.rows[step].self_ns);
        sum = add_ns(sum, row[i]);
    }
    return sum > 0;
}

bool time_batches_of_steps(struct time_batches *batches, const struct rank_times *times, const size_t *members,
                           size_t member_count) {
    if (!list_columns(batches, times, members, member_count))
        return false;
    size_t steps = common_steps(batches, times), at_once = (steps + TIME_BATCHES_MOST - 1) / TIME_BATCHES_MOST;
    batches->rows = ROWS_ARE_STEPS;
    batches->at_once = at_once;
    batches->marked = batches->dump_count > 0 && times[batches->dumps[0]].steps.marked;
    if (batches->dump_count < 2 || steps < STEP_ROWS_MIN)
        return true;
    batches->self_ns = calloc((steps / at_once + 1) * batches->dump_count, sizeof *batches->self_ns);
    for (size_t step = 0; batches->self_ns && step + at_once <= steps; step += at_once)
        batches->count += add_steps(batches, times, step, at_once);
    return batches->self_ns != NULL;
}

bool time_batches_make(struct time_batches *batches, struct rank_times *times, const size_t *members,
                       size_t member_count, size_t most) {
    if (!list_columns(batches, times, members, member_count))
        return false;
    if (batches->dump_count < 2)
        return true;
    struct common_bins bins;
    find_common(&bins, batches, times);
    /* one row more than batches: what follows the last full batch is gathered there and dropped */
    batches->self_ns = calloc((most + 2) * batches->dump_count, sizeof *batches->self_ns);
    bool done = batches->self_ns && fill_medians(&bins, batches, times);
    if (done && bins.end > bins.first)
        cut(batches, &bins, times, most);
    if (batches->self_ns)
        free(bins.median);
    return done;
}

void time_batches_free(struct time_batches *batches) {
    free(batches->dumps);
    free(batches->self_ns);
    *batches = (struct time_batches){0};
}
