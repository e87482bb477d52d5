/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/replay/usual_work.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/statistics.h"

enum {
    TURNS_LEAST = 8, /* parts in which a turn comes before its mean tells what is its own: one that is slow now and then
                        changes it by an eighth of that at most */
    ODD_SHARE = 8,   /* at most one part in so many has another number of nodes */
};

struct usual_kind {
    int64_t sum_ns; /* of what is looked at */
    uint64_t count;
    double weight;    /* of their turns together */
    int64_t usual_ns; /* negative: no peer does it */
    uint64_t known;   /* of which peers that is (learn_kind); 0: of nobody */
    uint32_t turns;   /* the most that a rank has in a part */
    size_t first;     /* of its turns among those of all kinds */
};

struct usual_turn {
    int64_t sum_ns; /* of the rank that is looked at */
    uint32_t count;
    int64_t usual_ns; /* negative: no peer has one */
    double excess_ns; /* of the mean, over that */
};

/* ---- turns --------------------------------------------------------------------------------------------------- */

/* Where the nodes of the segment of list[i] end, of which a rank's list has `count`. */
static uint32_t segment_end(const struct usual_work *usual, const uint32_t *list, uint32_t i, uint32_t count) {
    uint32_t segment = usual->replay->nodes[list[i]].segment;
    while (i < count && usual->replay->nodes[list[i]].segment == segment)
        i++;
    return i;
}

/* How many nodes nearly all parts of a rank have: a number that most have is left over when parts of different ones are
 * struck off in pairs. */
static uint32_t common_size(const struct usual_work *usual, const uint32_t *list, uint32_t count) {
    uint32_t size = 0, left = 0, parts = 0, of_size = 0;
    for (uint32_t i = 0, end; i < count; i = end) {
        end = segment_end(usual, list, i, count);
        size = left == 0 ? end - i : size;
        left = end - i == size ? left + 1 : left - 1;
    }
    for (uint32_t i = 0, end; i < count; i = end) {
        end = segment_end(usual, list, i, count);
        parts++;
        of_size += end - i == size;
    }
    return of_size >= parts - parts / ODD_SHARE ? size : 0;
}

/* Which places in its parts are the shortest up to the longest for a rank, on average: place_of[i] of the i-th node of
 * a part of so many. In each part for itself, two that are about as long would take each other's place now and then. */
static void order_places(struct usual_work *usual, const uint32_t *list, uint32_t count, uint32_t size,
                         uint32_t *place_of) {
    int64_t *sums = usual->means;
    memset(sums, 0, size * sizeof *sums);
    for (uint32_t i = 0, end; i < count; i = end) {
        end = segment_end(usual, list, i, count);
        for (uint32_t k = i; k < end && end - i == size; k++)
            sums[k - i] = add_ns(sums[k - i], usual->replay->work_ns[list[k]]);
    }
    for (uint32_t k = 0; k < size; k++)
        usual->keys[k] = (struct sort_key){sort_value(sums[k]), k};
    radix_sort(usual->keys, usual->scratch, size);
    for (uint32_t k = 0; k < size; k++)
        place_of[usual->keys[k].index] = k;
}

/* A kind's nodes come dump by dump, each dump's in the order of time. Returns the most turns of a part. */
static uint32_t number_turns(struct usual_work *usual, const struct rank_work *work) {
    const uint32_t *list = usual->kinds->nodes.list + work->begin;
    uint32_t most = 0, size = usual->pieces ? common_size(usual, list, work->count) : 0;
    if (usual->pieces) {
        usual->pieces[work->dump] = size;
        order_places(usual, list, work->count, size, usual->place_of);
    }
    for (uint32_t i = 0, end; i < work->count; i = end) {
        end = segment_end(usual, list, i, work->count);
        bool counts = !usual->pieces || end - i == size;
        for (uint32_t k = i; k < end; k++)
            usual->turn_of[list[k]] = !counts ? NOWHERE : usual->pieces ? usual->place_of[k - i] : k - i;
        most = end - i > most ? end - i : most;
    }
    return most;
}

static void number_all_turns(struct usual_work *usual) {
    size_t first = 0;
    for (uint32_t k = 0; k < usual->kinds->nodes.count; k++) {
        struct usual_kind *kind = &usual->of_kinds[k];
        for (size_t w = usual->kinds->first[k]; w < usual->kinds->first[k + 1]; w++) {
            uint32_t turns = number_turns(usual, &usual->kinds->works[w]);
            kind->turns = turns > kind->turns ? turns : kind->turns;
        }
        kind->first = first;
        first += kind->turns;
    }
}

