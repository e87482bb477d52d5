/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/steps/step_loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STRETCHES_MIN = 4,
    PASSES_MAX = 128, /* over the sequence, each costs its length ... */
    PASSES_MIN = 8,
    POSITIONS_MAX = 1 << 26, /* ... and all together this many positions */
    ANCHORS_TRIED = 4,       /* of the symbols that occur about equally often */
    LOOPS_MAX = 16,
    NEIGHBOURS = 16,    /* different symbols beside an anchor that are told apart */
    TOGETHER_MAX = 8,   /* iterations: so many micro-batches are accumulated, or stages of an integrator make a step */
    COUNTS_LIKE = 32,   /* counts that differ by less than a part in so many are of one loop, cut off at the ends */
    BYTES_LARGE = 1024, /* a reduction of less is a norm or a loss, not a gradient */
};
#define IN_ALL    0.85 /* share of the stretches that makes a symbol part of the loop */
#define IN_FEW    0.34 /* ... and that it may have when it is not */
#define BETWEEN   0.5  /* share of the symbols that may lie between the two */
#define SPANNED   0.5  /* share of the sequence that the loop lasts */
#define SCATTER   0.75 /* of the distances of an anchor, as a share of what it is where they are up to chance */
#define CONSTANT  0.8  /* share of the stretches with the most frequent number of inner iterations */
#define BESIDE    0.8  /* share of the anchor's occurrences with the same symbol before them, or behind */
#define EVALUATED 2.5  /* reductions alike in an evaluation: two may be those of two groups of parameters */
#define MOST      0.5  /* share of the symbols that an inner loop has where the outer is an interval */

struct loop {
    uint32_t anchor;
    uint32_t parts;         /* symbols in nearly all stretches */
    bool collectives_alone; /* among these parts */
    bool largest;           /* so is the collective that moves most */
    bool in_place;          /* most often the same symbol comes before the anchor, or behind it */
};

struct search {
    const struct loop_symbol *symbols;
    uint32_t symbol_count;
    const uint32_t *which;
    size_t count;
    const struct loop_symbol **by_count; /* the rarest first */
    uint32_t *present, *last;            /* per symbol: stretches that have it, the last of them + 1 */
    uint32_t largest;                    /* collective: it moves most bytes in all */
    size_t passes;                       /* left */
};

/* ---- one loop ---------------------------------------------------------------------------------------------------- */

/* Symbols beside an anchor, on one of its sides. */
struct neighbours {
    uint32_t symbol[NEIGHBOURS], seen[NEIGHBOURS];
    unsigned count;
};

/* How often that one has been there. */
static uint32_t note_neighbour(struct neighbours *side, uint32_t symbol) {
    unsigned k = 0;
    while (k < side->count && side->symbol[k] != symbol)
        k++;
    if (symbol == LOOP_UNKNOWN || k == NEIGHBOURS)
        return 0;
    if (k == side->count) {
        side->symbol[k] = symbol;
        side->count++;
    }
    return ++side->seen[k];
}

/* Whether the anchor stands in the same place of a loop: most often the same symbol before it, or behind. */
static bool is_in_place(const struct search *s, uint32_t anchor) {
    struct neighbours before = {.count = 0}, behind = {.count = 0};
    double wanted = BESIDE * (double)s->symbols[anchor].count;
    for (size_t i = 0; i < s->count; i++) {
        if (s->which[i] != anchor)
            continue;
        if ((i > 0 && note_neighbour(&before, s->which[i - 1]) >= wanted) ||
            (i + 1 < s->count && note_neighbour(&behind, s->which[i + 1]) >= wanted))
            return true;
    }
    return false;
}

static bool is_small(const struct loop_symbol *symbol) {
    return symbol->collective && symbol->order >> 16 < BYTES_LARGE;
}

/* Whether a symbol is a small reduction that most stretches of the loop lack: a loss or a metric of an evaluation. */
static bool is_beside(const struct search *s, uint32_t symbol, double stretches) {
    return symbol != LOOP_UNKNOWN && is_small(&s->symbols[symbol]) && s->present[symbol] < IN_ALL * stretches;
}

/* Distances from one occurrence of an anchor to the next. */
struct distances {
    double count, sum, squares;
};

static void add_distance(struct distances *distances, double length) {
    distances->count++;
    distances->sum += length;
    distances->squares += length * length;
}

