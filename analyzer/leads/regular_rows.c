/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/leads/regular_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/hash.h"
#include "analyzer/base/significance.h"
#include "analyzer/base/sort.h"
#include "analyzer/base/statistics.h"
#include "analyzer/leads/rank_rows.h"

enum { REGULAR_MIN = 4 };                     /* stretches that lie equally far apart: any two do, and three often */
enum { COUNTED_MOST = 32, WAYS_MOST = 4096 }; /* stretches, and sums above the least one, for which ways are counted */
#define ALSO_REGULAR       0.01               /* the chance of those beside them, where they are slow, too */
#define LONG_FOR_ALL       0.05               /* the chance of the others' own times there: a suspicion is enough */
#define LONGER_THAN_OTHERS 0.01               /* the same of the many stretches that hold the work of a step */

/* What the places of a comb's stretches sum to, and how many these are, in one number. */
enum { PLACE_SUM_BITS = 40 };
#define ONE_PLACE (UINT64_C(1) << PLACE_SUM_BITS)

static size_t count_of(uint64_t sum) {
    return sum >> PLACE_SUM_BITS;
}

static double places_of(uint64_t sum) {
    return (double)(sum & (ONE_PLACE - 1));
}

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
    uint32_t *places, *places_among; /* of each stretch by how far it is above, from 1 on: among all, and among some, or
                                      by how long it is for others */
    struct drawn *sorted;
    double *scratch;
    uint32_t *follow;        /* from each row on, that many have numbers that follow each other */
    uint64_t *sums, *folded; /* place sums by where a comb begins, room for one of each row, as of the next one */
    uint32_t *least;         /* of the combs with so many stretches the one with the least sum */
    double *ways;            /* room for WAYS_MOST + 1 */
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
                           uint32_t *places) {
    struct drawn *sorted = heights->sorted;
    size_t count = 0;
    for (size_t row = 0; row < heights->table->rows; row++)
        if (is_in(among, heights->table->numbers[row]))
            sorted[count++] = (struct drawn){values[row], hash_scramble(row + 1), row};
    sort_drawn(sorted, count);
    for (size_t i = 0; i < count; i++)
        places[sorted[i].row] = (uint32_t)(count - i);
    return count;
}

