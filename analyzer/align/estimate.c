/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/align/estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/align/fit.h"
#include "analyzer/base/statistics.h"

enum {
    POINTS_MIN = 3,       /* exits that a domain's place may rest on */
    SPLIT_POINTS = 80,    /* fewer are not split further */
    STRETCHES_MAX = 64,   /* per domain */
    PASSES = 2,           /* against the median of all domains */
    SMOOTH_MAX = 200,     /* knots of the first domain's own exit bias */
    ROUNDS_MAX = 64,      /* domains that share operations only through others find their place round by round */
    NOT_PLACED = 1 << 20, /* level of a domain without a place */
};
#define DRIFT_MOST 1e-3 /* ten times what a broken oscillator shows */

struct clock_stretch {
    int64_t from, to; /* of the domain's own clock */
    struct clock_line line;
    int64_t bound;  /* guaranteed, NS_MOST where nothing bounds it */
    int64_t spread; /* how far medians of exits are from the line */
    bool contradicted;
};

/* One domain's part in one operation. */
struct domain_part {
    const struct observation *seen;
    uint32_t group;
};

struct placed_domain {
    const struct domain_part *parts; /* in order of groups */
    size_t part_count;
    struct clock_stretch *stretches;
    size_t count;
    int level;        /* 0: the first domain; its observations bound level 1 and so on */
    size_t exits;     /* points of the likely line */
    int64_t transfer; /* least time from the last entry anywhere to this domain's exit, NS_MOST unknown */
};

/* One operation: a run of observations with one key. */
struct observation_group {
    const struct observation *items;
    size_t count;
    bool known;        /* `reference` is valid */
    int64_t reference; /* median exit of the placed domains, common ns */
    int64_t last;      /* latest cause of any domain, common ns, -NS_MOST: none */
};

struct estimate {
    struct clock_domain *domains;
    struct placed_domain *placed;
    size_t domain_count;
    struct observation_group *groups;
    size_t group_count;
    struct domain_part *parts;                  /* of all domains, domain by domain */
    struct clock_point *points, *upper, *lower; /* room for one point of every group */
    int64_t *scratch;                           /* as many values */
};

static const struct clock_stretch *stretch_at(const struct placed_domain *domain, int64_t at) {
    size_t i = 0;
    while (i + 1 < domain->count && at >= domain->stretches[i].to)
        i++;
    return &domain->stretches[i];
}

static int64_t mapped(const struct estimate *e, uint32_t domain, int64_t at) {
    if (domain == 0)
        return at;
    return add_ns(at, clock_line_at(&stretch_at(&e->placed[domain], at)->line, at));
}

static int compare_points(const void *a, const void *b) {
    const struct clock_point *left = a, *right = b;
    if (left->at != right->at)
        return left->at < right->at ? -1 : 1;
    return (left->value > right->value) - (left->value < right->value);
}

/* ---- the likely line ------------------------------------------------------------------------- */

/* Median exit over the domains that have a place below `level`. */
static void find_references(struct estimate *e, int level) {
    for (size_t g = 0; g < e->group_count; g++) {
        struct observation_group *group = &e->groups[g];
        size_t n = 0;
        for (size_t i = 0; i < group->count; i++) {
            const struct observation *o = &group->items[i];
            if (o->exact && o->effect != OBSERVATION_NONE && e->placed[o->domain].level < level)
                e->scratch[n++] = mapped(e, o->domain, o->effect);
        }
        group->known = n > 0;
        if (n == 0)
            continue;
        group->reference = median_int64(e->scratch, n);
    }
}

/* Differences reference - exit of one domain, in its time order. */
static size_t find_points(const struct estimate *e, uint32_t domain) {
    size_t n = 0;
    for (size_t i = 0; i < e->placed[domain].part_count; i++) {
        const struct observation_group *group = &e->groups[e->placed[domain].parts[i].group];
        const struct observation *o = e->placed[domain].parts[i].seen;
        if (group->known && o->exact && o->effect != OBSERVATION_NONE)
            e->points[n++] = (struct clock_point){o->effect, add_ns(group->reference, -mapped(e, domain, o->effect))};
    }
    qsort(e->points, n, sizeof *e->points, compare_points);
    return n;
}