/* Whether they scatter less than those of what comes by chance: a geometric distribution's scatter less, too, where it
 * comes often. */
static bool are_steady(const struct distances *distances) {
    double mean = distances->sum / distances->count, by_chance = sqrt(1 - 1 / mean);
    double scatter = sqrt(fmax(distances->squares / distances->count - mean * mean, 0)) / mean;
    return scatter * (1 + 1 / sqrt(distances->count)) <= SCATTER * by_chance;
}

/* Whether the anchor's occurrences lie at distances alike, counted with or without what is beside the loop: those of an
 * evaluation come in bursts, those of an operation that depends on the data as they come. */
static bool is_steady(const struct search *s, uint32_t anchor, bool without_beside) {
    double stretches = (double)s->symbols[anchor].count - 1, length = 0;
    struct distances distances = {0};
    uint32_t seen = 0;
    for (size_t i = 0; i < s->count && seen <= stretches; i++) {
        if (s->which[i] == anchor && seen++ > 0)
            add_distance(&distances, length);
        length = s->which[i] == anchor ? 0 : length;
        length += !without_beside || !is_beside(s, s->which[i], stretches);
    }
    return distances.sum > distances.count && are_steady(&distances);
}

/* Whether the loop lasts over most of the sequence. */
static bool is_spread(const struct search *s, uint32_t anchor) {
    size_t first = 0, last = s->count;
    while (s->which[first] != anchor)
        first++;
    while (s->which[last - 1] != anchor)
        last--;
    return (double)(last - 1 - first) >= SPANNED * (double)s->count;
}

/* Counts in how many stretches each symbol is. */
static void count_presence(struct search *s, uint32_t anchor) {
    uint32_t stretch = 0, stretches = s->symbols[anchor].count - 1;
    memset(s->present, 0, s->symbol_count * sizeof *s->present);
    memset(s->last, 0, s->symbol_count * sizeof *s->last);
    for (size_t i = 0; i < s->count; i++) {
        uint32_t symbol = s->which[i];
        stretch += symbol == anchor;
        if (symbol == LOOP_UNKNOWN || stretch == 0 || stretch > stretches || s->last[symbol] == stretch)
            continue;
        s->last[symbol] = stretch;
        s->present[symbol]++;
    }
}

/* What an evaluation or a check reduces now and then leaves a loop alone that moves something large. */
static bool is_loop(struct search *s, uint32_t anchor, struct loop *loop) {
    double stretches = (double)s->symbols[anchor].count - 1;
    uint32_t between = 0, beside = 0;
    bool moves = false;
    s->passes--;
    if (!is_spread(s, anchor))
        return false;
    count_presence(s, anchor);
    *loop = (struct loop){.anchor = anchor, .collectives_alone = true, .in_place = is_in_place(s, anchor)};
    for (uint32_t i = 0; i < s->symbol_count; i++) {
        bool part = s->present[i] >= IN_ALL * stretches, often = s->present[i] > IN_FEW * stretches;
        loop->parts += part;
        loop->collectives_alone &= !part || s->symbols[i].collective;
        loop->largest |= part && i == s->largest;
        moves |= part && s->symbols[i].collective && !is_small(&s->symbols[i]);
        between += !part && often;
        beside += often && is_beside(s, i, stretches);
    }
    moves &= loop->parts > 1;
    between -= moves ? beside : 0;
    return between <= BETWEEN * (loop->parts + between) &&
           (is_steady(s, anchor, false) || (moves && is_steady(s, anchor, true)));
}

/* ---- all loops --------------------------------------------------------------------------------------------------- */

/* The rarest first. */
static int compare_counts(const void *a, const void *b) {
    const struct loop_symbol *left = *(const struct loop_symbol *const *)a;
    const struct loop_symbol *right = *(const struct loop_symbol *const *)b;
    if (left->count != right->count)
        return left->count < right->count ? -1 : 1;
    return left->first < right->first ? -1 : left->first > right->first;
}

static int compare_wanted(const void *a, const void *b) {
    const struct loop_symbol *left = *(const struct loop_symbol *const *)a;
    const struct loop_symbol *right = *(const struct loop_symbol *const *)b;
    if (left->order != right->order)
        return left->order < right->order ? -1 : 1;
    if (left->remainder != right->remainder)
        return left->remainder < right->remainder ? -1 : 1;
    return left->first < right->first ? -1 : left->first > right->first;
}