/* What a rank takes for each turn of a kind. */
static void sum_turns(struct usual_work *usual, const struct usual_kind *kind, const struct rank_work *work) {
    struct usual_turn *turns = usual->turns + kind->first;
    for (uint32_t t = 0; t < kind->turns; t++) {
        turns[t].sum_ns = 0;
        turns[t].count = 0;
    }
    for (uint32_t i = work->begin; i < work->begin + work->count; i++) {
        uint32_t node = usual->kinds->nodes.list[i], turn = usual->turn_of[node];
        if (turn == NOWHERE)
            continue;
        turns[turn].sum_ns = add_ns(turns[turn].sum_ns, usual->replay->work_ns[node]);
        turns[turn].count++;
    }
}

/* Whether a rank is one to go by for `dump`. */
static bool is_model(const struct usual_work *usual, const struct rank_work *work, size_t dump) {
    return usual->peers[work->dump] == usual->peers[dump] && !usual->left_out[work->dump] &&
           (!usual->pieces || (usual->pieces[dump] > 0 && usual->pieces[work->dump] == usual->pieces[dump]));
}

/* The means of all peers, turn by turn; returns how many. */
static size_t list_means(struct usual_work *usual, uint32_t k, size_t dump) {
    const struct usual_kind *kind = &usual->of_kinds[k];
    size_t count = 0;
    for (size_t w = usual->kinds->first[k]; w < usual->kinds->first[k + 1]; w++) {
        if (!is_model(usual, &usual->kinds->works[w], dump))
            continue;
        sum_turns(usual, kind, &usual->kinds->works[w]);
        for (uint32_t t = 0; t < kind->turns; t++) {
            const struct usual_turn *turn = &usual->turns[kind->first + t];
            if (turn->count == 0)
                continue;
            usual->means[count] = turn->sum_ns / turn->count;
            usual->keys[count] = (struct sort_key){t, (uint32_t)count};
            count++;
        }
    }
    radix_sort(usual->keys, usual->scratch, count);
    return count;
}

static void find_usual_turns(struct usual_work *usual, uint32_t k, size_t dump) {
    struct usual_turn *turns = usual->turns + usual->of_kinds[k].first;
    size_t count = list_means(usual, k, dump);
    for (uint32_t t = 0; t < usual->of_kinds[k].turns; t++)
        turns[t].usual_ns = -1;
    for (size_t i = 0; i < count;) {
        size_t others = 0;
        struct usual_turn *turn = &turns[usual->keys[i].value];
        for (; i < count && &turns[usual->keys[i].value] == turn; i++)
            usual->of_ranks[others++] = usual->means[usual->keys[i].index];
        turn->usual_ns = median_low_int64(usual->of_ranks, others);
    }
}

/* What turns take more than this is the kind's excess: what some take less by chance others take more by chance. */
static double level_of(const struct usual_turn *turns, uint32_t count, double excess) {
    double level = -1, next = 0;
    while (next > level) {
        double sum = 0, turned = 0;
        level = next;
        for (uint32_t t = 0; t < count; t++)
            if (turns[t].excess_ns > level) {
                sum += turns[t].excess_ns * turns[t].count;
                turned += turns[t].count;
            }
        next = turned > 0 ? (sum - excess) / turned : level;
    }
    return level;
}

/* Before which turns the rank takes longer than its peers. */
static void weigh_turns(struct usual_work *usual, const struct usual_kind *kind, const struct rank_work *work) {
    struct usual_turn *turns = usual->turns + kind->first;
    double excess = 0, mean = (double)work->mean_ns - (double)kind->usual_ns;
    sum_turns(usual, kind, work);
    for (uint32_t t = 0; t < kind->turns; t++) {
        bool told = turns[t].count >= TURNS_LEAST && turns[t].usual_ns >= 0;
        int64_t own = told ? turns[t].sum_ns / turns[t].count : 0;
        turns[t].excess_ns = told ? (double)(own - turns[t].usual_ns) : mean;
        excess += turns[t].excess_ns * turns[t].count;
    }
    double level = excess > 0 ? level_of(turns, kind->turns, excess) : 0;
    for (uint32_t i = work->begin; i < work->begin + work->count; i++) {
        uint32_t node = usual->kinds->nodes.list[i], turn = usual->turn_of[node];
        double weight = turn != NOWHERE ? turns[turn].excess_ns - level : 0;
        usual->weight[node] = excess > 0 && weight > 0 ? weight : 0;
    }
}

/* ---- kinds --------------------------------------------------------------------------------------------------- */

bool usual_work_begin(struct usual_work *usual, const struct replay *replay, const struct work_kinds *kinds,
                      const uint32_t *peers, const bool *left_out, bool by_length) {
    size_t room = replay->node_count + 1;
    *usual = (struct usual_work){.replay = replay,
                                 .kinds = kinds,
                                 .peers = peers,
                                 .left_out = left_out,
                                 .of_kinds = calloc(kinds->nodes.count + 1u, sizeof *usual->of_kinds),
                                 .turns = malloc(room * sizeof *usual->turns),
                                 .turn_of = calloc(room, sizeof *usual->turn_of),
                                 .pieces = by_length ? calloc(replay->dump_count + 1, sizeof *usual->pieces) : NULL,
                                 .place_of = by_length ? malloc(room * sizeof *usual->place_of) : NULL,
                                 .weight = calloc(room, sizeof *usual->weight),
                                 .of_ranks = malloc((replay->dump_count + 1) * sizeof *usual->of_ranks),
                                 .means = malloc(room * sizeof *usual->means),
                                 .keys = malloc(room * sizeof *usual->keys),
                                 .scratch = malloc(room * sizeof *usual->scratch)};
    if (!usual->of_kinds || !usual->turns || !usual->turn_of || !usual->weight || !usual->of_ranks || !usual->means ||
        !usual->keys || !usual->scratch || (by_length && (!usual->pieces || !usual->place_of)))
        return false;
    number_all_turns(usual);
    return true;
}

