/* SPDX-License-Identifier: Apache-2.0
 *
 * Two runs side by side.
 * Lives here: pairing, Mann-Whitney, the order of rows.
 * Must not live here: opening directories, printing.
 */
#include "analyzer/profile/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"

#define OBSERVATIONS_MIN 4.0

double compared_mean_ns(const struct compared_side *side) {
    return side->timed ? (double)side->time_total_ns / (double)side->timed : -1;
}

/* ---- pairing --------------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_key(const struct compared_row *a, const struct compared_row *b) {
    return a->kind == b->kind && a->source == b->source && a->comm_size == b->comm_size && a->bytes == b->bytes &&
           same_text(a->op, b->op) && same_text(a->site, b->site);
}

static struct compared_row *find_row(struct comparison *comparison, const struct compared_row *key) {
    for (size_t i = 0; i < comparison->count; i++)
        if (same_key(&comparison->rows[i], key))
            return &comparison->rows[i];
    if (!grow_list(comparison->rows, comparison->count))
        return NULL;
    comparison->rows[comparison->count] = *key;
    return &comparison->rows[comparison->count++];
}

static int compare_samples(const void *a, const void *b) {
    const struct summary_sample *left = a, *right = b;
    return (left->ns > right->ns) - (left->ns < right->ns);
}

static bool add_samples(struct compared_side *side, const struct summary_sample *samples, size_t count) {
    if (count == 0)
        return true;
    if (!grow_to(side->samples, side->sample_room, side->sample_count + count))
        return false;
    memcpy(side->samples + side->sample_count, samples, count * sizeof *samples);
    side->sample_count += count;
    return true;
}

static void sort_samples(struct compared_side *side) {
    if (side->sample_count > 0)
        qsort(side->samples, side->sample_count, sizeof *side->samples, compare_samples);
}

static bool add_run(struct compared_side *side, size_t run, uint64_t timed, uint64_t time_total_ns) {
    if (run >= side->run_count) {
        struct compared_run *runs = realloc(side->runs, (run + 1) * sizeof *runs);
        if (!runs)
            return false;
        memset(runs + side->run_count, 0, (run + 1 - side->run_count) * sizeof *runs);
        side->runs = runs;
        side->run_count = run + 1;
    }
    side->runs[run].timed += timed;
    side->runs[run].time_total_ns += time_total_ns;
    return true;
}

static bool add_compared(struct comparison *comparison, struct compared_place place, const struct summary_entry *entry,
                         bool site, size_t ranks) {
    struct compared_row key = {.kind = site ? COMPARED_SITE : COMPARED_OPERATION,
                               .op = entry->op,
                               .site = entry->site,
                               .source = entry->source,
                               .comm_size = entry->comm_size,
                               .bytes = entry->bytes};
    struct compared_row *row = find_row(comparison, &key);
    if (!row)
        return false;
    struct compared_side *to = &row->sides[place.side];
    uint64_t timed = entry->time.count, together = entry->comm_size ? entry->comm_size : ranks;
    to->count += entry->count;
    to->timed += timed;
    to->time_total_ns += entry->time.total_ns;
    to->observations += (double)timed / (double)(together ? together : 1);
    return add_run(to, place.run, timed, entry->time.total_ns) &&
           add_samples(to, entry->time.samples, entry->time.sample_count);
}

bool compare_add_summary(struct comparison *comparison, struct compared_place place, const struct summary *summary,
                         size_t ranks) {
    for (size_t i = 0; i < summary->count; i++)
        if (!add_compared(comparison, place, &summary->entries[i], (summary->by & SUMMARY_BY_SITE) != 0, ranks))
            return false;
    return true;
}

bool compare_add_steps(struct comparison *comparison, struct compared_place place, const struct steps *steps) {
    if (steps->reference >= steps->rank_count)
        return true;
    const struct rank_steps *rank = &steps->ranks[steps->reference];
    struct compared_row key = {.kind = COMPARED_STEP, .bytes = BYTES_UNKNOWN};
    struct compared_row *row = find_row(comparison, &key);
    struct summary_sample *samples = calloc(rank->count ? rank->count : 1, sizeof *samples);
    bool done = row && samples;
    uint64_t total = 0;
    for (size_t i = 0; done && i < rank->count; i++) {
        samples[i] = (struct summary_sample){(uint64_t)(rank->steps[i].end_ns - rank->steps[i].start_ns), 1};
        total += samples[i].ns;
    }
    if (done) {
        struct compared_side *to = &row->sides[place.side];
        to->time_total_ns += total;
        to->count += rank->count;
        to->timed += rank->count;
        to->observations += (double)rank->count;
        done = add_run(to, place.run, rank->count, total) && add_samples(to, samples, rank->count);
    }
    free(samples);
    return done;
}

/* ---- the test -------------------------------------------------------------------------------- */