/* Of the symbols in [from, to) of `by_count`, which occur about equally often, the most wanted that begins a loop. */
static bool find_loop(struct search *s, size_t from, size_t to, struct loop *loop) {
    qsort(s->by_count + from, to - from, sizeof *s->by_count, compare_wanted);
    for (size_t i = from; i < to && i < from + ANCHORS_TRIED && s->passes > 0; i++)
        if (is_loop(s, (uint32_t)(s->by_count[i] - s->symbols), loop))
            return true;
    return false;
}

/* The outermost first. */
static size_t find_loops(struct search *s, struct loop loops[LOOPS_MAX]) {
    size_t found = 0, passes = POSITIONS_MAX / (s->count + 1);
    s->passes = passes > PASSES_MAX ? PASSES_MAX : passes < PASSES_MIN ? PASSES_MIN : passes;
    for (size_t i = 0, end; i < s->symbol_count && found < LOOPS_MAX; i = end) {
        uint32_t least = s->by_count[i]->count;
        for (end = i; end < s->symbol_count && s->by_count[end]->count <= least + least / COUNTS_LIKE + 1;)
            end++;
        if (least > STRETCHES_MIN)
            found += find_loop(s, i, end, &loops[found]);
    }
    return found;
}

/* ---- which is the step ------------------------------------------------------------------------------------------- */

/* How often the inner loop goes through each stretch of the outer one; 0 where that differs. `expected` 0: the mean. */
static uint32_t iterations_of(const struct search *s, uint32_t outer, uint32_t inner, uint32_t expected) {
    uint32_t stretches = s->symbols[outer].count - 1, equal = 0, now = 0, seen = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->which[i] == outer) {
            equal += seen > 0 && now + 1 >= expected && now <= expected + 1;
            sum += seen > 0 ? now : 0;
            seen++;
            now = 0;
        }
        now += s->which[i] == inner;
    }
    if (expected == 0)
        return (uint32_t)((sum + stretches / 2) / stretches);
    return equal >= CONSTANT * stretches ? expected : 0;
}

/* Whether the outer anchor comes in some iterations of the inner loop by chance: their numbers from one to the next
 * scatter as those of what each iteration does or leaves. A solver's do not, nor does what comes in each. */
static bool comes_by_chance(const struct search *s, uint32_t outer, uint32_t inner) {
    struct distances iterations = {0};
    uint32_t seen = 0, now = 0, within = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->which[i] == outer && seen++ > 0) {
            add_distance(&iterations, now);
            within += now > 0;
        }
        now = s->which[i] == outer ? 0 : now;
        now += s->which[i] == inner;
    }
    bool nested = within >= IN_ALL * iterations.count && iterations.sum > iterations.count;
    return nested && !are_steady(&iterations);
}

/* Whether what the outer loop does beside the inner one is itself a loop over losses or metrics: most often a small
 * reduction that no iteration of the inner loop has comes several times in a stretch. What comes once or twice there,
 * such as a norm of gradients, ends a step of several iterations. */
static bool evaluates(struct search *s, const struct loop *outer, const struct loop *inner) {
    double stretches = (double)s->symbols[inner->anchor].count - 1;
    count_presence(s, inner->anchor);
    for (uint32_t i = 0; i < s->symbol_count; i++)
        if (is_beside(s, i, stretches) && s->symbols[i].count >= EVALUATED * s->symbols[outer->anchor].count)
            return true;
    return false;
}

/* Whether a loop is only an interval of the one inside it, or no loop at all: something that happens now and then. */
static bool is_interval(struct search *s, const struct loop *outer, const struct loop *inner, uint32_t periodic) {
    uint32_t mean = iterations_of(s, outer->anchor, inner->anchor, 0);
    uint32_t iterations = mean > 0 ? iterations_of(s, outer->anchor, inner->anchor, mean) : 0;
    bool most = inner->parts + !inner->largest > MOST * outer->parts || evaluates(s, outer, inner);
    if (comes_by_chance(s, outer->anchor, inner->anchor))
        return true;
    if (iterations <= TOGETHER_MAX && iterations > 0)
        return inner->largest && inner->collectives_alone && evaluates(s, outer, inner);
    if (iterations == 0)
        return !outer->in_place;
    if (periodic != LOOP_UNKNOWN && s->symbols[periodic].count + STRETCHES_MIN >= s->symbols[inner->anchor].count)
        return true;
    return most && (periodic == LOOP_UNKNOWN || (inner->largest && inner->collectives_alone));
}

