/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/leads/regular_rows.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/significance.h"
#include "analyzer/base/statistics.h"
#include "analyzer/leads/rank_rows.h"

enum { REGULAR_MIN = 4 }; /* stretches that lie equally far apart: any two do, and three often */
#define ALSO_REGULAR 0.01 /* the chance of those beside them, where they are slow, too */
#define LONG_FOR_ALL 0.05 /* the chance of the others' own times there: a suspicion is enough */

/* What the places of a comb's stretches sum to. */
struct place_sum {
    double sum;
    size_t count;
};

/* One rank's stretches beside those of the others. */
struct heights {
    const struct leads_table *table;
    struct rank_rows rank;
    double *places, *long_places; /* of each stretch among all by how far it is above, and by how long it is for others:
                                     from above, in (0, 1]; ties share the mean */
    struct row_value *sorted;
    double *scratch;
    struct place_sum *sums; /* room for one of each row */
};

/* Every so many-th stretch, from `first` on. */
struct comb {
    uint32_t every, first;
};

static bool is_in(const struct comb *comb, uint32_t number) {
    return number % comb->every == comb->first;
}

static void place_values(struct heights *heights, const double *values, double *places) {
    size_t n = heights->table->rows;
    struct row_value *sorted = heights->sorted;
    for (size_t row = 0; row < n; row++)
        sorted[row] = (struct row_value){values[row], row};
    sort_row_values(sorted, n);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && sorted[end].value == sorted[i].value; end++)
            ;
        for (size_t k = i; k < end; k++)
            places[sorted[k].row] = ((double)n - ((double)i + (double)end - 1) / 2) / (double)n;
    }
}

static bool heights_init(struct heights *heights, const struct leads_table *table, size_t column) {
    *heights = (struct heights){.table = table,
                                .places = calloc(table->rows + 1, sizeof *heights->places),
                                .long_places = calloc(table->rows + 1, sizeof *heights->long_places),
                                .sorted = calloc(table->rows + 1, sizeof *heights->sorted),
                                .scratch = calloc(table->rows + 1, sizeof *heights->scratch),
                                .sums = calloc(table->rows + 2, sizeof *heights->sums)};
    if (!rank_rows_init(&heights->rank, table, column) || !heights->places || !heights->long_places ||
        !heights->sorted || !heights->scratch || !heights->sums)
        return false;
    place_values(heights, heights->rank.above, heights->places);
    place_values(heights, heights->rank.others, heights->long_places);
    return true;
}

static void heights_free(struct heights *heights) {
    rank_rows_free(&heights->rank);
    free(heights->places);
    free(heights->long_places);
    free(heights->sorted);
    free(heights->scratch);
    free(heights->sums);
}

/* The logarithm of the bound; 0 where too few stretches are in the comb. */
static double log_chance(struct place_sum places) {
    double count = (double)places.count;
    return places.count < REGULAR_MIN ? 0 : fmin(0, count * log(places.sum) - log_factorial(count));
}

/* Of all combs of a distance, by where they begin: one pass over the rows. */
static void sum_places(const struct heights *heights, const double *places, uint32_t every, struct place_sum *sums) {
    for (uint32_t first = 0; first < every; first++)
        sums[first] = (struct place_sum){0, 0};
    for (size_t row = 0; row < heights->table->rows; row++) {
        struct place_sum *sum = &sums[heights->table->numbers[row] % every];
        sum->sum += places[row];
        sum->count++;
    }
}

/* The comb that is least likely; *choices: of how many. Within a few time slices regularity is one observation. */
static double least_likely(const struct heights *heights, struct comb *best, double *choices) {
    const struct leads_table *table = heights->table;
    double least = 0;
    *choices = 0;
    for (uint32_t every = 2; every <= table->rows / REGULAR_MIN; every++) {
        if (every <= table->at_once)
            continue;
        sum_places(heights, heights->places, every, heights->sums);
        for (uint32_t first = 0; first < every; first++) {
            double chance = log_chance(heights->sums[first]);
            if (chance < least) {
                least = chance;
                *best = (struct comb){every, first};
            }
        }
        *choices += every;
    }
    return least;
}

/* The medians over a comb's stretches of by how much longer the rank takes, of how many times as long, and of what it
 * leads by. */