static bool heights_init(struct heights *heights, const struct leads_table *table, size_t column) {
    *heights = (struct heights){.table = table,
                                .places = calloc(table->rows + 1, sizeof *heights->places),
                                .places_among = calloc(table->rows + 1, sizeof *heights->places_among),
                                .sorted = calloc(table->rows + 1, sizeof *heights->sorted),
                                .scratch = calloc(table->rows + 1, sizeof *heights->scratch),
                                .sums = calloc(table->rows + 2, sizeof *heights->sums),
                                .folded = calloc(table->rows + 2, sizeof *heights->folded),
                                .follow = calloc(table->rows + 2, sizeof *heights->follow),
                                .least = calloc(table->rows + 2, sizeof *heights->least),
                                .ways = calloc(WAYS_MOST + 1, sizeof *heights->ways)};
    if (!rank_rows_init(&heights->rank, table, column) || !heights->places || !heights->places_among ||
        !heights->sorted || !heights->scratch || !heights->sums || !heights->folded || !heights->follow ||
        !heights->least || !heights->ways)
        return false;
    for (size_t row = table->rows; row-- > 0;)
        heights->follow[row] = row + 1 < table->rows && table->numbers[row] + 1 == table->numbers[row + 1]
                                   ? heights->follow[row + 1] + 1
                                   : 1;
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
    free(heights->folded);
    free(heights->follow);
    free(heights->least);
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

/* The logarithm of the chance, or of a bound of it, of places among so many rows; 0 where too few are in the comb. Ways
 * are counted where that may come to less than `least`: of points with whole coordinates there are no fewer than their
 * simplex is large. */
static double log_chance(const struct heights *heights, size_t among, uint64_t sum, double least) {
    double count = (double)count_of(sum), rows = (double)among, places = places_of(sum);
    if (count < REGULAR_MIN)
        return 0;
    double each = log_factorial(count), bound = fmin(0, count * log(places / rows) - each);
    double more = places - count * (count + 1) / 2;
    if (bound == 0 || count > COUNTED_MOST || more > WAYS_MOST)
        return bound;
    double all = log_factorial(rows) - each - log_factorial(rows - count);
    if (count * log(more) - 2 * each - all >= least)
        return bound;
    return fmin(bound, log(count_ways(heights->ways, count_of(sum), (size_t)more)) - all);
}

/* Of all combs of a distance, by where they begin: one pass over the rows. */
static void sum_places(const struct heights *heights, const uint32_t *places, uint32_t every) {
    size_t rows = heights->table->rows, run;
    memset(heights->sums, 0, every * sizeof *heights->sums);
    for (size_t row = 0; row < rows; row += run) {
        uint32_t first = heights->table->numbers[row] % every;
        run = heights->follow[row] < every - first ? heights->follow[row] : every - first;
        for (size_t i = 0; i < run; i++)
            heights->sums[first + i] += ONE_PLACE + places[row + i];
    }
}

/* The same of a distance that `times` such go into the one that was summed. */
static void fold_sums(const struct heights *heights, uint32_t every, uint32_t times) {
    memcpy(heights->folded, heights->sums, every * sizeof *heights->folded);
    for (uint32_t part = 1; part < times; part++)
        for (uint32_t first = 0; first < every; first++)
            heights->folded[first] += heights->sums[part * every + first];
}

/* The comb that is least likely, of how many. */
struct search {
    const struct heights *heights;
    struct comb best;
    double least, choices;
};

/* Looks at those of a distance: of all with as many stretches at the one with the least sum. Within a few time slices
 * regularity is one observation. */
static void look_at_combs(struct search *search, uint32_t every, const uint64_t *sums) {
    const struct heights *heights = search->heights;
    uint32_t *least = heights->least;
    if (every <= heights->table->at_once)
        return;
    for (uint32_t first = every; first-- > 0;)
        least[count_of(sums[first])] = first;
    for (uint32_t first = 0; first < every; first++)
        if (sums[first] < sums[least[count_of(sums[first])]])
            least[count_of(sums[first])] = first;
    for (uint32_t first = 0; first < every; first++) {
        bool may_be = least[count_of(sums[first])] == first;
        double chance = may_be ? log_chance(heights, heights->table->rows, sums[first], search->least) : 0;
        if (chance < search->least) {
            search->least = chance;
            search->best = (struct comb){every, first};
        }
    }
    search->choices += every;
}

/* Passes over the rows for the upper half of the distances: each of the others goes into one of these. */
static void look_at_all(struct search *search) {
    const struct heights *heights = search->heights;
    uint32_t most = (uint32_t)(heights->table->rows / REGULAR_MIN);
    for (uint32_t every = most / 2 + 1; every <= most && every >= 2; every++) {
        sum_places(heights, heights->places, every);
        look_at_combs(search, every, heights->sums);
        for (uint32_t times = 2; every / times >= 2; times++)
            if (every % times == 0 && most / (every / times) == times) {
                fold_sums(heights, every / times, times);
                look_at_combs(search, every / times, heights->folded);
            }
    }
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
    sum_places(heights, heights->places, every);
    for (int side = 0; side < 2; side++)
        for (uint32_t steps = 1; steps <= most; steps++) {
            const struct comb beside = {every, (comb->first + (side == 0 ? every - steps : steps)) % every};
            if (log_chance(heights, heights->table->rows, heights->sums[beside.first], 0) > log(ALSO_REGULAR))
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
    sum_places(heights, heights->places_among, comb->every);
    return log_chance(heights, rows, heights->sums[comb->first], 0);
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
    struct search search = {.heights = &heights, .best = {1, 0}};
    *out = (struct regular_rows){.chance = 1};
    bool done = heights_init(&heights, table, column);
    if (done)
        look_at_all(&search);
    if (done && search.least < 0) {
        const struct comb comb = search.best;
        struct usual usual = usual_of_comb(&heights, single, &comb, column, unit[column]);
        *out = (struct regular_rows){chance_of_comb(&heights, &comb, &usual, search.choices),
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
