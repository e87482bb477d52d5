/* SPDX-License-Identifier: Apache-2.0
 *
 * Medians of rows and columns are taken out, what a cell has left is its own; first
 * between hosts, then between ranks.
 */
#include "analyzer/links/link_judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/log_bins.h"
#include "analyzer/base/significance.h"
#include "analyzer/base/statistics.h"

enum {
    FLAGGED_SHARE = 16, /* more than one in so many pairs slow: how the network is, no slow link */
    HOSTS_MIN = 4,      /* to tell a slow host or pair of hosts from the others */
};

#define FEW_RISK       0.01 /* of a false name in a job of few pairs: of their spread, too, little is known */
#define LEVELLED       1.4  /* rows and columns of a few cells: 4 / 3, and room */
#define LEVELLED_HOSTS 2    /* hosts often have two partners only */
#define SPREAD_LEAST   0.05 /* of ln of medians between pairs: no network is more even */

/* A pair of ranks, or of hosts, that is judged. */
struct judged_link {
    const struct link_measure *measure; /* of a pair of ranks */
    uint32_t from, to;                  /* ranks or hosts */
    uint32_t from_host, to_host;
    double apart;    /* ln of the time less that of its class */
    double residual; /* less what its sender and its receiver have in common with others */
    double error;    /* sd of ln of the time */
    size_t pairs;    /* of ranks */
    bool alone;      /* its sender has no other receiver, or its receiver no other sender */
    bool named;      /* its hosts are */
};

/* One size. */
struct judging {
    const struct common_clock *clock;
    size_t tests;              /* cells of all sizes */
    struct judged_link *cells; /* pairs of ranks */
    size_t count;
    struct judged_link *hosts; /* pairs of hosts */
    size_t host_cells;
    double *effects[2];     /* per host: what all its pairs have in common, from it and to it; NAN: has not two */
    uint32_t *near;         /* per host: one of those it is joined with by usual pairs */
    struct grouped *sorted; /* scratch of `count` */
    double *scratch;
    struct slow_link *found;
    size_t found_count;
};

/* Sorting key of a pass over groups of cells. */
struct grouped {
    uint64_t group;
    struct judged_link *cell;
};

static int compare_groups(const void *a, const void *b) {
    const struct grouped *left = a, *right = b;
    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    if (left->cell->from != right->cell->from)
        return left->cell->from < right->cell->from ? -1 : 1;
    return left->cell->to < right->cell->to ? -1 : left->cell->to > right->cell->to;
}

static uint64_t class_group(const struct judged_link *cell) {
    return cell->from_host != cell->to_host;
}

static uint64_t sender_group(const struct judged_link *cell) {
    return cell->from;
}

static uint64_t receiver_group(const struct judged_link *cell) {
    return cell->to;
}

static uint64_t from_host_group(const struct judged_link *cell) {
    return cell->from_host;
}

static uint64_t to_host_group(const struct judged_link *cell) {
    return cell->to_host;
}

static uint64_t host_pair_group(const struct judged_link *cell) {
    return (uint64_t)cell->from_host << 32 | cell->to_host;
}

/* The cells in groups; between hosts only, where asked. Returns how many. */
static size_t sort_by(struct judging *j, struct judged_link *cells, size_t count,
                      uint64_t (*group)(const struct judged_link *), bool between_hosts) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (!between_hosts || cells[i].from_host != cells[i].to_host)
            j->sorted[used++] = (struct grouped){group(&cells[i]), &cells[i]};
    qsort(j->sorted, used, sizeof *j->sorted, compare_groups);
    return used;
}

static size_t end_of_group(const struct judging *j, size_t from, size_t used) {
    size_t end = from;
    while (end < used && j->sorted[end].group == j->sorted[from].group)
        end++;
    return end;
}

/* Takes each group's median out of the residuals, and notes it in effects[group] where asked. A group of one cannot
 * be judged. */
