/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/leads/regular_rows.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/hash.h"
#include "analyzer/base/significance.h"
#include "analyzer/base/sort.h"
#include "analyzer/base/statistics.h"
#include "analyzer/leads/rank_rows.h"

enum { REGULAR_MIN = 4 };                     /* stretches that lie equally far apart: any two do, and three often */
enum { COUNTED_MOST = 32, WAYS_MOST = 4096 }; /* stretches, and sums above the least one, for which ways are counted */
#define WORTH_COUNTING     0.001              /* ... where the bound is no more than that */
#define ALSO_REGULAR       0.01               /* the chance of those beside them, where they are slow, too */
#define LONG_FOR_ALL       0.05               /* the chance of the others' own times there: a suspicion is enough */
#define LONGER_THAN_OTHERS 0.01               /* the same of the many stretches that hold the work of a step */

/* What the places of a comb's stretches sum to. */
struct place_sum {
    double sum;
    size_t count;
};

struct drawn {
    double value;
    uint64_t lot;
    size_t row;
};

static inline bool comes_before(const void *a, const void *b) {
    const struct drawn *left = a, *right = b;
    return left->value < right->value || (left->value == right->value && left->lot < right->lot);
}

static int compare_drawn(const void *a, const void *b) {
    return comes_before(b, a) - comes_before(a, b);
}

DEFINE_SORT(sort_drawn, struct drawn, comes_before, compare_drawn)

/* One rank's stretches beside those of the others. */
struct heights {
    const struct leads_table *table;
    struct rank_rows rank;
    double *places, *places_among; /* of each stretch by how far it is above, from 1 on: among all, and among some, or
                                      by how long it is for others */
    struct drawn *sorted;
    double *scratch;
    struct place_sum *sums; /* room for one of each row */
    double *ways;           /* room for WAYS_MOST + 1 */
};

/* Every so many-th stretch, from `first` on. */
struct comb {
    uint32_t every, first;
};

static bool is_in(const struct comb *comb, uint32_t number) {
    return number % comb->every == comb->first;
}

/* Of equal ones chance decides, by lot: which of them come regularly must not. Only among the rows of a comb, the
 * others have none. Returns how many these are. */
static size_t place_values(const struct heights *heights, const struct comb *among, const double *values,
                           double *places) {
    struct drawn *sorted = heights->sorted;
    size_t count = 0;
    for (size_t row = 0; row < heights->table->rows; row++)
        if (is_in(among, heights->table->numbers[row]))
            sorted[count++] = (struct drawn){values[row], hash_scramble(row + 1), row};
    sort_drawn(sorted, count);
    for (size_t i = 0; i < count; i++)
        places[sorted[i].row] = (double)(count - i);
    return count;
}

static bool heights_init(struct heights *heights, const struct leads_table *table, size_t column) {
    *heights = (struct heights){.table = table,
                                .places = calloc(table->rows + 1, sizeof *heights->places),
                                .places_among = calloc(table->rows + 1, sizeof *heights->places_among),
                                .sorted = calloc(table->rows + 1, sizeof *heights->sorted),
                                .scratch = calloc(table->rows + 1, sizeof *heights->scratch),
                                .sums = calloc(table->rows + 2, sizeof *heights->sums),
                                .ways = calloc(WAYS_MOST + 1, sizeof *heights->ways)};
    if (!rank_rows_init(&heights->rank, table, column) || !heights->places || !heights->places_among ||
        !heights->sorted || !heights->scratch || !heights->sums || !heights->ways)
        return false;
    place_values(heights, &(struct comb){1, 0}, heights->rank.above, heights->places);
    return true;
}

static void heights_free(struct heights *heights) {
    rank_rows_free(&heights->rank);
    free(heights->places);
    free(heights->places_among);
    free(heights->sorted);
    free(heights->scratch);
    free(heights->sums);
    free(heights->ways);
}

/* In how many ways so many different places can sum to `more` above the least sum there is, or to less: partitions of
 * what is above it into parts of 1 to `count`. */