/* The one collective beside which all else are small reductions: it is large, or nothing else moves anything. */
static uint32_t sole_collective(const struct search *s) {
    uint32_t sole = s->largest;
    for (uint32_t i = 0; i < s->symbol_count && s->largest == LOOP_UNKNOWN; i++) {
        bool moves = s->symbols[i].order >> 16 > 0;
        if (moves && sole != LOOP_UNKNOWN)
            return LOOP_UNKNOWN;
        sole = moves ? i : sole;
    }
    for (uint32_t i = 0; i < s->symbol_count; i++)
        if (i != sole && !is_small(&s->symbols[i]))
            return LOOP_UNKNOWN;
    return sole != LOOP_UNKNOWN && s->symbols[sole].collective ? sole : LOOP_UNKNOWN;
}

/* Whether a small reduction comes several times in a row where it comes. */
static bool comes_in_rows(struct search *s, uint32_t sole) {
    bool rows = false;
    count_presence(s, sole);
    for (uint32_t i = 0; i < s->symbol_count; i++)
        rows |= i != sole && s->symbols[i].count >= EVALUATED * s->present[i];
    return rows;
}

/* A step of one collective alone has nothing within it that recurs, so that it is no loop of the above. Where all else
 * are small reductions, what comes after equally many of it, and after more than are accumulated, or where these come
 * several times in a row, are evaluations, checks and checkpoints between such steps. `found`: the step if it is not.
 */
static uint32_t only_collective(struct search *s, uint32_t found) {
    uint32_t sole = sole_collective(s);
    if (sole == LOOP_UNKNOWN || s->symbols[sole].count <= STRETCHES_MIN || !is_spread(s, sole))
        return found;
    bool rows = comes_in_rows(s, sole);
    if (found == LOOP_UNKNOWN)
        return rows ? sole : found;
    uint32_t mean = iterations_of(s, found, sole, 0);
    bool alike = mean > 0 && iterations_of(s, found, sole, mean) > 0;
    return alike && (mean > TOGETHER_MAX || rows) ? sole : found;
}

static uint32_t choose_anchor(struct search *s, uint32_t periodic) {
    struct loop loops[LOOPS_MAX];
    size_t count = find_loops(s, loops), step = 0;
    for (size_t inner = 1; inner < count; inner++) {
        size_t outer = step;
        while (outer < inner && is_interval(s, &loops[outer], &loops[inner], periodic))
            outer++;
        step = outer == inner ? inner : step;
    }
    return only_collective(s, count > 0 ? loops[step].anchor : periodic);
}

static uint32_t largest_collective(const struct loop_symbol *symbols, uint32_t count) {
    uint32_t largest = LOOP_UNKNOWN;
    double most = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = symbols[i].order >> 16;
        if (symbols[i].collective && bytes >= BYTES_LARGE && (double)bytes * symbols[i].count > most) {
            most = (double)bytes * symbols[i].count;
            largest = i;
        }
    }
    return largest;
}

bool step_loops_find(uint32_t *anchor, const struct loop_symbol *symbols, uint32_t symbol_count, const uint32_t *which,
                     size_t count, uint32_t periodic) {
    struct search s = {.symbols = symbols,
                       .symbol_count = symbol_count,
                       .which = which,
                       .count = count,
                       .by_count = calloc(symbol_count + 1u, sizeof *s.by_count),
                       .present = calloc(symbol_count + 1u, sizeof *s.present),
                       .last = calloc(symbol_count + 1u, sizeof *s.last),
                       .largest = largest_collective(symbols, symbol_count)};
    bool done = s.by_count && s.present && s.last;
    for (uint32_t i = 0; done && i < symbol_count; i++)
        s.by_count[i] = &symbols[i];
    if (done && symbol_count > 0)
        qsort(s.by_count, symbol_count, sizeof *s.by_count, compare_counts);
    *anchor = done ? choose_anchor(&s, periodic) : periodic;
    free(s.by_count);
    free(s.present);
    free(s.last);
    return done;
}