static void level_effects(struct judging *j, struct judged_link *cells, size_t count,
                          uint64_t (*group)(const struct judged_link *), bool between_hosts, double *effects) {
    size_t used = sort_by(j, cells, count, group, between_hosts);
    for (size_t i = 0, end; i < used; i = end) {
        end = end_of_group(j, i, used);
        for (size_t k = i; k < end; k++)
            j->scratch[k - i] = j->sorted[k].cell->residual;
        double middle = median_low_double(j->scratch, end - i);
        for (size_t k = i; k < end; k++) {
            j->sorted[k].cell->residual -= middle;
            j->sorted[k].cell->alone |= end - i < 2;
        }
        if (effects && end - i >= 2)
            effects[j->sorted[i].group] = middle;
    }
}

/* How far pairs lie apart although none is slow: from the middle and from nine tenths of them, the larger of both, for
 * networks are not normal. `values` are sorted. */
static double spread_of_values(double *values, size_t count, double room) {
    double middle = SD_OF_MEDIAN_DISTANCE * median_low_double(values, count);
    double most = quantile_low_double(values, count, 90) / NORMAL_DISTANCE_P90;
    double spread = room * (middle > most ? middle : most);
    return spread > SPREAD_LEAST ? spread : SPREAD_LEAST;
}

static double spread_of_cells(struct judging *j, const struct judged_link *cells, size_t count, double room) {
    for (size_t i = 0; i < count; i++)
        j->scratch[i] = fabs(cells[i].residual);
    return spread_of_values(j->scratch, count, room);
}

/* 1 less the chance that one of so many has that by chance. */
static double confidence_of(double effect, double between, double error, size_t tests) {
    double z = effect / sqrt(between * between + error * error);
    return 1 - (double)tests * erfc(z / sqrt(2)) / 2;
}

/* ---- what is found ------------------------------------------------------------------------------------------- */

/* Adds what a pair of ranks lost where its messages take `ratio` times what is usual. Returns whether the clocks can
 * tell. */
static bool add_cost(const struct judging *j, const struct link_measure *measure, double ratio,
                     struct slow_link *link) {
    double extra = measure->typical * (1 - 1 / ratio);
    double slow =
        measure->bins ? log_bins_above(measure->bins, measure->count, measure->typical / ratio * SLOW_RATIO) : NAN;
    link->persistence = (link->persistence * (double)link->messages + slow * measure->count) /
                        (double)(link->messages + measure->count);
    link->messages += measure->count;
    link->steps = measure->steps;
    link->pairs++;
    link->extra_ns = add_ns(link->extra_ns, ns_clamped(extra * measure->weight));
    return extra > (double)common_clock_error(j->clock, measure->from, measure->to);
}

/* ---- hosts --------------------------------------------------------------------------------------------------- */

static uint32_t root_of(uint32_t *near, uint32_t host) {
    while (near[host] != host)
        host = near[host] = near[near[host]];
    return host;
}

/* A cell per pair of hosts: the middle of its pairs of ranks. */
static void gather_hosts(struct judging *j) {
    size_t used = sort_by(j, j->cells, j->count, host_pair_group, true);
    j->host_cells = 0;
    for (size_t i = 0, end; i < used; i = end) {
        double error = 0;
        end = end_of_group(j, i, used);
        for (size_t k = i; k < end; k++) {
            j->scratch[k - i] = j->sorted[k].cell->apart;
            error = j->sorted[k].cell->error > error ? j->sorted[k].cell->error : error;
        }
        double apart = median_low_double(j->scratch, end - i);
        uint32_t from = j->sorted[i].cell->from_host, to = j->sorted[i].cell->to_host;
        j->hosts[j->host_cells++] = (struct judged_link){.from = from,
                                                         .to = to,
                                                         .from_host = from,
                                                         .to_host = to,
                                                         .apart = apart,
                                                         .residual = apart,
                                                         .error = error,
                                                         .pairs = end - i};
        if (apart < log(LINK_RATIO) / 2)
            j->near[root_of(j->near, from)] = root_of(j->near, to);
    }
}

static void level_hosts(struct judging *j) {
    level_effects(j, j->hosts, j->host_cells, sender_group, true, j->effects[0]);
    level_effects(j, j->hosts, j->host_cells, receiver_group, true, j->effects[1]);
}

static bool concerns(const struct judged_link *cell, uint32_t from, uint32_t to) {
    if (cell->from_host == cell->to_host)
        return false;
    if (from == to) /* a host and all others */
        return cell->from_host == from || cell->to_host == from;
    return cell->from_host == from && cell->to_host == to;
}

