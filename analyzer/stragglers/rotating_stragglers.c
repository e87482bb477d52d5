/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/rotating_stragglers.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/significance.h"
#include "analyzer/base/sort.h"
#include "analyzer/base/statistics.h"

enum {
    DEPTH_STEP = 2,        /* from one depth to the next */
    PERIOD_MOST = 64,      /* collectives */
    DEPTH_FACTOR = 4,      /* the gaps of the next so many times as many say what noise does */
    PHASES = 4,            /* of the run */
    BATCH_ROWS_MIN = 2,    /* rows of a batch, at least: forward and backward come in pairs */
    STANDS_OUT_SCALES = 2, /* excess of a row in which a rank is said to stand out; noise: exp(-3) */
    STANDS_OUT_PART = 10   /* ... and a tenth of what the costly rows have: else the noise of many rows counts */
};
#define NOISE_MARGIN     1.25 /* the tail may fall so much more slowly than an exponential's: chosen by trial */
#define PERIOD_MISMATCH  0.3  /* of times a period apart, at most; those of one place differ by noise */
#define PERIOD_SLACK     1.2  /* the shortest period that is as good as the best up to this */
#define RARE             0.01 /* share of the rows that noise puts so far out */
#define INDEPENDENT_MIN  5.0  /* with fewer, student_tail never falls to what a claim needs */
#define CONFIDENCE_MOST  0.999
#define RANKS_MIN        3.0  /* that take turns, counted by what they cost: 1 / sum of squared shares */
#define ONE_RANKS_SHARE  0.5  /* of the excess; from here on it is that rank */
#define CORRELATION_MOST 0.95 /* from 0.73 on too few of 32 batches are independent anyway */

/* One rank's place in a row. */
struct row_place {
    double above; /* its rank class's median, ns */
    uint32_t column;
};

/* What is kept of a row and a depth. */
struct row_excess {
    double ns, lead, scale;
};

struct rotating_work {
    const struct rotating_table *table;
    double *slow;   /* per column: how much slower it is all the while, >= 1 */
    double *median; /* per row and rank class */
    size_t classes, depths;
    unsigned period; /* rows that many numbers apart are alike */
    size_t *members; /* columns, those of rank class r are members[starts[r]] .. members[starts[r + 1] - 1] */
    size_t *starts;  /* rank classes + 1 */
    struct row_place *places;
    double *scratch;           /* columns or rows, the more */
    struct row_excess *excess; /* rows * depths */
    struct row_place *slowest; /* per row */
    double *row_median;        /* per row: of the rank class of its slowest rank */
};

static size_t depths_of(const struct rotating_table *table) {
    size_t count = 0;
    for (size_t depth = 1; depth * DEPTH_FACTOR <= table->columns; depth *= DEPTH_STEP)
        count++;
    return count;
}

static bool work_init(struct rotating_work *work, const struct rotating_table *table) {
    *work = (struct rotating_work){.table = table};
    for (size_t c = 0; c < table->columns; c++)
        if (table->class_of[c] >= work->classes)
            work->classes = table->class_of[c] + (size_t)1;
    work->depths = depths_of(table);
    work->members = malloc(table->columns * sizeof *work->members);
    work->starts = calloc(work->classes + 1, sizeof *work->starts);
    work->slow = malloc(table->columns * sizeof *work->slow);
    work->median = calloc(table->rows * work->classes, sizeof *work->median);
    work->places = malloc(table->columns * sizeof *work->places);
    work->scratch = malloc((table->columns > table->rows ? table->columns : table->rows) * sizeof *work->scratch);
    work->excess = malloc(table->rows * work->depths * sizeof *work->excess);
    work->slowest = malloc(table->rows * sizeof *work->slowest);
    work->row_median = malloc(table->rows * sizeof *work->row_median);
    return work->members && work->starts && work->slow && work->median && work->places && work->scratch &&
           work->excess && work->slowest && work->row_median;
}

static void work_free(struct rotating_work *work) {
    free(work->members);
    free(work->starts);
    free(work->slow);
    free(work->median);
    free(work->places);
    free(work->scratch);
    free(work->excess);
    free(work->slowest);
    free(work->row_median);
}

/* ---- what everybody does, and who is always slow --------------------------------------------- */

