/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/steps/step_period.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/radix_sort.h"
#include "analyzer/steps/step_loops.h"

enum { OCCURRENCES_MIN = 4 };
enum { LENGTHS_MAX = 256 }; /* looked at, the shortest: each costs a pass over the sequence */
#define REGULAR       0.7   /* share of equal distances that makes a symbol regular */
#define REPEATS       0.7   /* share of positions that repeat themselves */
#define RECURS_WITHIN 0.8   /* share of recurring symbols that recur within the period ... */
#define PRESENT       0.85  /* ... and are present in this share of all stretches of its length */

/* A symbol that occurs often enough. */
struct recurrence {
    uint64_t symbol;
    size_t first, count, distance; /* median */
    double regularity;
    uint64_t order;
    uint32_t remainder; /* of its first number, divided by the distance of its first two */
    size_t at;          /* where its occurrences begin in the list of all */
};

struct search {
    const uint64_t *symbols, *order;
    const uint32_t *numbers;
    size_t from, count;           /* the part looked at: [from, count) */
    struct sort_key *occurrences; /* positions by symbol, each symbol's in their order */
    struct recurrence *items;
    size_t item_count;
    size_t *distances;
};

static int compare_sizes(const void *a, const void *b) {
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    return (left > right) - (left < right);
}

/* By distance; of one distance as the caller wants them, then by their numbers, then the rarest first, then the one
 * that comes first. */
static int compare_recurrences(const void *a, const void *b) {
    const struct recurrence *left = a, *right = b;
    if (left->distance != right->distance)
        return left->distance < right->distance ? -1 : 1;
    if (left->order != right->order)
        return left->order < right->order ? -1 : 1;
    if (left->remainder != right->remainder)
        return left->remainder < right->remainder ? -1 : 1;
    if (left->count != right->count)
        return left->count < right->count ? -1 : 1;
    return left->first < right->first ? -1 : left->first > right->first;
}

static uint32_t remainder_of(const struct search *s, const struct sort_key *occurrences) {
    uint32_t number = s->numbers[occurrences[0].index], distance = s->numbers[occurrences[1].index] - number;
    return distance > 0 ? number % distance : 0;
}

static void add_recurrence(struct search *s, size_t at, size_t count) {
    const struct sort_key *occurrences = s->occurrences + at;
    struct recurrence item = {.symbol = occurrences[0].value,
                              .first = occurrences[0].index,
                              .count = count,
                              .order = s->order[occurrences[0].index],
                              .remainder = remainder_of(s, occurrences),
                              .at = at};
    bool same = true;
    for (size_t i = 1; i < count; i++) {
        s->distances[i - 1] = occurrences[i].index - occurrences[i - 1].index;
        same &= s->distances[i - 1] == s->distances[0];
    }
    if (!same)
        qsort(s->distances, count - 1, sizeof *s->distances, compare_sizes);
    item.distance = s->distances[(count - 1) / 2];
    size_t equal = 0;
    for (size_t i = 0; i + 1 < count; i++)
        equal += s->distances[i] == item.distance;
    item.regularity = (double)equal / (double)(count - 1);
    s->items[s->item_count++] = item;
}

static bool find_recurrences(struct search *s) {
    size_t n = s->count - s->from;
    struct sort_key *occurrences = s->occurrences = malloc((n + 1) * sizeof *occurrences);
    struct sort_key *scratch = malloc((n + 1) * sizeof *scratch);
    s->items = malloc((n / OCCURRENCES_MIN + 1) * sizeof *s->items);
    s->distances = malloc((n + 1) * sizeof *s->distances);
    if (!occurrences || !scratch || !s->items || !s->distances) {
        free(scratch);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        occurrences[i] = (struct sort_key){s->symbols[s->from + i], (uint32_t)(s->from + i)};
    radix_sort(occurrences, scratch, n);
    free(scratch);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && occurrences[end].value == occurrences[i].value;)
            end++;
        if (end - i >= OCCURRENCES_MIN)
            add_recurrence(s, i, end - i);
    }
    qsort(s->items, s->item_count, sizeof *s->items, compare_recurrences);
    return true;
}

static double match_at(const struct search *s, size_t period) {
    size_t equal = 0, n = s->count - s->from;
    if (period >= n)
        return 0;
    for (size_t i = s->from; i + period < s->count; i++)
        equal += s->symbols[i] == s->symbols[i + period];
    return (double)equal / (double)(n - period);
}

/* Whether a symbol is there in nearly every stretch of that length: what repeats only in one phase of a step (the
 * layers of a backward pass) is not. */
static bool is_present(const struct search *s, const struct recurrence *item, size_t period) {
    size_t present = 0, last = SIZE_MAX, stretches = (s->count - s->from) / period;
    for (size_t i = 0; i < item->count; i++) {
        size_t stretch = (s->occurrences[item->at + i].index - s->from) / period;
        present += stretch != last && stretch < stretches;
        last = stretch;
    }
    return (double)present >= PRESENT * (double)stretches;
}