/* Pairs of ranks between two hosts, or one (`from` and `to`) and all, are explained by them. Returns whether the clocks
 * can tell. */
static bool explain_link(struct judging *j, uint32_t from, uint32_t to, double effect, struct slow_link *link) {
    bool clear = true;
    for (size_t i = 0; i < j->count; i++) {
        struct judged_link *cell = &j->cells[i];
        if (!concerns(cell, from, to))
            continue;
        double own = cell->apart < effect ? cell->apart : effect;
        cell->named = true;
        if (own >= log(LINK_RATIO) / 2)
            clear &= add_cost(j, cell->measure, exp(own), link);
    }
    return clear;
}

/* Whether most of their pairs of ranks are slow, and enough of them were or may have been waited for. Of a host that is
 * slow one way only, half are; and what it waits for itself comes from several. */
static bool is_accused(const struct judging *j, uint32_t from, uint32_t to) {
    size_t accused = 0, pairs = 0, slow = 0;
    for (size_t i = 0; i < j->count; i++) {
        const struct judged_link *cell = &j->cells[i];
        if (!concerns(cell, from, to))
            continue;
        pairs++;
        accused += cell->measure->accused || cell->measure->possible;
        slow += cell->apart >= log(LINK_RATIO) / 2;
    }
    size_t share = from == to ? 2 : 1;
    return 2 * share * accused >= pairs && 3 * share * slow >= 2 * pairs;
}

/* The larger one of both ways, negative infinity where neither is known. */
static double effect_of(const struct judging *j, uint32_t host) {
    return fmax(fmax(j->effects[0][host], j->effects[1][host]), -INFINITY);
}

/* Whether the other hosts, too, lie in several places. */
static bool is_laid_out(const struct judging *j, uint32_t host) {
    uint32_t first = UINT32_MAX;
    for (size_t i = 0; i < j->host_cells; i++) {
        uint32_t at = root_of(j->near, j->hosts[i].from);
        if (j->hosts[i].from == host)
            continue;
        if (first == UINT32_MAX)
            first = at;
        if (at != first)
            return true;
    }
    return false;
}

static void name_host(struct judging *j, uint32_t host, double between, size_t effects) {
    double effect = effect_of(j, host), error = 0;
    if (effect < log(LINK_RATIO) || !is_accused(j, host, host))
        return;
    struct slow_link link = {.scope = LINK_HOST, .from = host, .to = host, .ratio = exp(effect)};
    for (size_t i = 0; i < j->host_cells; i++)
        if ((j->hosts[i].from == host || j->hosts[i].to == host) && j->hosts[i].error > error)
            error = j->hosts[i].error;
    link.confidence = confidence_of(effect, between, error, effects);
    link.layout = is_laid_out(j, host);
    if (link.confidence >= CONFIDENCE_VERDICT && explain_link(j, host, host, effect, &link))
        j->found[j->found_count++] = link;
}

static void name_slow_hosts(struct judging *j) {
    size_t effects = 0, slow = 0;
    for (uint32_t h = 0; h < j->clock->host_count; h++) {
        for (unsigned way = 0; way < 2; way++)
            if (!isnan(j->effects[way][h]))
                j->scratch[effects++] = fabs(j->effects[way][h]);
        slow += effect_of(j, h) >= log(LINK_RATIO);
    }
    size_t allowed = effects / 2 / FLAGGED_SHARE > 1 ? effects / 2 / FLAGGED_SHARE : 1;
    if (effects < (size_t)2 * HOSTS_MIN || slow > allowed)
        return;
    double between = spread_of_values(j->scratch, effects, LEVELLED);
    for (uint32_t h = 0; h < j->clock->host_count; h++)
        name_host(j, h, between, effects);
}

static const struct judged_link *way_back(const struct judging *j, const struct judged_link *cell) {
    for (size_t i = 0; i < j->host_cells; i++)
        if (j->hosts[i].from == cell->to && j->hosts[i].to == cell->from)
            return &j->hosts[i];
    return NULL;
}

static bool is_slow_pair(const struct judging *j, const struct judged_link *cell, double between, double *confidence) {
    double effect = cell->residual < cell->apart ? cell->residual : cell->apart;
    *confidence = confidence_of(effect, between, cell->error, j->host_cells);
    return !cell->alone && cell->pairs > 1 && effect >= log(LINK_RATIO) && *confidence >= CONFIDENCE_VERDICT &&
           is_accused(j, cell->from, cell->to);
}