static void list_class_members(struct rotating_work *work) {
    const struct rotating_table *table = work->table;
    for (size_t c = 0; c < table->columns; c++)
        work->starts[table->class_of[c] + 1]++;
    for (size_t rank_class = 0; rank_class < work->classes; rank_class++)
        work->starts[rank_class + 1] += work->starts[rank_class];
    for (size_t c = table->columns; c-- > 0;) /* from behind: each start ends where its rank class begins ... */
        work->members[--work->starts[table->class_of[c] + 1]] = c;
    for (size_t rank_class = 0; rank_class < work->classes; rank_class++) /* ... and moves to its own place */
        work->starts[rank_class] = work->starts[rank_class + 1];
    work->starts[work->classes] = table->columns;
}

static void find_medians(struct rotating_work *work) {
    const struct rotating_table *table = work->table;
    for (size_t row = 0; row < table->rows; row++)
        for (size_t rank_class = 0; rank_class < work->classes; rank_class++) {
            size_t count = 0;
            for (size_t i = work->starts[rank_class]; i < work->starts[rank_class + 1]; i++)
                work->scratch[count++] = (double)table->self_ns[row * table->columns + work->members[i]];
            double median = count > 0 ? median_double(work->scratch, count) : 0;
            work->median[row * work->classes + rank_class] = median;
        }
}

/* By the rows in which there is at least as much to do as on average. */
static void find_always_slow(struct rotating_work *work) {
    const struct rotating_table *table = work->table;
    for (size_t c = 0; c < table->columns; c++) {
        uint32_t rank_class = table->class_of[c];
        double sum = 0;
        size_t count = 0;
        for (size_t row = 0; row < table->rows; row++)
            sum += work->median[row * work->classes + rank_class];
        for (size_t row = 0; row < table->rows; row++) {
            double median = work->median[row * work->classes + rank_class];
            if (median > 0 && median * (double)table->rows >= sum)
                work->scratch[count++] = (double)table->self_ns[row * table->columns + c] / median;
        }
        double ratio = count > 0 ? median_double(work->scratch, count) : 1;
        work->slow[c] = ratio > 1 ? ratio : 1;
    }
}

/* ---- the excess of each row ------------------------------------------------------------------ */

static bool is_slower(const struct row_place *a, const struct row_place *b) {
    return a->above > b->above || (a->above == b->above && a->column < b->column);
}

static int slowest_first(const void *a, const void *b) {
    return is_slower(b, a) - is_slower(a, b);
}

DEFINE_SORT(sort_slowest_first, struct row_place, is_slower, slowest_first)

/* How many gaps below the first `depth` say what noise does. */
static size_t gaps_at(size_t columns, size_t depth) {
    return (depth * DEPTH_FACTOR < columns / 2 ? depth * DEPTH_FACTOR : columns / 2) - depth;
}

/* `places` are the slowest first. Gap j, counted from 1, is between places[j - 1] and places[j]. */
static struct row_excess excess_of(const struct row_place *places, size_t count, size_t depth) {
    size_t gaps = gaps_at(count, depth);
    double scale = 0, expected = 0, lead = places[0].above - places[depth].above;
    for (size_t j = depth + 1; j <= depth + gaps; j++)
        scale += (double)j * (places[j - 1].above - places[j].above);
    scale *= NOISE_MARGIN / (double)gaps;
    for (size_t j = 1; j <= depth; j++)
        expected += scale / (double)j;
    return (struct row_excess){lead - expected, lead, scale};
}

static void find_excess(struct rotating_work *work) {
    const struct rotating_table *table = work->table;
    for (size_t row = 0; row < table->rows; row++) {
        const double *medians = work->median + row * work->classes;
        for (size_t c = 0; c < table->columns; c++) {
            double self = (double)table->self_ns[row * table->columns + c];
            work->places[c] = (struct row_place){self / work->slow[c] - medians[table->class_of[c]], (uint32_t)c};
        }
        sort_slowest_first(work->places, table->columns);
        work->slowest[row] = work->places[0];
        work->row_median[row] = medians[table->class_of[work->places[0].column]];
        size_t depth = 1;
        for (size_t d = 0; d < work->depths; d++, depth *= DEPTH_STEP)
            work->excess[row * work->depths + d] = excess_of(work->places, table->columns, depth);
    }
}