static bool most_recur_within(const struct search *s, size_t period) {
    size_t within = 0;
    for (size_t i = 0; i < s->item_count && s->items[i].distance <= period; i++)
        within += is_present(s, &s->items[i], period);
    return (double)within >= RECURS_WITHIN * (double)s->item_count;
}

/* Levels are told apart by length; when there are too many, the one that explains the least goes. */
static void add_level(struct step_periods *periods, const struct step_period *level) {
    size_t at = periods->count;
    if (periods->count == STEP_PERIOD_LEVELS_MAX) {
        size_t worst = STEP_PERIOD_LEVELS_MAX;
        for (size_t i = 0; i < periods->count; i++)
            if (i != periods->step &&
                (worst == STEP_PERIOD_LEVELS_MAX || periods->levels[i].match < periods->levels[worst].match))
                worst = i;
        if (periods->levels[worst].match >= level->match)
            return;
        for (size_t i = worst; i + 1 < periods->count; i++)
            periods->levels[i] = periods->levels[i + 1];
        periods->count--;
        if (periods->step != SIZE_MAX && periods->step > worst)
            periods->step--;
        at = periods->count;
    }
    periods->levels[at] = *level;
    periods->count++;
}

static void find_levels(struct step_periods *periods, const struct search *s) {
    periods->step = SIZE_MAX;
    for (size_t i = 0, end, lengths = 0; i < s->item_count && lengths < LENGTHS_MAX; i = end) {
        size_t length = s->items[i].distance, anchor = SIZE_MAX;
        for (end = i; end < s->item_count && s->items[end].distance == length; end++)
            if (s->items[end].regularity >= REGULAR && anchor == SIZE_MAX)
                anchor = end;
        if (anchor == SIZE_MAX)
            continue;
        lengths++;
        const struct recurrence *item = &s->items[anchor];
        struct step_period level = {length, item->symbol, item->first, item->count, item->regularity, 0};
        bool inside = periods->step == SIZE_MAX;
        level.match = match_at(s, length);
        if (inside && level.match >= REPEATS && most_recur_within(s, length)) {
            add_level(periods, &level);
            periods->step = periods->count - 1;
        } else if (inside || length > periods->levels[periods->step].length) {
            add_level(periods, &level);
        }
    }
    if (periods->step == SIZE_MAX)
        periods->step = periods->count;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

static void describe_symbol(const struct search *s, size_t item, struct loop_symbol *symbol) {
    const struct recurrence *from = &s->items[item];
    *symbol = (struct loop_symbol){.count = (uint32_t)from->count,
                                   .collective = s->numbers[from->first] > 0,
                                   .order = from->order,
                                   .remainder = from->remainder,
                                   .first = from->first};
}

/* The step goes from one occurrence of that symbol to the next. */
static void take_anchor(struct step_periods *periods, const struct search *s, size_t anchor) {
    const struct recurrence *item = &s->items[anchor];
    const struct step_period level = {item->distance, item->symbol,     item->first,
                                      item->count,    item->regularity, match_at(s, item->distance)};
    if (periods->step < periods->count && periods->levels[periods->step].anchor == item->symbol)
        return;
    periods->step = SIZE_MAX;
    size_t at = 0;
    while (at < periods->count && periods->levels[at].length != level.length)
        at++;
    if (at == periods->count && periods->count == STEP_PERIOD_LEVELS_MAX)
        at--;
    else if (at == periods->count)
        periods->count++;
    periods->levels[at] = level;
    periods->step = at;
}

/* Steps that are not alike have no period: they are iterations of a loop. */
static bool find_loop(struct step_periods *periods, const struct search *s) {
    size_t n = s->count - s->from;
    struct loop_symbol *symbols = calloc(s->item_count + 1, sizeof *symbols);
    uint32_t *which = malloc((n + 1) * sizeof *which), anchor = LOOP_UNKNOWN, periodic = LOOP_UNKNOWN;
    bool done = symbols && which;
    if (done)
        memset(which, 0xff, n * sizeof *which);
    for (size_t i = 0; done && i < s->item_count; i++) {
        describe_symbol(s, i, &symbols[i]);
        for (size_t k = 0; k < s->items[i].count; k++)
            which[s->occurrences[s->items[i].at + k].index - s->from] = (uint32_t)i;
        if (periods->step < periods->count && s->items[i].symbol == periods->levels[periods->step].anchor)
            periodic = (uint32_t)i;
    }
    done = done && step_loops_find(&anchor, symbols, (uint32_t)s->item_count, which, n, periodic);
    if (done && anchor != LOOP_UNKNOWN)
        take_anchor(periods, s, anchor);
    free(symbols);
    free(which);
    return done;
}

bool step_periods_find(struct step_periods *periods, const uint64_t *symbols, const uint64_t *order,
                       const uint32_t *numbers, size_t count) {
    struct search s = {.symbols = symbols, .order = order, .numbers = numbers, .from = count / 10, .count = count};
    *periods = (struct step_periods){0};
    bool done = find_recurrences(&s);
    if (done) {
        find_levels(periods, &s);
        done = find_loop(periods, &s);
    }
    free(s.occurrences);
    free(s.items);
    free(s.distances);
    return done;
}
