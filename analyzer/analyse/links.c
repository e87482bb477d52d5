/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of links.h.
 */
#include "analyzer/analyse/links.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/analyse/significance.h"

enum {
    FIRST_OCTAVE = 9, /* 512 */
    ROOM_FIRST = 64,
    FLAGGED_SHARE = 16, /* more than one in so many pairs slow: how the network is, no slow link */
    CORRELATED = 4,     /* messages follow each other closely: so many are worth one */
};

#define LEVELLED     1.4  /* rows and columns of a few cells: 4 / 3, and room */
#define SPREAD_LEAST 0.05 /* of ln of medians between pairs: no network is more even */

/* ---- gathering ----------------------------------------------------------------------------------------------- */

/* Eight linear bins per octave. */
static uint32_t bin_of(uint64_t value) {
    if (value < 1 << FIRST_OCTAVE)
        return 0;
    unsigned octave = 63 - (unsigned)__builtin_clzll(value);
    unsigned bin = (octave - FIRST_OCTAVE) * 8 + (unsigned)(value >> (octave - 3) & 7);
    return bin < LINK_BINS ? bin : LINK_BINS - 1;
}

static double edge_of(unsigned bin) {
    return ldexp(8 + bin % 8, FIRST_OCTAVE - 3 + (int)(bin / 8));
}

void links_init(struct links *links, const struct common_clock *clock) {
    *links = (struct links){.clock = clock};
}

void links_free(struct links *links) {
    free(links->cells);
    *links = (struct links){0};
}

static struct link_cell *place_of(struct link_cell *cells, size_t room, uint32_t from, uint32_t to, uint32_t size) {
    uint64_t hash = ((uint64_t)from << 32 | to) * 0x9e3779b97f4a7c15u ^ size * 0xc2b2ae3d27d4eb4fu;
    hash ^= hash >> 29;
    size_t at = (size_t)(hash * 0xbf58476d1ce4e5b9u >> 32) & (room - 1);
    while (cells[at].count && (cells[at].from != from || cells[at].to != to || cells[at].size != size))
        at = (at + 1) & (room - 1);
    return &cells[at];
}

static bool grow(struct links *links) {
    size_t room = links->room ? 2 * links->room : ROOM_FIRST;
    struct link_cell *cells = calloc(room, sizeof *cells);
    if (!cells) {
        links->no_memory = true;
        return false;
    }
    for (size_t i = 0; i < links->room; i++) {
        const struct link_cell *cell = &links->cells[i];
        if (cell->count)
            *place_of(cells, room, cell->from, cell->to, cell->size) = *cell;
    }
    free(links->cells);
    links->cells = cells;
    links->room = room;
    return true;
}

/* NULL: no room, and nothing is judged any more. */
static struct link_cell *cell_of(struct links *links, uint32_t from, uint32_t to, uint32_t size) {
    if (links->overflow || links->no_memory || (4 * links->used >= 3 * links->room && !grow(links)))
        return NULL;
    struct link_cell *cell = place_of(links->cells, links->room, from, to, size);
    if (cell->count)
        return cell;
    if (links->used == LINK_CELLS_MOST) {
        links->overflow = true;
        return NULL;
    }
    links->used++;
    cell->from = from;
    cell->to = to;
    cell->size = size;
    return cell;
}

void links_add(struct links *links, const struct match_message *message) {
    const struct match_member *send = &message->send, *receive = &message->receive;
    int64_t ready = receive->wait > receive->enter ? receive->wait : receive->enter;
    if (message->bytes == BYTES_UNKNOWN || message->from_dump == message->to_dump || ready >= receive->leave ||
        send->leave <= ready) /* it may have been there long before */
        return;
    int64_t took = receive->leave - (send->enter > ready ? send->enter : ready);
    struct link_cell *cell =
        took > 0 ? cell_of(links, message->from_dump, message->to_dump, bin_of(message->bytes)) : NULL;
    if (!cell || cell->count == UINT32_MAX)
        return;
    cell->count++;
    cell->bins[bin_of((uint64_t)took)]++;
}

void links_merge(struct links *into, const struct links *from) {
    into->overflow |= from->overflow;
    into->no_memory |= from->no_memory;
    for (size_t i = 0; i < from->room; i++) {
        const struct link_cell *part = &from->cells[i];
        struct link_cell *cell = part->count ? cell_of(into, part->from, part->to, part->size) : NULL;
        if (!cell || part->count > UINT32_MAX - cell->count)
            continue;
        cell->count += part->count;
        for (unsigned b = 0; b < LINK_BINS; b++)
            cell->bins[b] += part->bins[b];
    }
}