/* ---- the test -------------------------------------------------------------------------------- */

/* Chance of Student's t or more (Abramowitz and Stegun 26.7.8). */
static double student_tail(double t, double freedom) {
    double z = t * (1 - 1 / (4 * freedom)) / sqrt(1 + t * t / (2 * freedom));
    return 0.5 * erfc(z / sqrt(2));
}

/* Share of the batches that count as independent of each other. Each is seen against the mean of its part of the run:
 * what happens in one phase of the job only is no reason to doubt it. */
static double independent_share(const double *batches, size_t count) {
    double means[PHASES] = {0}, product = 0, squares = 0, before = 0;
    size_t sizes[PHASES] = {0};
    for (size_t b = 0; b < count; b++) {
        means[b * PHASES / count] += batches[b];
        sizes[b * PHASES / count]++;
    }
    for (size_t b = 0; b < count; b++) {
        size_t phase = b * PHASES / count;
        double here = batches[b] - means[phase] / (double)sizes[phase];
        squares += here * here;
        product += here * before; /* 0 to begin with */
        before = here;
    }
    /* the estimate is low by about 1 / (batches of a phase) */
    double r = (squares > 0 ? product / squares : 0) + (double)PHASES / (double)count;
    r = r < 0 ? 0 : r > CORRELATION_MOST ? CORRELATION_MOST : r;
    return (1 - r) / (1 + r);
}

/* Chance that noise puts so many rows so far out as no more than RARE of them are. What noise does is measured over all
 * rows of one place in the period. Only rows count in which there is at least half as much to do as on average. */
static double chance_of_rare(const struct rotating_work *work, size_t depth, size_t ranks, double share) {
    const struct rotating_table *table = work->table;
    double scales[PERIOD_MOST] = {0}, typical = 0;
    size_t counts[PERIOD_MOST] = {0}, trials = 0, hits = 0;
    for (size_t row = 0; row < table->rows; row++) {
        scales[table->numbers[row] % work->period] += work->excess[row * work->depths + depth].scale;
        counts[table->numbers[row] % work->period]++;
        typical += work->row_median[row] / (double)table->rows;
    }
    for (size_t row = 0; row < table->rows; row++) {
        size_t place = table->numbers[row] % work->period;
        double gaps = (double)(counts[place] * gaps_at(table->columns, ranks));
        double scale = scales[place] / (double)counts[place], lead = work->excess[row * work->depths + depth].lead;
        if (2 * work->row_median[row] < typical)
            continue;
        /* the largest of `ranks` exponential values beyond a multiple of a mean that was estimated from `gaps` of them
         */
        trials++;
        hits += scale > 0 && (double)ranks * pow(1 + lead / scale / gaps, -gaps) <= RARE;
    }
    return binomial_tail((unsigned)(share * (double)trials), (unsigned)(share * (double)hits), RARE);
}

/* Two tests: whether the mean excess of the batches is above 0, which sees what is a little slow in many rows, and
 * whether more rows than noise allows lie far out, which sees what is very slow in few. `ranks` is slow at once. */
static double chance_at(const struct rotating_work *work, size_t depth, size_t ranks) {
    double batches[TIME_BATCHES_MOST] = {0}, mean = 0, squares = 0;
    size_t rows = work->table->rows, count = rows / BATCH_ROWS_MIN;
    count = count > TIME_BATCHES_MOST ? TIME_BATCHES_MOST : count;
    for (size_t row = 0; row < rows; row++)
        batches[row * count / rows] += work->excess[row * work->depths + depth].ns;
    for (size_t b = 0; b < count; b++)
        mean += batches[b] / (double)count;
    for (size_t b = 0; b < count; b++)
        squares += (batches[b] - mean) * (batches[b] - mean);
    if (mean <= 0 || squares <= 0)
        return 1;
    double share = independent_share(batches, count), independent = share * (double)count;
    if (independent < INDEPENDENT_MIN)
        return 1;
    double of_mean = student_tail(mean / sqrt(squares / (double)(count - 1) / independent), independent - 1);
    return fmin(1, 2 * fmin(of_mean, chance_of_rare(work, depth, ranks, share)));
}