static int64_t interpolate(const struct clock_point *knots, size_t count, int64_t at) {
    size_t i = 1;
    if (count == 1)
        return knots[0].value;
    while (i + 1 < count && at > knots[i].at)
        i++;
    double span = (double)(knots[i].at - knots[i - 1].at);
    double share = span > 0 ? (double)(at - knots[i - 1].at) / span : 0;
    share = share < 0 ? 0 : share > 1 ? 1 : share; /* flat outside */
    return knots[i - 1].value + ns_clamped(round(share * (double)(knots[i].value - knots[i - 1].value)));
}

/* The median of all domains may itself be off the first domain's clock: what is common to its exits is taken out. */
static void tie_to_first(struct estimate *e) {
    struct clock_point knots[SMOOTH_MAX];
    size_t n = find_points(e, 0);
    if (n == 0)
        return;
    size_t count = clock_block_medians(e->points, n, e->scratch, knots, SMOOTH_MAX);
    if (count < 2) {
        struct clock_line line = clock_line_fit(e->points, n, e->scratch);
        count = 2;
        knots[0] = (struct clock_point){e->points[0].at, clock_line_at(&line, e->points[0].at)};
        knots[1] = (struct clock_point){e->points[n - 1].at, clock_line_at(&line, e->points[n - 1].at)};
    }
    for (size_t g = 0; g < e->group_count; g++)
        if (e->groups[g].known)
            e->groups[g].reference = add_ns(e->groups[g].reference, -interpolate(knots, count, e->groups[g].reference));
}

static void add_line(struct clock_line *line, const struct clock_line *correction) {
    line->offset = add_ns(line->offset, clock_line_at(correction, line->center));
    line->drift += correction->drift;
    if (fabs(line->drift) > DRIFT_MOST) /* no oscillator: a damaged dump; time must still go forward */
        line->drift = copysign(DRIFT_MOST, line->drift);
}

/* Moves every stretch of a domain onto its points. */
static void refit(struct estimate *e, uint32_t domain) {
    struct placed_domain *placed = &e->placed[domain];
    size_t n = find_points(e, domain), from = 0;
    placed->exits = n;
    for (size_t s = 0; s < placed->count; s++) {
        struct clock_stretch *stretch = &placed->stretches[s];
        size_t to = from;
        while (to < n && (s + 1 == placed->count || e->points[to].at < stretch->to))
            to++;
        if (to - from >= POINTS_MIN) {
            struct clock_line correction = clock_line_fit(e->points + from, to - from, e->scratch);
            add_line(&stretch->line, &correction);
        }
        from = to;
    }
}

/* ---- bounds ---------------------------------------------------------------------------------- */

struct bounds {
    size_t upper, lower;
};

/* What causality says about the correction of a domain's map within one stretch, seen from the domains placed before
 * it: their effects lie above its causes, its effects above their causes. */