static double weight_of_side(const struct compared_side *side) {
    double sum = 0;
    for (size_t i = 0; i < side->sample_count; i++)
        sum += (double)side->samples[i].count;
    return sum;
}

double compare_chance(const struct compared_side *a, const struct compared_side *b) {
    double weight_a = weight_of_side(a), weight_b = weight_of_side(b), n = a->observations, m = b->observations;
    if (weight_a <= 0 || weight_b <= 0 || n < OBSERVATIONS_MIN || m < OBSERVATIONS_MIN)
        return 1;
    double below = 0, above = 0, ties = 0; /* share of b passed; chance that a lies above b; sum of t^3 - t */
    for (size_t i = 0, j = 0; i < a->sample_count || j < b->sample_count;) {
        bool has_a = i < a->sample_count, has_b = j < b->sample_count;
        uint64_t at = !has_b || (has_a && a->samples[i].ns < b->samples[j].ns) ? a->samples[i].ns : b->samples[j].ns;
        double here_a = 0, here_b = 0;
        for (; i < a->sample_count && a->samples[i].ns == at; i++)
            here_a += (double)a->samples[i].count / weight_a;
        for (; j < b->sample_count && b->samples[j].ns == at; j++)
            here_b += (double)b->samples[j].count / weight_b;
        above += here_a * (below + here_b / 2);
        below += here_b;
        double tied = here_a * n + here_b * m;
        ties += tied > 1 ? tied * tied * tied - tied : 0;
    }
    double all = n + m;
    double variance = (all + 1 - ties / (all * (all - 1))) / (12 * n * m);
    double distance = fabs(above - 0.5);
    if (variance <= 0)
        return distance > 0 ? 0 : 1;
    return erfc(distance / sqrt(2 * variance));
}

/* ---- from run to run -------------------------------------------------------------------------- */

/* The logarithms of a side's means, by run: how many, their mean, and their squared distances from it. */
struct log_means {
    unsigned count;
    double mean, squares;
};

static struct log_means log_means_of(const struct compared_side *side) {
    struct log_means sum = {0};
    for (size_t r = 0; r < side->run_count; r++) {
        if (side->runs[r].timed == 0 || side->runs[r].time_total_ns == 0)
            continue;
        double value = log((double)side->runs[r].time_total_ns / (double)side->runs[r].timed);
        double before = value - sum.mean;
        sum.mean += before / ++sum.count;
        sum.squares += before * (value - sum.mean);
    }
    return sum;
}

