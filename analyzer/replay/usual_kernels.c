/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/replay/usual_kernels.h"

#include <stdlib.h>

#include "analyzer/base/statistics.h"

struct pieces {
    const struct replay *replay;
    const uint32_t *peers;
    const bool *mended;
    uint32_t *counts;  /* per dump: its pieces of work */
    size_t *at;        /* per dump: where the next one is looked for */
    int64_t *of_ranks; /* room for one of each */
};

static bool is_piece(const struct replay *replay, size_t node) {
    return replay->nodes[node].kind == REPLAY_KERNELS;
}

static bool pieces_begin(struct pieces *p) {
    size_t dumps = p->replay->dump_count;
    p->counts = calloc(dumps + 1, sizeof *p->counts);
    p->at = malloc((dumps + 1) * sizeof *p->at);
    p->of_ranks = malloc((dumps + 1) * sizeof *p->of_ranks);
    for (size_t d = 0; p->counts && d < dumps; d++)
        for (size_t n = p->replay->first[d]; n < p->replay->first[d + 1]; n++)
            p->counts[d] += is_piece(p->replay, n);
    return p->counts && p->at && p->of_ranks;
}

static void pieces_end(struct pieces *p) {
    free(p->counts);
    free(p->at);
    free(p->of_ranks);
}

/* Whether that rank is one to go by for those of `peers` that are to be mended. */
static bool is_model(const struct pieces *p, size_t dump, uint32_t peers) {
    return p->peers[dump] == peers && !p->mended[dump];
}

/* Whether all that are to be mended have as many pieces as at least half of those to go by; *count: how many. */
static bool have_as_many(const struct pieces *p, uint32_t peers, uint32_t *count) {
    size_t models = 0, same = 0;
    *count = 0;
    for (size_t d = 0; d < p->replay->dump_count; d++) {
        if (p->peers[d] != peers || !p->mended[d])
            continue;
        if (p->counts[d] == 0 || (*count > 0 && p->counts[d] != *count))
            return false;
        *count = p->counts[d];
    }
    for (size_t d = 0; *count > 0 && d < p->replay->dump_count; d++)
        if (is_model(p, d, peers)) {
            models++;
            same += p->counts[d] == *count;
        }
    return same > 0 && 2 * same >= models;
}

/* The dump's next piece. */
static size_t next_piece(const struct pieces *p, size_t dump) {
    size_t n = p->at[dump];
    while (!is_piece(p->replay, n))
        n++;
    p->at[dump] = n + 1;
    return n;
}

static void level_pieces(const struct pieces *p, uint32_t peers, uint32_t count, int64_t *tail_ns) {
    size_t dumps = p->replay->dump_count;
    for (size_t d = 0; d < dumps; d++)
        p->at[d] = p->replay->first[d];
    for (uint32_t k = 0; k < count; k++) {
        size_t others = 0;
        for (size_t d = 0; d < dumps; d++)
            if (is_model(p, d, peers) && p->counts[d] == count)
                p->of_ranks[others++] = p->replay->tail_ns[next_piece(p, d)];
        int64_t usual = median_int64(p->of_ranks, others);
        for (size_t d = 0; d < dumps; d++)
            if (p->peers[d] == peers && p->mended[d])
                tail_ns[next_piece(p, d)] = usual;
    }
}

/* Whether an earlier one of the same peers has been seen to. */
static bool is_first(const struct pieces *p, size_t dump) {
    for (size_t d = 0; d < dump; d++)
        if (p->peers[d] == p->peers[dump] && p->mended[d])
            return false;
    return true;
}

bool usual_kernels_find(const struct replay *replay, const uint32_t *peers, const bool *mended, int64_t *tail_ns,
                        bool *by_number) {
    struct pieces p = {.replay = replay, .peers = peers, .mended = mended};
    bool done = pieces_begin(&p);
    for (size_t d = 0; done && d < replay->dump_count; d++) {
        uint32_t count;
        if (!mended[d] || peers[d] == NOWHERE || !is_first(&p, d) || !have_as_many(&p, peers[d], &count))
            continue;
        level_pieces(&p, peers[d], count, tail_ns);
        for (size_t other = 0; other < replay->dump_count; other++)
            by_number[other] |= peers[other] == peers[d];
    }
    pieces_end(&p);
    return done;
}