static struct bounds find_bounds(const struct estimate *e, uint32_t domain, const struct clock_stretch *stretch) {
    struct bounds n = {0, 0};
    int64_t own = e->domains[domain].error_ns;
    for (size_t p = 0; p < e->placed[domain].part_count; p++) {
        const struct observation_group *group = &e->groups[e->placed[domain].parts[p].group];
        const struct observation *mine = e->placed[domain].parts[p].seen;
        int64_t effect = NS_MOST, cause = -NS_MOST;
        for (size_t i = 0; i < group->count; i++) {
            const struct observation *o = &group->items[i];
            if (e->placed[o->domain].level >= e->placed[domain].level)
                continue;
            int64_t error = o->domain ? e->domains[o->domain].bound_ns : e->domains[0].error_ns;
            if (o->effect != OBSERVATION_NONE && add_ns(mapped(e, o->domain, o->effect), error) < effect)
                effect = add_ns(mapped(e, o->domain, o->effect), error);
            if (o->cause != OBSERVATION_NONE && add_ns(mapped(e, o->domain, o->cause), -error) > cause)
                cause = add_ns(mapped(e, o->domain, o->cause), -error);
        }
        if (mine->cause != OBSERVATION_NONE && effect < NS_MOST && mine->cause >= stretch->from &&
            mine->cause < stretch->to)
            e->upper[n.upper++] =
                (struct clock_point){mine->cause, add_ns(add_ns(effect, own), -mapped(e, domain, mine->cause))};
        if (mine->effect != OBSERVATION_NONE && cause > -NS_MOST && mine->effect >= stretch->from &&
            mine->effect < stretch->to)
            e->lower[n.lower++] =
                (struct clock_point){mine->effect, add_ns(add_ns(cause, -own), -mapped(e, domain, mine->effect))};
    }
    qsort(e->upper, n.upper, sizeof *e->upper, compare_points);
    qsort(e->lower, n.lower, sizeof *e->lower, compare_points);
    return n;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* Clips the likely line into the corridor and notes how far the truth can be from it. */
static void clip(struct clock_stretch *stretch, const struct clock_corridor *corridor, int64_t first, int64_t last) {
    int64_t at[3] = {first, first / 2 + last / 2, last}, move[3], low, high;
    stretch->bound = 0;
    for (int i = 0; i < 3; i++) {
        clock_corridor_at(corridor, at[i], &low, &high);
        move[i] = clamp(0, low, high);
        int64_t reach = add_ns(high, -move[i]) > add_ns(move[i], -low) ? add_ns(high, -move[i]) : add_ns(move[i], -low);
        stretch->bound = reach > stretch->bound ? reach : stretch->bound;
    }
    if (last <= first)
        return;
    struct clock_line correction = {
        .center = first, .offset = move[0], .drift = (double)(move[2] - move[0]) / (double)(last - first)};
    int64_t bend = llabs(clock_line_at(&correction, at[1]) - move[1]);
    stretch->bound = add_ns(stretch->bound, bend);
    add_line(&stretch->line, &correction);
}

/* False: no line fits this stretch. */
static bool bound_stretch(struct estimate *e, uint32_t domain, struct clock_stretch *stretch, double *width) {
    struct bounds n = find_bounds(e, domain, stretch);
    stretch->bound = NS_MOST;
    *width = INFINITY;
    if (n.upper < POINTS_MIN || n.lower < POINTS_MIN)
        return true;
    int64_t first = e->upper[0].at < e->lower[0].at ? e->upper[0].at : e->lower[0].at;
    int64_t last =
        e->upper[n.upper - 1].at > e->lower[n.lower - 1].at ? e->upper[n.upper - 1].at : e->lower[n.lower - 1].at;
    struct clock_corridor corridor = clock_corridor_build(e->upper, n.upper, e->lower, n.lower, DRIFT_MOST);
    *width = corridor.width;
    if (corridor.width < 0)
        return false;
    const struct clock_domain *out =
        &e->domains[domain]; /* what is claimed must hold from its first moment to its last */
    if (stretch->from == -NS_MOST && out->first_ns < first)
        first = out->first_ns;
    if (stretch->to == NS_MOST && out->last_ns > last)
        last = out->last_ns;
    clip(stretch, &corridor, first, last);
    return true;
}

/* Halves a stretch at the middle of its exits. False when it has too few of them. */
static bool split_stretch(struct estimate *e, uint32_t domain, size_t s) {
    struct placed_domain *placed = &e->placed[domain];
    size_t n = find_points(e, domain), from = 0, to;
    while (from < n && e->points[from].at < placed->stretches[s].from)
        from++;
    for (to = from; to < n && e->points[to].at < placed->stretches[s].to;)
        to++;
    if (to - from < SPLIT_POINTS || placed->count == STRETCHES_MAX)
        return false;
    memmove(&placed->stretches[s + 1], &placed->stretches[s], (placed->count - s) * sizeof *placed->stretches);
    placed->count++;
    placed->stretches[s].to = placed->stretches[s + 1].from = e->points[from + (to - from) / 2].at;
    refit(e, domain);
    return true;
}

static void bound_domain(struct estimate *e, uint32_t domain) {
    struct placed_domain *placed = &e->placed[domain];
    struct clock_domain *out = &e->domains[domain];
    double narrowest = INFINITY;
    for (size_t s = 0; s < placed->count;) {
        double width;
        bool fits = bound_stretch(e, domain, &placed->stretches[s], &width);
        if (!fits && split_stretch(e, domain, s))
            continue;
        placed->stretches[s].contradicted = !fits;
        narrowest = width < narrowest ? width : narrowest;
        s++;
    }
    out->corridor_ns = isfinite(narrowest) ? (int64_t)narrowest : NS_MOST;
    out->bound_ns = 0;
    for (size_t s = 0; s < placed->count; s++) {
        out->contradictions += placed->stretches[s].contradicted;
        if (placed->stretches[s].bound > out->bound_ns)
            out->bound_ns = placed->stretches[s].bound;
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

/* A domain that shares no exits, only messages: the middle of its corridor. */
static bool place_by_messages(struct estimate *e, uint32_t domain) {
    struct clock_stretch *stretch = &e->placed[domain].stretches[0];
    struct bounds n = find_bounds(e, domain, stretch);
    if (n.upper < POINTS_MIN || n.lower < POINTS_MIN)
        return false;
    struct clock_corridor corridor = clock_corridor_build(e->upper, n.upper, e->lower, n.lower, DRIFT_MOST);
    if (corridor.width < 0)
        return false;
    struct clock_line middle = {.center = corridor.center, .drift = corridor.drift};
    int64_t low, high;
    clock_corridor_at(&corridor, corridor.center, &low, &high);
    middle.offset = low / 2 + high / 2;
    add_line(&stretch->line, &middle);
    return true;
}

/* One round: every domain that shares operations with those placed before gets a place. Returns how many did. */
static size_t place_round(struct estimate *e, int level) {
    size_t placed = 0;
    find_references(e, level);
    for (uint32_t domain = 1; domain < e->domain_count; domain++) {
        struct placed_domain *h = &e->placed[domain];
        if (h->level != NOT_PLACED)
            continue;
        h->level = level; /* as find_bounds sees it */
        size_t n = find_points(e, domain);
        if (n >= POINTS_MIN) {
            struct clock_line correction = clock_line_fit(e->points, n, e->scratch);
            h->stretches[0].line.center = correction.center;
            add_line(&h->stretches[0].line, &correction);
        } else if (!place_by_messages(e, domain)) {
            h->level = NOT_PLACED;
            continue;
        }
        placed++;
    }
    return placed;
}

/* Time from the last entry anywhere to each domain's exit, the quick tenth of them: a systematic difference between two
 * domains' exits cannot exceed it. Not the very least: one false match would make it nothing. */
static void find_transfers(struct estimate *e) {
    for (size_t g = 0; g < e->group_count; g++) {
        struct observation_group *group = &e->groups[g];
        group->last = -NS_MOST;
        for (size_t i = 0; i < group->count; i++) {
            const struct observation *o = &group->items[i];
            if (o->cause != OBSERVATION_NONE && mapped(e, o->domain, o->cause) > group->last)
                group->last = mapped(e, o->domain, o->cause);
        }
    }
    for (uint32_t domain = 0; domain < e->domain_count; domain++) {
        struct placed_domain *placed = &e->placed[domain];
        size_t n = 0;
        for (size_t i = 0; i < placed->part_count; i++) {
            const struct observation *o = placed->parts[i].seen;
            int64_t last = e->groups[placed->parts[i].group].last;
            if (o->exact && o->effect != OBSERVATION_NONE && last > -NS_MOST)
                e->scratch[n++] = add_ns(mapped(e, domain, o->effect), -last);
        }
        if (n == 0)
            continue;
        sort_int64(e->scratch, n);
        placed->transfer = e->scratch[n / 10] > 0 ? e->scratch[n / 10] : 0;
    }
}

/* How far medians of exits lie from the final line. */
static int64_t spread_of_exits(struct estimate *e, uint32_t domain) {
    struct clock_point medians[SMOOTH_MAX];
    size_t n = find_points(e, domain), count = clock_block_medians(e->points, n, e->scratch, medians, SMOOTH_MAX);
    int64_t spread = 0;
    if (count == 0 && n > 0) {
        for (size_t i = 0; i < n; i++)
            e->scratch[i] = llabs(e->points[i].value);
        sort_int64(e->scratch, n);
        return e->scratch[n - 1 - n / 10];
    }
    for (size_t i = 0; i < count; i++)
        if (llabs(medians[i].value) > spread)
            spread = llabs(medians[i].value);
    return spread;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Half the step between neighbouring stretches' lines, the largest: the map goes through the middle. */
static int64_t joint_of(const struct placed_domain *placed) {
    int64_t most = 0;
    for (size_t s = 1; s < placed->count; s++) {
        int64_t at = placed->stretches[s].from;
        int64_t left = clock_line_at(&placed->stretches[s - 1].line, at);
        int64_t step = llabs(clock_line_at(&placed->stretches[s].line, at) - left);
        most = step / 2 > most ? step / 2 : most;
    }
    return most;
}

static bool give_knots(struct clock_domain *out, const struct placed_domain *placed) {
    out->knots = malloc((placed->count + 1) * sizeof *out->knots);
    if (!out->knots)
        return false;
    for (size_t s = 0; s <= placed->count; s++) {
        const struct clock_stretch *before = s > 0 ? &placed->stretches[s - 1] : NULL;
        const struct clock_stretch *after = s < placed->count ? &placed->stretches[s] : NULL;
        int64_t at = after ? after->from : before->to;
        int64_t left = before ? clock_line_at(&before->line, at) : clock_line_at(&after->line, at);
        int64_t right = after ? clock_line_at(&after->line, at) : left;
        out->knots[s] = (struct clock_knot){at, left / 2 + right / 2};
    }
    out->knot_count = placed->count + 1;
    const struct clock_stretch *middle = &placed->stretches[placed->count / 2];
    out->offset_ns = clock_line_at(&middle->line, middle->line.center);
    return true;
}

/* The smaller of what causality guarantees and what exits show. */
static void give_error(struct estimate *e, uint32_t domain) {
    struct clock_domain *out = &e->domains[domain];
    int64_t reading = out->error_ns, likely = NS_MOST;
    out->samples = e->placed[domain].exits;
    if (e->placed[domain].exits >= POINTS_MIN) {
        int64_t bias =
            e->placed[domain].transfer > e->placed[0].transfer ? e->placed[domain].transfer : e->placed[0].transfer;
        out->exit_spread_ns = add_ns(spread_of_exits(e, domain), joint_of(&e->placed[domain]));
        likely = add_ns(add_ns(out->exit_spread_ns, bias), reading);
    }
    /* a clock that needed several lines bends within them, too: the corridor of lines alone promises too much */
    if (e->placed[domain].count > 1)
        out->bound_ns = add_ns(out->bound_ns, out->exit_spread_ns);
    bool guaranteed = out->contradictions == 0 && out->bound_ns < likely;
    int64_t error = guaranteed ? out->bound_ns : likely;
    out->error_ns = error >= NS_MOST ? CLOCK_ERROR_UNKNOWN : error;
}

static bool find_parts(struct estimate *e, const struct observations *observations) {
    e->parts = malloc((observations->count + 1) * sizeof *e->parts);
    if (!e->parts)
        return false;
    for (size_t i = 0; i < observations->count; i++)
        e->placed[observations->items[i].domain].part_count++;
    struct domain_part *next = e->parts;
    for (size_t h = 0; h < e->domain_count; h++) {
        e->placed[h].parts = next;
        next += e->placed[h].part_count;
        e->placed[h].part_count = 0;
    }
    for (uint32_t g = 0; g < e->group_count; g++)
        for (size_t i = 0; i < e->groups[g].count; i++) {
            struct placed_domain *domain = &e->placed[e->groups[g].items[i].domain];
            e->parts[(size_t)(domain->parts - e->parts) + domain->part_count++] =
                (struct domain_part){&e->groups[g].items[i], g};
        }
    return true;
}

static bool begin_estimate(struct estimate *e, const struct observations *observations) {
    size_t groups = 0, most = 0;
    for (size_t i = 0; i < observations->count; i++)
        groups += i == 0 || observations->items[i].key != observations->items[i - 1].key;
    e->groups = calloc(groups + 1, sizeof *e->groups);
    e->placed = calloc(e->domain_count, sizeof *e->placed);
    if (!e->groups || !e->placed)
        return false;
    for (size_t i = 0; i < observations->count; i++) {
        if (i == 0 || observations->items[i].key != observations->items[i - 1].key)
            e->groups[e->group_count++].items = &observations->items[i];
        struct observation_group *group = &e->groups[e->group_count - 1];
        most = ++group->count > most ? group->count : most;
    }
    most = groups > most ? groups : most;
    e->points = malloc((most + 1) * sizeof *e->points);
    e->upper = malloc((most + 1) * sizeof *e->upper);
    e->lower = malloc((most + 1) * sizeof *e->lower);
    e->scratch = malloc((most + 1) * sizeof *e->scratch);
    if (!e->points || !e->upper || !e->lower || !e->scratch || !find_parts(e, observations))
        return false;
    for (size_t h = 0; h < e->domain_count; h++) {
        struct placed_domain *placed = &e->placed[h];
        placed->level = h ? NOT_PLACED : 0;
        placed->transfer = NS_MOST;
        placed->stretches = calloc(STRETCHES_MAX, sizeof *placed->stretches);
        if (!placed->stretches)
            return false;
        placed->count = 1;
        placed->stretches[0] =
            (struct clock_stretch){.from = -NS_MOST, .to = NS_MOST, .line.offset = e->domains[h].offset_ns};
    }
    return true;
}

/* First and last moment a domain was seen: where its knots stand. */
static void find_ends(struct estimate *e) {
    int64_t first, last;
    for (uint32_t domain = 1; domain < e->domain_count; domain++) {
        struct placed_domain *placed = &e->placed[domain];
        first = NS_MOST;
        last = -NS_MOST;
        for (size_t i = 0; i < placed->part_count; i++) {
            const struct observation *o = placed->parts[i].seen;
            int64_t at = o->effect != OBSERVATION_NONE ? o->effect : o->cause;
            first = at < first ? at : first;
            last = at > last ? at : last;
        }
        if (first >= last)
            continue;
        placed->stretches[0].from = first;
        placed->stretches[placed->count - 1].to = last;
    }
}

static void end_estimate(struct estimate *e) {
    for (size_t h = 0; e->placed && h < e->domain_count; h++)
        free(e->placed[h].stretches);
    free(e->placed);
    free(e->groups);
    free(e->parts);
    free(e->points);
    free(e->upper);
    free(e->lower);
    free(e->scratch);
}

static bool solve(struct estimate *e) {
    int level = 1;
    while (level < ROUNDS_MAX && place_round(e, level) > 0) {
        for (uint32_t domain = 1; domain < e->domain_count; domain++)
            if (e->placed[domain].level == level)
                bound_domain(e, domain); /* the next round's bounds rest on it; done again below */
        level++;
    }
    for (int pass = 0; pass < PASSES; pass++) {
        find_references(e, NOT_PLACED);
        tie_to_first(e);
        for (uint32_t domain = 1; domain < e->domain_count; domain++)
            if (e->placed[domain].level < NOT_PLACED)
                refit(e, domain);
    }
    for (int l = 1; l < level; l++)
        for (uint32_t domain = 1; domain < e->domain_count; domain++)
            if (e->placed[domain].level == l) {
                e->domains[domain].contradictions = 0;
                bound_domain(e, domain);
            }
    find_transfers(e);
    find_ends(e);
    for (uint32_t domain = 1; domain < e->domain_count; domain++) {
        if (e->placed[domain].level == NOT_PLACED) {
            e->domains[domain].error_ns = CLOCK_ERROR_UNKNOWN;
            continue;
        }
        give_error(e, domain);
        if (!give_knots(&e->domains[domain], &e->placed[domain]))
            return false;
    }
    return true;
}

bool clock_estimate(struct clock_domain *domains, size_t domain_count, const struct observations *observations) {
    struct estimate e = {.domains = domains, .domain_count = domain_count};
    bool done = begin_estimate(&e, observations) && solve(&e);
    end_estimate(&e);
    return done;
}