static double count_ways(double *ways, size_t count, size_t more) {
    for (size_t sum = 0; sum <= more; sum++)
        ways[sum] = 1;
    for (size_t part = 1; part <= count; part++)
        for (size_t sum = part; sum <= more; sum++)
            ways[sum] += ways[sum - part];
    return ways[more];
}

/* The logarithm of the chance, or of a bound of it, of places among so many rows; 0 where too few are in the comb. */
static double log_chance(const struct heights *heights, size_t among, struct place_sum places) {
    double count = (double)places.count, rows = (double)among;
    if (places.count < REGULAR_MIN)
        return 0;
    double bound = fmin(0, count * log(places.sum / rows) - log_factorial(count));
    double more = places.sum - count * (count + 1) / 2;
    if (bound > log(WORTH_COUNTING) || places.count > COUNTED_MOST || more > WAYS_MOST)
        return bound;
    double all = log_factorial(rows) - log_factorial(count) - log_factorial(rows - count);
    return fmin(bound, log(count_ways(heights->ways, places.count, (size_t)more)) - all);
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
            double chance = log_chance(heights, heights->table->rows, heights->sums[first]);
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
            if (log_chance(heights, heights->table->rows, heights->sums[beside.first]) > log(ALSO_REGULAR))
                break;
            const struct usual more = usual_of_comb(heights, single, &beside, column, unit);
            out->longer_ns += more.longer_ns;
            out->lead_ns += more.lead_ns * (double)more.count / (double)heights->table->rows;
        }
}

/* The same of a comb's rows by other values, among those of a wider comb. */
static double log_chance_among(const struct heights *heights, const struct comb *comb, const struct comb *among,
                               const double *values) {
    size_t rows = place_values(heights, among, values, heights->places_among);
    sum_places(heights, heights->places_among, comb->every, heights->sums);
    return log_chance(heights, rows, heights->sums[comb->first]);
}

static bool is_long_for_all(const struct heights *heights, const struct comb *comb, const struct comb *among,
                            double chance) {
    return exp(log_chance_among(heights, comb, among, heights->rank.others)) <= chance;
}

/* The stretches that a comb's are like: those of each step that hold its work where steps have several, else all. */
static struct comb find_alike(const struct heights *heights, const struct comb *comb) {
    struct comb alike = {1, 0};
    for (uint32_t apart = 2; apart <= comb->every / REGULAR_MIN; apart++) {
        const struct comb narrower = {apart, comb->first % apart};
        if (comb->every % apart == 0 && apart % alike.every == 0 &&
            is_long_for_all(heights, &narrower, &alike, LONGER_THAN_OTHERS))
            alike = narrower;
    }
    return alike;
}

/* The chance of a comb, one of so many. Where stretches are long for all, that they come regularly says nothing of
 * whose they are, for noise is larger there: they are judged among their like, and where they are longer than these,
 * too, as where all evaluate, by whose the leads in them are. */
static double chance_of_comb(const struct heights *heights, const struct comb *comb, const struct usual *usual,
                             double choices) {
    struct comb alike = find_alike(heights, comb);
    double chance = fmin(1, choices * exp(log_chance_among(heights, comb, &alike, heights->rank.above)));
    double own = binomial_tail((unsigned)usual->count, (unsigned)usual->leads, 1 / (double)heights->table->columns);
    return is_long_for_all(heights, comb, &alike, LONG_FOR_ALL) ? fmax(chance, own) : chance;
}

bool regular_rows_find(const struct leads_table *table, const struct lead_rows *single, const double *unit,
                       size_t column, struct regular_rows *out) {
    struct heights heights;
    struct comb comb = {1, 0};
    double choices = 0;
    *out = (struct regular_rows){.chance = 1};
    bool done = heights_init(&heights, table, column);
    if (done && least_likely(&heights, &comb, &choices) < 0) {
        struct usual usual = usual_of_comb(&heights, single, &comb, column, unit[column]);
        *out = (struct regular_rows){chance_of_comb(&heights, &comb, &usual, choices),
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