static void name_host_pairs(struct judging *j) {
    size_t before = j->found_count;
    size_t allowed = j->host_cells / FLAGGED_SHARE > 2 ? j->host_cells / FLAGGED_SHARE : 2;
    double between = spread_of_cells(j, j->hosts, j->host_cells, LEVELLED_HOSTS), confidence, other;
    if (j->host_cells < LINK_PAIRS_MIN)
        return;
    size_t slow = 0;
    for (size_t i = 0; i < j->host_cells; i++)
        slow += is_slow_pair(j, &j->hosts[i], between, &confidence);
    for (size_t i = 0; i < j->host_cells && slow <= allowed; i++) {
        const struct judged_link *cell = &j->hosts[i], *back = way_back(j, cell);
        if (!is_slow_pair(j, cell, between, &confidence))
            continue;
        double effect = cell->residual < cell->apart ? cell->residual : cell->apart;
        bool both = back && is_slow_pair(j, back, between, &other);
        struct slow_link link = {.scope = LINK_HOSTS,
                                 .from = cell->from,
                                 .to = cell->to,
                                 .both = both,
                                 .ratio = exp(effect),
                                 .confidence = confidence,
                                 .layout = root_of(j->near, cell->from) != root_of(j->near, cell->to)};
        bool clear = explain_link(j, cell->from, cell->to, effect, &link);
        if (clear)
            j->found[j->found_count++] = link;
    }
    /* both ways are one */
    for (size_t i = before; i < j->found_count; i++)
        for (size_t k = i + 1; k < j->found_count; k++) {
            struct slow_link *there = &j->found[i], *here = &j->found[k];
            if (there->from != here->to || there->to != here->from)
                continue;
            there->extra_ns += here->extra_ns;
            there->messages += here->messages;
            there->pairs += here->pairs;
            memmove(here, here + 1, (j->found_count - k - 1) * sizeof *here);
            j->found_count--;
        }
}

/* ---- ranks --------------------------------------------------------------------------------------------------- */

/* How far pairs lie apart: less what their ranks have in common with others, and all in all. */
struct spreads {
    double own, apart;
};

static void level_ranks(struct judging *j) {
    level_effects(j, j->cells, j->count, from_host_group, true, NULL);
    level_effects(j, j->cells, j->count, to_host_group, true, NULL);
    level_effects(j, j->cells, j->count, sender_group, false, NULL);
    level_effects(j, j->cells, j->count, receiver_group, false, NULL);
}

/* Whether a pair of ranks is slow beyond chance, the clocks' error and what its neighbours have. What has no neighbours
 * is only suspected. */
static bool is_slow_link(const struct judging *j, const struct judged_link *cell, const struct spreads *spreads,
                         struct slow_link *link) {
    double effect = cell->residual < cell->apart && !cell->alone ? cell->residual : cell->apart;
    if (cell->named || !cell->measure->accused || effect < log(LINK_RATIO))
        return false;
    *link = (struct slow_link){
        .scope = LINK_RANKS, .from = cell->from, .to = cell->to, .alone = cell->alone, .ratio = exp(effect)};
    link->confidence = confidence_of(effect, cell->alone ? spreads->apart : spreads->own, cell->error, j->tests);
    if (cell->from_host != cell->to_host)
        link->layout = root_of(j->near, cell->from_host) != root_of(j->near, cell->to_host);
    return link->confidence >= CONFIDENCE_VERDICT && add_cost(j, cell->measure, link->ratio, link);
}

/* ---- few pairs ------------------------------------------------------------------------------------------------ */

/* Chance that Student's t of so many degrees of freedom is larger (Abramowitz and Stegun, 26.7.3 and 26.7.4). */
static double student_tail(double t, unsigned freedom) {
    const double pi = 3.14159265358979323846;
    double angle = atan(t / sqrt(freedom)), cosine = cos(angle), term = freedom % 2 ? cosine : 1, sum = 0;
    for (unsigned k = freedom % 2 ? 1 : 0; k + 2 <= freedom; k += 2) {
        sum += term;
        term *= cosine * cosine * (k + 1) / (k + 2);
    }
    double within = freedom % 2 ? 2 / pi * (angle + sin(angle) * sum) : sin(angle) * sum;
    return (1 - within) / 2;
}