void usual_work_free(struct usual_work *usual) {
    free(usual->of_kinds);
    free(usual->turns);
    free(usual->turn_of);
    free(usual->pieces);
    free(usual->place_of);
    free(usual->weight);
    free(usual->of_ranks);
    free(usual->means);
    free(usual->keys);
    free(usual->scratch);
}

/* NULL for the first node of a flow. */
static struct usual_kind *kind_of(const struct usual_work *usual, size_t node) {
    uint32_t kind = usual->kinds->nodes.of[node];
    return kind != NOWHERE ? &usual->of_kinds[kind] : NULL;
}

static int64_t usual_of(const struct usual_work *usual, uint32_t kind, size_t dump) {
    size_t others = 0;
    for (size_t i = usual->kinds->first[kind]; i < usual->kinds->first[kind + 1]; i++)
        if (is_model(usual, &usual->kinds->works[i], dump))
            usual->of_ranks[others++] = usual->kinds->works[i].mean_ns;
    return others > 0 ? median_low_int64(usual->of_ranks, others) : -1;
}

/* By length, which peers are gone by depends on how many pieces the dump's parts have. */
static void learn_kind(struct usual_work *usual, uint32_t k, size_t dump) {
    struct usual_kind *kind = &usual->of_kinds[k];
    uint64_t known = ((uint64_t)usual->peers[dump] << 32 | (usual->pieces ? usual->pieces[dump] : 0)) + 1;
    if (kind->known == known)
        return;
    kind->known = known;
    kind->usual_ns = usual_of(usual, k, dump);
    if (kind->usual_ns >= 0)
        find_usual_turns(usual, k, dump);
}

/* The dump's work of a kind; NULL: it has none. Works of a kind come in the order of dumps. */
static const struct rank_work *work_of(const struct work_kinds *kinds, uint32_t kind, size_t dump) {
    size_t low = kinds->first[kind], end = kinds->first[kind + 1], high = end;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kinds->works[middle].dump < dump)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && kinds->works[low].dump == dump ? &kinds->works[low] : NULL;
}

void usual_work_of(struct usual_work *usual, size_t dump) {
    for (uint32_t k = 0; k < usual->kinds->nodes.count; k++) {
        const struct rank_work *work = work_of(usual->kinds, k, dump);
        if (!work)
            continue;
        learn_kind(usual, k, dump);
        if (usual->of_kinds[k].usual_ns >= 0)
            weigh_turns(usual, &usual->of_kinds[k], work);
    }
}

/* ---- what is beyond it --------------------------------------------------------------------------------------- */

static double excess_of(const struct usual_kind *kind) {
    double excess = (double)kind->sum_ns - (double)kind->usual_ns * (double)kind->count;
    return kind->known && kind->usual_ns >= 0 && excess > 0 ? excess : 0;
}

/* Of turns of which none takes longer as a rule all work alike is excess. */
static double node_excess(const struct usual_work *usual, size_t node) {
    const struct usual_kind *kind = kind_of(usual, node);
    double work = (double)usual->replay->work_ns[node];
    if (!kind || work <= 0)
        return 0;
    double share = kind->weight > 0 ? usual->weight[node] / kind->weight : work / (double)kind->sum_ns;
    double excess = excess_of(kind) * share;
    return excess < work ? excess : work;
}

int64_t usual_work_excess(struct usual_work *usual, size_t from, size_t to) {
    struct usual_kind *kind;
    double excess = 0;
    for (size_t n = from; n < to; n++)
        if ((kind = kind_of(usual, n))) {
            kind->sum_ns = 0;
            kind->count = 0;
            kind->weight = 0;
        }
    for (size_t n = from; n < to; n++)
        if ((kind = kind_of(usual, n))) {
            kind->sum_ns = add_ns(kind->sum_ns, usual->replay->work_ns[n]);
            kind->count++;
            kind->weight += usual->weight[n];
        }
    for (size_t n = from; n < to; n++)
        excess += node_excess(usual, n);
    return ns_clamped(excess);
}

double usual_work_share(const struct usual_work *usual, size_t node) {
    double work = (double)usual->replay->work_ns[node];
    return work > 0 ? node_excess(usual, node) / work : 0;
}