struct usual {
    double longer_ns, ratio, lead_ns;
    size_t count, leads;
    size_t first, last; /* rows */
};

enum asked { LONGER, RATIO, LEAD };

static double value_of(const struct heights *heights, const struct lead *lead, size_t row, size_t column, double unit,
                       enum asked asked) {
    switch (asked) {
    case LONGER:
        return heights->rank.above[row];
    case RATIO:
        return (heights->rank.own[row] + 1) / (heights->rank.others[row] + 1); /* without any as good as equal */
    default:
        return lead->columns[0] == column ? lead->ns * unit : 0;
    }
}

static double median_of_comb(const struct heights *heights, const struct lead_rows *single, const struct comb *comb,
                             size_t column, double unit, enum asked asked) {
    size_t count = 0;
    for (size_t row = 0; row < heights->table->rows; row++)
        if (is_in(comb, heights->table->numbers[row]))
            heights->scratch[count++] = value_of(heights, &single->leads[row], row, column, unit, asked);
    return median_double(heights->scratch, count);
}

static struct usual usual_of_comb(const struct heights *heights, const struct lead_rows *single,
                                  const struct comb *comb, size_t column, double unit) {
    struct usual usual = {.longer_ns = median_of_comb(heights, single, comb, column, unit, LONGER),
                          .ratio = median_of_comb(heights, single, comb, column, unit, RATIO),
                          .lead_ns = median_of_comb(heights, single, comb, column, unit, LEAD)};
    for (size_t row = 0; row < heights->table->rows; row++)
        if (is_in(comb, heights->table->numbers[row])) {
            usual.first = usual.count == 0 ? row : usual.first;
            usual.last = row;
            usual.count++;
            usual.leads += single->leads[row].columns[0] == column && single->leads[row].ns > 0;
        }
    return usual;
}

/* What a rank does across the ends of stretches is in several of them in a row, which count as one: those before and
 * after that are slow as regularly. */
static void add_beside(const struct heights *heights, const struct lead_rows *single, const struct comb *comb,
                       size_t column, double unit, struct regular_rows *out) {
    uint32_t every = comb->every, most = (every - 1) / 2;
    sum_places(heights, heights->places, every, heights->sums);
    for (int side = 0; side < 2; side++)
        for (uint32_t steps = 1; steps <= most; steps++) {
            const struct comb beside = {every, (comb->first + (side == 0 ? every - steps : steps)) % every};
            if (log_chance(heights->sums[beside.first]) > log(ALSO_REGULAR))
                break;
            const struct usual more = usual_of_comb(heights, single, &beside, column, unit);
            out->longer_ns += more.longer_ns;
            out->lead_ns += more.lead_ns * (double)more.count / (double)heights->table->rows;
        }
}

/* Where such stretches are long for all, that they come regularly says nothing of whose they are. */
static bool is_long_for_all(const struct heights *heights, const struct comb *comb) {
    sum_places(heights, heights->long_places, comb->every, heights->sums);
    return exp(log_chance(heights->sums[comb->first])) <= LONG_FOR_ALL;
}

bool regular_rows_find(const struct leads_table *table, const struct lead_rows *single, const double *unit,
                       size_t column, struct regular_rows *out) {
    struct heights heights;
    struct comb comb = {1, 0};
    double choices = 0;
    *out = (struct regular_rows){.chance = 1};
    bool done = heights_init(&heights, table, column);
    double chance = done ? exp(least_likely(&heights, &comb, &choices)) : 1;
    if (done && chance < 1) {
        struct usual usual = usual_of_comb(&heights, single, &comb, column, unit[column]);
        double own = binomial_tail((unsigned)usual.count, (unsigned)usual.leads, 1 / (double)table->columns);
        chance = fmin(1, choices * chance);
        *out = (struct regular_rows){is_long_for_all(&heights, &comb) ? fmax(chance, own) : chance,
                                     comb.every,
                                     comb.first,
                                     usual.count,
                                     usual.longer_ns,
                                     usual.ratio,
                                     usual.lead_ns * (double)usual.count / (double)table->rows,
                                     (uint32_t)(1000 * usual.first / table->rows),
                                     (uint32_t)(1000 * (usual.last + 1) / table->rows)};
        add_beside(&heights, single, &comb, column, unit[column], out);
    }
    heights_free(&heights);
    return done;
}