/* Mean of the other pairs and how far a further one may lie from it: both are known by those few alone. */
static void sum_up_others(const struct judging *j, size_t without, double *mean, double *spread) {
    size_t others = j->count - 1;
    double squares = 0;
    *mean = 0;
    for (size_t i = 0; i < j->count; i++)
        *mean += i == without ? 0 : j->cells[i].apart / (double)others;
    for (size_t i = 0; i < j->count; i++)
        squares += i == without ? 0 : (j->cells[i].apart - *mean) * (j->cells[i].apart - *mean);
    *spread = sqrt(squares / (double)(others - 1));
    *spread = (*spread > SPREAD_LEAST ? *spread : SPREAD_LEAST) * sqrt(1 + 1 / (double)others);
}

/* Of a ring of few hosts, whose steps NCCL's proxies timed: the one pair that the others would not have foretold. */
static void name_among_few(struct judging *j) {
    for (size_t i = 0; i < j->count; i++) {
        const struct judged_link *cell = &j->cells[i];
        double mean, spread;
        sum_up_others(j, i, &mean, &spread);
        double effect = cell->apart - mean, room = sqrt(spread * spread + cell->error * cell->error);
        double risk = (double)j->tests * student_tail(effect / room, (unsigned)j->count - 2);
        struct slow_link link = {.scope = LINK_RANKS,
                                 .from = cell->from,
                                 .to = cell->to,
                                 .alone = cell->alone,
                                 .layout = root_of(j->near, cell->from_host) != root_of(j->near, cell->to_host),
                                 .ratio = exp(effect),
                                 .confidence = 1 - risk};
        if (cell->measure->accused && effect >= log(LINK_RATIO) && risk <= FEW_RISK &&
            add_cost(j, cell->measure, link.ratio, &link))
            j->found[j->found_count++] = link;
    }
}

/* Steps of proxies are means of very many, and there is no rank that waits in them: fewer pairs of hosts tell than of
 * messages. All between hosts, none within. */
static bool are_few_steps(const struct judging *j) {
    for (size_t i = 0; i < j->count; i++)
        if (!j->cells[i].measure->steps || j->cells[i].from_host == j->cells[i].to_host)
            return false;
    return j->count >= LINK_STEP_PAIRS_MIN && j->count < LINK_PAIRS_MIN;
}

/* Of the pairs within hosts, or of those between hosts. */
static void name_slow_ranks(struct judging *j, bool between_hosts, double own) {
    size_t before = j->found_count, pairs = 0;
    for (size_t i = 0; i < j->count; i++)
        if ((j->cells[i].from_host != j->cells[i].to_host) == between_hosts)
            j->scratch[pairs++] = fabs(j->cells[i].apart);
    if (pairs == 0)
        return;
    struct spreads spreads = {own, pairs < LINK_PAIRS_MIN ? INFINITY : spread_of_values(j->scratch, pairs, LEVELLED)};
    for (size_t i = 0; i < j->count; i++) {
        if ((j->cells[i].from_host != j->cells[i].to_host) != between_hosts)
            continue;
        j->found_count += is_slow_link(j, &j->cells[i], &spreads, &j->found[j->found_count]);
    }
    size_t allowed = pairs / FLAGGED_SHARE > 2 ? pairs / FLAGGED_SHARE : 2; /* both directions of one */
    if (j->found_count - before > allowed)
        j->found_count = before;
}

static void judge_size(struct judging *j) {
    for (uint32_t h = 0; h < j->clock->host_count; h++) {
        j->near[h] = h;
        j->effects[0][h] = j->effects[1][h] = NAN;
    }
    level_effects(j, j->cells, j->count, class_group, false, NULL);
    for (size_t i = 0; i < j->count; i++)
        j->cells[i].apart = j->cells[i].residual;
    gather_hosts(j);
    level_hosts(j);
    if (j->host_cells > 0) {
        name_slow_hosts(j);
        name_host_pairs(j);
    }
    level_ranks(j);
    if (j->count < LINK_PAIRS_MIN) {
        name_among_few(j);
        return;
    }
    double between = spread_of_cells(j, j->cells, j->count, LEVELLED);
    name_slow_ranks(j, false, between);
    name_slow_ranks(j, true, between);
}