/* ---- whose it is ----------------------------------------------------------------------------- */

/* Whether the excess is spread over ranks and hosts; `cost` holds it per column. */
static bool is_spread(const struct rotating_table *table, const double *cost) {
    double sum = 0, squares = 0, most = 0;
    bool spread = true;
    for (size_t c = 0; c < table->columns; c++) {
        sum += cost[c];
        squares += cost[c] * cost[c];
        most = cost[c] > most ? cost[c] : most;
    }
    if (sum * sum < RANKS_MIN * squares || most > ONE_RANKS_SHARE * sum)
        return false;
    for (uint32_t h = 0; spread && h < table->host_count; h++) {
        double here = 0;
        size_t ranks = 0;
        for (size_t c = 0; c < table->columns; c++)
            if (table->host_of[c] == h) {
                here += cost[c];
                ranks++;
            }
        /* half way between its share of the ranks and all */
        spread = here <= sum * (1 + (double)ranks / (double)table->columns) / 2;
    }
    return spread;
}

/* The excess from which on a row counts, by the mean excess, weighed by itself, of the rows in which noise is less. */
static double least_excess(const struct rotating_work *work, size_t depth) {
    double sum = 0, squares = 0;
    for (size_t row = 0; row < work->table->rows; row++) {
        struct row_excess excess = work->excess[row * work->depths + depth];
        double ns = excess.ns > STANDS_OUT_SCALES * excess.scale ? excess.ns : 0;
        sum += ns;
        squares += ns * ns;
    }
    return sum > 0 ? squares / sum / STANDS_OUT_PART : 0;
}

/* The rows in which a rank stands out. */
static void count_slowest(struct rotating_work *work, size_t depth, struct rotating *rotating) {
    double self = 0, medians = 0, lead = 0, least = least_excess(work, depth);
    uint32_t most = 0;
    rotating->stood_out = 0;
    for (size_t c = 0; c < work->table->columns; c++)
        rotating->times_slowest[c] = 0;
    for (size_t row = 0; row < work->table->rows; row++) {
        struct row_excess excess = work->excess[row * work->depths + depth];
        if (excess.ns <= STANDS_OUT_SCALES * excess.scale || excess.ns < least)
            continue;
        uint32_t column = work->slowest[row].column;
        rotating->stood_out++;
        rotating->times_slowest[column]++;
        most = rotating->times_slowest[column] > most ? rotating->times_slowest[column] : most;
        self += work->row_median[row] + work->slowest[row].above;
        medians += work->row_median[row];
        lead += excess.lead;
    }
    rotating->lead_ns = lead / (double)work->table->rows / rotating->width;
    rotating->ratio = medians > 0 ? self / medians : 1;
    rotating->most = rotating->stood_out > 0 ? (double)most / (double)rotating->stood_out : 0;
}

/* Takes this width and depth for the answer where it is spread and costs more than the answer so far. */
static void describe_rotation(struct rotating_work *work, size_t depth, unsigned width, double confidence,
                              struct rotating *rotating) {
    const struct rotating_table *table = work->table;
    double sum = 0;
    for (size_t c = 0; c < table->columns; c++)
        work->scratch[c] = 0;
    for (size_t row = 0; row < table->rows; row++) {
        double ns = work->excess[row * work->depths + depth].ns;
        sum += ns;
        if (ns > 0)
            work->scratch[work->slowest[row].column] += ns;
    }
    double extra = sum / (double)table->rows / width;
    if (extra <= rotating->extra_ns || !is_spread(table, work->scratch))
        return;
    rotating->confidence = confidence;
    rotating->extra_ns = extra;
    rotating->width = width;
    rotating->begin = table->begin;
    rotating->rows = table->rows;
    count_slowest(work, depth, rotating);
}

/* Looks at all depths of a table whose rows hold `width` collectives each, those `period` numbers apart are alike;
 * `tests` is how many tests there are. */