double compare_chance_of_runs(struct compared_row *row, double run_noise) {
    struct log_means a = log_means_of(&row->sides[0]), b = log_means_of(&row->sides[1]);
    row->run_spread = NAN;
    if (a.count == 0 || b.count == 0)
        return 1;
    unsigned degrees = a.count + b.count - 2;
    if (degrees == 0 && run_noise < 0)
        return 1;
    row->run_spread = degrees > 0 ? sqrt((a.squares + b.squares) / degrees) : run_noise;
    double distance = fabs(b.mean - a.mean), error = row->run_spread * sqrt(1.0 / a.count + 1.0 / b.count);
    if (error <= 0)
        return distance > 0 ? 0 : 1;
    return degrees > 0 ? student_both_tails(distance / error, degrees) : erfc(distance / error / sqrt(2));
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static double change_of_mean(const struct compared_row *row) {
    double a = compared_mean_ns(&row->sides[0]), b = compared_mean_ns(&row->sides[1]);
    return a > 0 && b >= 0 ? b / a - 1 : 0;
}

static enum compared_verdict verdict_of(const struct compared_row *row, double threshold) {
    bool known = !isnan(row->run_spread);
    if (row->sides[0].count == 0 || row->sides[1].count == 0)
        return row->sides[0].count == 0 ? COMPARED_ONLY_B : COMPARED_ONLY_A;
    double change = change_of_mean(row);
    if (row->test.confidence < CONFIDENCE_VERDICT)
        return COMPARED_SAME;
    if (change < threshold && 1 / (1 + change) - 1 < threshold)
        return COMPARED_SAME;
    return !known ? COMPARED_MOVED : change > 0 ? COMPARED_SLOWER : COMPARED_FASTER;
}

static int verdict_order(enum compared_verdict verdict) {
    static const int order[] = {[COMPARED_SLOWER] = 0, [COMPARED_FASTER] = 1, [COMPARED_MOVED] = 1,
                                [COMPARED_ONLY_B] = 2, [COMPARED_ONLY_A] = 2, [COMPARED_SAME] = 3};
    return order[verdict];
}

/* What a row costs: the time that moved, else all of it. */
static double weight_of_row(const struct compared_row *row) {
    if (row->verdict == COMPARED_SLOWER || row->verdict == COMPARED_FASTER || row->verdict == COMPARED_MOVED)
        return fabs(compared_mean_ns(&row->sides[1]) - compared_mean_ns(&row->sides[0])) * (double)row->sides[1].timed;
    return (double)row->sides[0].time_total_ns + (double)row->sides[1].time_total_ns;
}

static int compare_texts(const char *a, const char *b) {
    return strcmp(a ? a : "", b ? b : "");
}

static int compare_rows(const void *a, const void *b) {
    const struct compared_row *left = a, *right = b;
    if (left->kind != right->kind)
        return left->kind < right->kind ? -1 : 1;
    int order = verdict_order(left->verdict) - verdict_order(right->verdict);
    if (order != 0)
        return order;
    double left_weight = weight_of_row(left), right_weight = weight_of_row(right);
    if (left_weight != right_weight)
        return left_weight > right_weight ? -1 : 1;
    order = compare_texts(left->op, right->op);
    order = order ? order : compare_texts(left->site, right->site);
    order = order ? order : (left->source > right->source) - (left->source < right->source);
    order = order ? order : (left->comm_size > right->comm_size) - (left->comm_size < right->comm_size);
    return order ? order : (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

/* Where what runs differ by is not known, what is left is whether the calls' times differ. */
static double chance_of_row(struct compared_row *row, const struct compared_limits *limits) {
    double calls = compare_chance(&row->sides[0], &row->sides[1]);
    double runs = compare_chance_of_runs(row, limits->run_noise);
    return isnan(row->run_spread) ? calls : fmax(calls, runs);
}

bool compare_judge(struct comparison *comparison, const struct compared_limits *limits) {
    struct significance **tests = calloc(comparison->count ? comparison->count : 1, sizeof *tests);
    if (!tests)
        return false;
    for (size_t i = 0; i < comparison->count; i++) {
        struct compared_row *row = &comparison->rows[i];
        sort_samples(&row->sides[0]);
        sort_samples(&row->sides[1]);
        row->test = (struct significance){.p = chance_of_row(row, limits)};
        tests[i] = &row->test;
    }
    bool done = significance_correct(tests, comparison->count);
    for (size_t i = 0; done && i < comparison->count; i++) {
        struct compared_row *row = &comparison->rows[i];
        row->verdict = verdict_of(row, limits->threshold);
        row->count_changed = row->sides[0].count * limits->runs[1] != row->sides[1].count * limits->runs[0];
    }
    if (comparison->count > 0)
        qsort(comparison->rows, comparison->count, sizeof *comparison->rows, compare_rows);
    free(tests);
    return done;
}

void comparison_free(struct comparison *comparison) {
    for (size_t i = 0; i < comparison->count; i++)
        for (int side = 0; side < 2; side++) {
            free(comparison->rows[i].sides[side].samples);
            free(comparison->rows[i].sides[side].runs);
        }
    free(comparison->rows);
    *comparison = (struct comparison){0};
}
