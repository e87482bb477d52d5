/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/replay/usual_work.h"

#include <stdlib.h>

#include "analyzer/base/statistics.h"

struct usual_kind {
    int64_t sum_ns; /* of what is looked at */
    uint64_t count;
    int64_t usual_ns; /* negative: no peer does it */
    uint64_t known;   /* of the peers with this number less 1; 0: of nobody */
};

bool usual_work_begin(struct usual_work *usual, const struct replay *replay, const struct work_kinds *kinds,
                      const uint32_t *peers, const bool *left_out) {
    *usual = (struct usual_work){.replay = replay,
                                 .kinds = kinds,
                                 .peers = peers,
                                 .left_out = left_out,
                                 .of_kinds = calloc(kinds->nodes.count + 1u, sizeof *usual->of_kinds),
                                 .of_ranks = malloc((replay->dump_count + 1) * sizeof *usual->of_ranks)};
    return usual->of_kinds && usual->of_ranks;
}

void usual_work_free(struct usual_work *usual) {
    free(usual->of_kinds);
    free(usual->of_ranks);
}

/* NULL for the first node of a flow. */
static struct usual_kind *kind_of(const struct usual_work *usual, size_t node) {
    uint32_t kind = usual->kinds->nodes.of[node];
    return kind != NOWHERE ? &usual->of_kinds[kind] : NULL;
}

static int64_t usual_of(const struct usual_work *usual, uint32_t kind, uint32_t peers) {
    size_t others = 0;
    for (size_t i = usual->kinds->first[kind]; i < usual->kinds->first[kind + 1]; i++) {
        const struct rank_work *work = &usual->kinds->works[i];
        if (usual->peers[work->dump] == peers && !usual->left_out[work->dump])
            usual->of_ranks[others++] = work->mean_ns;
    }
    return others > 0 ? median_low_int64(usual->of_ranks, others) : -1;
}

void usual_work_of(struct usual_work *usual, size_t dump) {
    uint32_t peers = usual->peers[dump];
    for (size_t n = usual->replay->first[dump]; n < usual->replay->first[dump + 1]; n++) {
        struct usual_kind *kind = kind_of(usual, n);
        if (!kind || kind->known == (uint64_t)peers + 1)
            continue;
        kind->known = (uint64_t)peers + 1;
        kind->usual_ns = usual_of(usual, usual->kinds->nodes.of[n], peers);
    }
}

static int64_t excess_of(const struct usual_kind *kind) {
    double excess = (double)kind->sum_ns - (double)kind->usual_ns * (double)kind->count;
    return kind->known && kind->usual_ns >= 0 && excess > 0 ? ns_clamped(excess) : 0;
}

int64_t usual_work_excess(struct usual_work *usual, size_t from, size_t to) {
    struct usual_kind *kind;
    int64_t excess = 0;
    for (size_t n = from; n < to; n++)
        if ((kind = kind_of(usual, n))) {
            kind->sum_ns = 0;
            kind->count = 0;
        }
    for (size_t n = from; n < to; n++)
        if ((kind = kind_of(usual, n))) {
            excess = add_ns(excess, -excess_of(kind));
            kind->sum_ns = add_ns(kind->sum_ns, usual->replay->work_ns[n]);
            kind->count++;
            excess = add_ns(excess, excess_of(kind));
        }
    return excess;
}

double usual_work_share(const struct usual_work *usual, size_t node) {
    const struct usual_kind *kind = kind_of(usual, node);
    return kind && kind->sum_ns > 0 ? (double)excess_of(kind) / (double)kind->sum_ns : 0;
}