/* ---- judging --------------------------------------------------------------------------------------------------- */

/* A cell that is judged. */
struct judged {
    const struct link_cell *cell;
    uint32_t from_host, to_host;
    double median;   /* ns */
    double spread;   /* sd of ln of one message's time, from the quartiles */
    double apart;    /* ln of the median less that of its class */
    double residual; /* less what its sender and its receiver have in common with others */
    bool alone;      /* its sender has no other receiver, or its receiver no other sender */
};

static double quantile(const struct link_cell *cell, double share) {
    double wanted = share * cell->count, below = 0;
    unsigned bin = 0;
    while (bin < LINK_BINS - 1 && below + cell->bins[bin] < wanted)
        below += cell->bins[bin++];
    double inside = cell->bins[bin] ? (wanted - below) / cell->bins[bin] : 0;
    return edge_of(bin) + inside * (edge_of(bin + 1) - edge_of(bin));
}

static int compare_cells(const void *a, const void *b) {
    const struct link_cell *left = ((const struct judged *)a)->cell, *right = ((const struct judged *)b)->cell;
    if (left->size != right->size)
        return left->size < right->size ? -1 : 1;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->to < right->to ? -1 : left->to > right->to;
}

static int compare_doubles(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The lower one of an even number: what one slow cell does not move. */
static double median_of(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_doubles);
    return values[(count - 1) / 2];
}

/* Sorting key of a pass over groups of cells. */
struct grouped {
    uint64_t group;
    struct judged *cell;
};

static int compare_groups(const void *a, const void *b) {
    const struct grouped *left = a, *right = b;
    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    return compare_cells(left->cell, right->cell);
}

static uint64_t class_group(const struct judged *judged) {
    return judged->from_host != judged->to_host;
}

static uint64_t sender_group(const struct judged *judged) {
    return judged->cell->from;
}

static uint64_t receiver_group(const struct judged *judged) {
    return judged->cell->to;
}

/* Within a host, hosts have no links: every cell is a group of its own. */
static uint64_t from_host_group(const struct judged *judged) {
    return judged->from_host;
}

static uint64_t to_host_group(const struct judged *judged) {
    return judged->to_host;
}

/* Takes the group's median out of the residuals. `lonely`: a group of one cannot be judged. */
static void level(struct judged *cells, size_t count, uint64_t (*group)(const struct judged *), bool lonely,
                  bool between_hosts, struct grouped *sorted, double *scratch) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (!between_hosts || cells[i].from_host != cells[i].to_host)
            sorted[used++] = (struct grouped){group(&cells[i]), &cells[i]};
    qsort(sorted, used, sizeof *sorted, compare_groups);
    for (size_t i = 0, end; i < used; i = end) {
        for (end = i; end < used && sorted[end].group == sorted[i].group; end++)
            scratch[end - i] = sorted[end].cell->residual;
        double middle = median_of(scratch, end - i);
        for (size_t j = i; j < end; j++) {
            sorted[j].cell->residual -= middle;
            sorted[j].cell->alone |= lonely && end - i < 2;
        }
    }
}

static void level_all(struct judged *cells, size_t count, struct grouped *sorted, double *scratch) {
    for (size_t i = 0; i < count; i++)
        cells[i].residual = log(cells[i].median);
    level(cells, count, class_group, true, false, sorted, scratch);
    for (size_t i = 0; i < count; i++)
        cells[i].apart = cells[i].residual;
    level(cells, count, from_host_group, true, true, sorted, scratch);
    level(cells, count, to_host_group, true, true, sorted, scratch);
    level(cells, count, sender_group, true, false, sorted, scratch);
    level(cells, count, receiver_group, true, false, sorted, scratch);
}

/* How far pairs lie apart although none is slow: from the middle and from nine tenths of them, the larger of both, for
 * networks are not normal. What senders and receivers took out of few cells is put back. */
static double spread_of(const struct judged *cells, size_t count, double *scratch) {
    for (size_t i = 0; i < count; i++)
        scratch[i] = fabs(cells[i].residual);
    double middle = 1.4826 * median_of(scratch, count); /* of a normal distribution: its sd, as the next */
    double most = scratch[9 * (count - 1) / 10] / 1.645;
    double spread = LEVELLED * (middle > most ? middle : most);
    return spread > SPREAD_LEAST ? spread : SPREAD_LEAST;
}

static double share_above(const struct link_cell *cell, double ns) {
    uint64_t above = 0;
    for (unsigned b = bin_of((uint64_t)ns) + 1; b < LINK_BINS; b++)
        above += cell->bins[b];
    return (double)above / cell->count;
}