static bool judge_rows(const struct rotating_table *table, unsigned width, unsigned period, size_t tests,
                       struct rotating *rotating) {
    struct rotating_work work;
    size_t ranks = 1;
    bool done = work_init(&work, table);
    work.period = period;
    if (done) {
        list_class_members(&work);
        find_medians(&work);
        find_always_slow(&work);
        find_excess(&work);
    }
    for (size_t d = 0; done && d < work.depths; d++, ranks *= DEPTH_STEP) {
        double confidence = 1 - 10 * chance_at(&work, d, ranks) * (double)tests;
        if (confidence >= CONFIDENCE_VERDICT)
            describe_rotation(&work, d, width, confidence > CONFIDENCE_MOST ? CONFIDENCE_MOST : confidence, rotating);
    }
    work_free(&work);
    return done;
}

/* ---- periods --------------------------------------------------------------------------------- */

/* How much the typical times of rows `period` apart differ, of their sum; 1 where no rows are. */
static double mismatch(const struct rotating_table *table, const double *typical, unsigned period) {
    double differ = 0, sum = 0;
    for (size_t row = 0; row + period < table->rows; row++)
        if (table->numbers[row + period] - table->numbers[row] == period) {
            differ += fabs(typical[row + period] - typical[row]);
            sum += typical[row + period] + typical[row];
        }
    return sum > 0 ? 2 * differ / sum : 1;
}

/* 1 where there is none. */
static unsigned find_period(const struct rotating_table *table, const double *typical) {
    double least = 1;
    for (unsigned period = 1; period <= PERIOD_MOST && (size_t)period * ROTATING_ROWS_MIN <= table->rows; period++)
        least = fmin(least, mismatch(table, typical, period));
    if (least > PERIOD_MISMATCH)
        return 1;
    unsigned period = 1;
    while (mismatch(table, typical, period) > PERIOD_SLACK * least)
        period++;
    return period;
}

/* Adds up the rows of each whole period into `sums`. */
static struct rotating_table add_periods(const struct rotating_table *table, unsigned period, unsigned begin,
                                         int64_t *sums) {
    struct rotating_table added = *table;
    added.self_ns = sums;
    added.rows = 0;
    added.begin = begin;
    for (size_t row = 0; row + period <= table->rows; row++) {
        if (table->numbers[row] % period != begin ||
            table->numbers[row + period - 1] - table->numbers[row] != period - 1)
            continue;
        int64_t *sum = sums + added.rows++ * table->columns;
        for (size_t c = 0; c < table->columns; c++) {
            sum[c] = 0;
            for (unsigned i = 0; i < period; i++)
                sum[c] += table->self_ns[(row + i) * table->columns + c];
        }
    }
    return added;
}

/* Per row the median of all columns. Returns NULL when memory is short. */
static double *find_typical(const struct rotating_table *table) {
    double *typical = malloc((table->rows + 1) * sizeof *typical);
    double *row_of = malloc((table->columns + 1) * sizeof *row_of);
    for (size_t row = 0; typical && row_of && row < table->rows; row++) {
        for (size_t c = 0; c < table->columns; c++)
            row_of[c] = (double)table->self_ns[row * table->columns + c];
        typical[row] = median_double(row_of, table->columns);
    }
    if (!row_of) {
        free(typical);
        return NULL;
    }
    free(row_of);
    return typical;
}

bool rotating_judge(const struct rotating_table *table, struct rotating *rotating) {
    *rotating =
        (struct rotating){.ratio = 1, .times_slowest = calloc(table->columns + 1, sizeof *rotating->times_slowest)};
    if (!rotating->times_slowest || table->columns < ROTATING_COLUMNS_MIN || table->rows < ROTATING_ROWS_MIN)
        return rotating->times_slowest != NULL;
    double *typical = find_typical(table);
    unsigned period = typical ? find_period(table, typical) : 1;
    size_t tests = depths_of(table) * (period > 1 ? 1 + period : 1);
    bool done = typical && judge_rows(table, 1, period, tests, rotating);
    int64_t *sums = malloc((table->rows / period + 1) * table->columns * sizeof *sums);
    done = done && sums;
    for (unsigned begin = 0; period > 1 && begin < period && done; begin++) { /* where a step begins is not known */
        struct rotating_table added = add_periods(table, period, begin, sums);
        done = added.rows < ROTATING_ROWS_MIN || judge_rows(&added, period, 1, tests, rotating);
    }
    free(sums);
    free(typical);
    return done;
}

void rotating_free(struct rotating *rotating) {
    free(rotating->times_slowest);
    *rotating = (struct rotating){0};
}