/* ---- all sizes ------------------------------------------------------------------------------------------------ */

static int compare_links(const void *a, const void *b) {
    const struct slow_link *left = a, *right = b;
    if (left->extra_ns != right->extra_ns)
        return left->extra_ns > right->extra_ns ? -1 : 1;
    if (left->scope != right->scope)
        return left->scope < right->scope ? -1 : 1;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->to < right->to ? -1 : left->to > right->to;
}

/* Whether `wide` holds what `link` says, or more. */
static bool holds(const struct common_clock *clock, const struct slow_link *wide, const struct slow_link *link) {
    uint32_t from = link->from, to = link->to;
    if (wide->scope == link->scope)
        return wide->from == from && wide->to == to;
    if (wide->scope < link->scope)
        return false;
    if (link->scope == LINK_RANKS) {
        from = clock->host_of[from];
        to = clock->host_of[to];
    }
    if (from == to)
        return false;
    if (wide->scope == LINK_HOST)
        return wide->from == from || wide->from == to;
    return (wide->from == from && wide->to == to) || (wide->both && wide->from == to && wide->to == from);
}

/* What is slow in several sizes is named once, for the costliest; what wider names hold is not named beside them.
 * Sorted by cost. */
static size_t keep_once(const struct common_clock *clock, struct slow_link *found, size_t count, size_t most) {
    size_t kept = 0;
    for (size_t i = 0; i < count && kept < most; i++) {
        bool named = false;
        for (size_t k = 0; k < count && !named; k++)
            named = k != i && (k < i || found[k].scope > found[i].scope) && holds(clock, &found[k], &found[i]);
        if (!named)
            found[kept++] = found[i];
    }
    return kept;
}

static struct judged_link cell_of(const struct common_clock *clock, const struct link_measure *measure) {
    return (struct judged_link){.measure = measure,
                                .from = measure->from,
                                .to = measure->to,
                                .from_host = clock->host_of[measure->from],
                                .to_host = clock->host_of[measure->to],
                                .residual = log(measure->typical),
                                .error = measure->error,
                                .pairs = 1};
}

static bool judging_make(struct judging *j, const struct common_clock *clock, size_t count) {
    size_t scratch = count > 2 * clock->host_count ? count : 2 * clock->host_count;
    *j = (struct judging){
        .clock = clock,
        .tests = count,
        .cells = calloc(count, sizeof *j->cells),
        .hosts = calloc(count, sizeof *j->hosts),
        .effects = {calloc(clock->host_count, sizeof *j->effects[0]), calloc(clock->host_count, sizeof *j->effects[1])},
        .near = calloc(clock->host_count, sizeof *j->near),
        .sorted = calloc(count, sizeof *j->sorted),
        .scratch = calloc(scratch, sizeof *j->scratch),
        /* one more than are found: where a cell that is not slow is tried */
        .found = calloc(2 * count + clock->host_count + 1, sizeof *j->found)};
    return j->cells && j->hosts && j->effects[0] && j->effects[1] && j->near && j->sorted && j->scratch && j->found;
}

static void judging_free(struct judging *j) {
    free(j->cells);
    free(j->hosts);
    free(j->effects[0]);
    free(j->effects[1]);
    free(j->near);
    free(j->sorted);
    free(j->scratch);
    free(j->found);
}

size_t link_judge(const struct common_clock *clock, const struct link_measure *measures, size_t count,
                  struct slow_link *found, size_t most) {
    struct judging j;
    size_t kept = SIZE_MAX;
    if (count == 0)
        return 0;
    if (judging_make(&j, clock, count)) {
        for (size_t i = 0, end; i < count; i = end) {
            for (end = i; end < count && measures[end].size == measures[i].size; end++)
                j.cells[end - i] = cell_of(clock, &measures[end]);
            j.count = end - i;
            if (j.count >= LINK_PAIRS_MIN || are_few_steps(&j))
                judge_size(&j);
        }
        qsort(j.found, j.found_count, sizeof *j.found, compare_links);
        kept = keep_once(clock, j.found, j.found_count, most);
        memcpy(found, j.found, kept * sizeof *found);
    }
    judging_free(&j);
    return kept;
}