/* Whether a cell is slow beyond chance, the clocks' error and what its neighbours have; `tests`: cells in all. */
static bool is_slow_link(const struct links *links, const struct judged *judged, double between, size_t tests,
                         struct slow_link *link) {
    double effect = judged->residual < judged->apart ? judged->residual : judged->apart;
    if (judged->alone || effect < log(LINK_RATIO))
        return false;
    const struct link_cell *cell = judged->cell;
    double worth = (double)cell->count / CORRELATED;
    double error = 1.2533 * judged->spread / sqrt(worth); /* of a median */
    double z = effect / sqrt(between * between + error * error);
    double ratio = exp(effect), extra = judged->median * (1 - 1 / ratio);
    *link = (struct slow_link){.from = cell->from,
                               .to = cell->to,
                               .messages = cell->count,
                               .ratio = ratio,
                               .confidence = 1 - (double)tests * erfc(z / sqrt(2)) / 2,
                               .persistence = share_above(cell, judged->median / ratio * SLOW_RATIO),
                               .extra_ns = (int64_t)(extra * (double)cell->count)};
    return link->confidence >= CONFIDENCE_CLAIM &&
           extra > (double)common_clock_error(links->clock, cell->from, cell->to);
}

static int compare_links(const void *a, const void *b) {
    const struct slow_link *left = a, *right = b;
    if (left->extra_ns != right->extra_ns)
        return left->extra_ns > right->extra_ns ? -1 : 1;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->to < right->to ? -1 : left->to > right->to;
}

static size_t list_cells(const struct links *links, struct judged *cells) {
    size_t count = 0;
    for (size_t i = 0; i < links->room; i++) {
        const struct link_cell *cell = &links->cells[i];
        if (cell->count < LINK_MESSAGES_MIN)
            continue;
        cells[count++] = (struct judged){.cell = cell,
                                         .from_host = links->clock->host_of[cell->from],
                                         .to_host = links->clock->host_of[cell->to],
                                         .median = quantile(cell, 0.5),
                                         .spread = (log(quantile(cell, 0.75)) - log(quantile(cell, 0.25))) / 1.349};
    }
    qsort(cells, count, sizeof *cells, compare_cells);
    return count;
}

/* All cells of one size. Returns how many links it added to `found`. */
static size_t judge_size(const struct links *links, struct judged *cells, size_t count, size_t tests,
                         struct grouped *sorted, double *scratch, struct slow_link *found) {
    size_t added = 0, allowed = count / FLAGGED_SHARE > 2 ? count / FLAGGED_SHARE : 2; /* both directions of one */
    if (count < LINK_PAIRS_MIN)
        return 0;
    level_all(cells, count, sorted, scratch);
    double between = spread_of(cells, count, scratch);
    for (size_t i = 0; i < count; i++)
        added += is_slow_link(links, &cells[i], between, tests, &found[added]);
    return added <= allowed ? added : 0;
}

/* A pair that is slow in several sizes is named once, for the costliest. Sorted by cost. */
static size_t keep_pairs(struct slow_link *found, size_t count, size_t most) {
    size_t kept = 0;
    for (size_t i = 0; i < count && kept < most; i++) {
        bool named = false;
        for (size_t j = 0; j < kept && !named; j++)
            named = found[j].from == found[i].from && found[j].to == found[i].to;
        if (!named)
            found[kept++] = found[i];
    }
    return kept;
}

size_t links_judge(struct links *links, struct slow_link *found, size_t most) {
    if (links->overflow || links->no_memory || links->used < LINK_PAIRS_MIN)
        return 0;
    struct judged *cells = calloc(links->used, sizeof *cells);
    struct grouped *sorted = calloc(links->used, sizeof *sorted);
    double *scratch = calloc(links->used, sizeof *scratch);
    struct slow_link *all = calloc(links->used + 1, sizeof *all); /* one more: where a cell that is not slow is tried */
    size_t kept = 0;
    if (cells && sorted && scratch && all) {
        size_t count = list_cells(links, cells), slow = 0;
        for (size_t i = 0, end; i < count; i = end) {
            for (end = i; end < count && cells[end].cell->size == cells[i].cell->size; end++)
                continue;
            slow += judge_size(links, &cells[i], end - i, count, sorted, scratch, &all[slow]);
        }
        qsort(all, slow, sizeof *all, compare_links);
        kept = keep_pairs(all, slow, most);
        memcpy(found, all, kept * sizeof *found);
    } else {
        links->no_memory = true;
    }
    free(cells);
    free(sorted);
    free(scratch);
    free(all);
    return kept;
}
