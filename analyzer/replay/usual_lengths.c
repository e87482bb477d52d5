/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/replay/usual_lengths.h"

#include <stdlib.h>

#include "analyzer/base/ns.h"
#include "analyzer/base/statistics.h"
#include "analyzer/match/match.h"

enum {
    QUANTILES = 128,  /* of the parts of the run, by length */
    SHAPE_SLACK = 2,  /* parts by which ranks differ where the record of their runs begins and ends ... */
    SHAPE_SHARE = 16, /* ... and one in so many of samples */
};

/* Where a stretch of that length lies among all. */
struct length {
    uint32_t peers, shape, dump;
    uint32_t at;
    int64_t ns;
};

/* One rank's stretches of one shape: which of the lengths they are. */
struct run {
    size_t first, count;
    uint32_t peers, shape, dump;
};

struct lengths {
    struct work_stretch *stretches;
    size_t count;
    const bool *mended;
    struct length *own, *most; /* the same sorted by own work, and by the most that it can have been */
    struct run *runs;
    size_t run_count;
    int64_t *scratch; /* per rank */
};

static int compare_numbers(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int compare_lengths(const void *a, const void *b) {
    const struct length *left = a, *right = b;
    int order = compare_numbers(left->peers, right->peers);
    order = order ? order : compare_numbers(left->shape, right->shape);
    order = order ? order : compare_numbers(left->dump, right->dump);
    if (!order && left->ns != right->ns)
        return left->ns < right->ns ? -1 : 1;
    return order ? order : compare_numbers(left->at, right->at);
}

static void sort_lengths(struct lengths *l) {
    for (size_t i = 0; i < l->count; i++) {
        const struct work_stretch *s = &l->stretches[i];
        l->own[i] = (struct length){s->peers, s->shape, s->dump, (uint32_t)i, s->own_ns};
        l->most[i] = l->own[i];
        l->most[i].ns = add_ns(s->own_ns, s->hidden_ns);
    }
    qsort(l->own, l->count, sizeof *l->own, compare_lengths);
    qsort(l->most, l->count, sizeof *l->most, compare_lengths);
    l->run_count = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct length *at = &l->own[i];
        struct run *run = l->run_count > 0 ? &l->runs[l->run_count - 1] : NULL;
        if (!run || run->peers != at->peers || run->shape != at->shape || run->dump != at->dump)
            l->runs[l->run_count++] = (struct run){i, 1, at->peers, at->shape, at->dump};
        else
            run->count++;
    }
}

/* The end of the runs from `i` on of the same peers, and of the same shape where that is asked for. */
static size_t end_of(const struct lengths *l, size_t i, bool same_shape) {
    size_t end = i;
    while (end < l->run_count && l->runs[end].peers == l->runs[i].peers &&
           (!same_shape || l->runs[end].shape == l->runs[i].shape))
        end++;
    return end;
}

/* Whether all ranks of [first, end) have all shapes, and about as often. */
static bool have_same_shapes(const struct lengths *l, size_t first, size_t end) {
    size_t ranks = end_of(l, first, true) - first;
    for (size_t i = first, next; i < end; i = next) {
        size_t least = SIZE_MAX, most = 0;
        bool same = true;
        next = end_of(l, i, true);
        for (size_t k = i; k < next; k++) {
            least = l->runs[k].count < least ? l->runs[k].count : least;
            most = l->runs[k].count > most ? l->runs[k].count : most;
            same &= k - i < ranks && l->runs[k].dump == l->runs[first + k - i].dump;
        }
        if (!same || next - i != ranks || most > least + SHAPE_SLACK + least / SHAPE_SHARE)
            return false;
    }
    return true;
}

/* Where ranks do not have the same shapes these tell nothing. Returns whether there are such ranks. */
static bool drop_shapes(struct lengths *l) {
    bool any = false;
    for (size_t i = 0, end; i < l->run_count; i = end) {
        end = end_of(l, i, false);
        if (have_same_shapes(l, i, end))
            continue;
        any = true;
        for (size_t k = l->runs[i].first; k < l->runs[end - 1].first + l->runs[end - 1].count; k++)
            l->stretches[l->own[k].at].shape = 0;
    }
    return any;
}

/* What the peers of [first, end) that are not to be mended usually take, from their shortest parts to their longest:
 * usual[q] is the median of their own quantiles. Returns false where there are none. */
static bool usual_quantiles(const struct lengths *l, size_t first, size_t end, const struct length *lengths,
                            int64_t usual[QUANTILES]) {
    for (size_t q = 0; q < QUANTILES; q++) {
        size_t others = 0;
        for (size_t r = first; r < end; r++)
            if (!l->mended[l->runs[r].dump])
                l->scratch[others++] =
                    lengths[l->runs[r].first + ((size_t)2 * q + 1) * l->runs[r].count / ((size_t)2 * QUANTILES)].ns;
        if (others == 0)
            return false;
        usual[q] = median_int64(l->scratch, others);
    }
    return true;
}

/* The ranks of [first, end) have peers in each other. */
static bool match_runs(const struct lengths *l, size_t first, size_t end) {
    int64_t usual[QUANTILES], most[QUANTILES];
    bool wanted = false;
    for (size_t r = first; r < end; r++)
        wanted |= l->mended[l->runs[r].dump];
    if (!wanted)
        return true;
    if (l->runs[first].peers == NOWHERE || !usual_quantiles(l, first, end, l->own, usual) ||
        !usual_quantiles(l, first, end, l->most, most))
        return false;
    for (size_t r = first; r < end; r++)
        for (size_t k = 0; l->mended[l->runs[r].dump] && k < l->runs[r].count; k++) {
            struct work_stretch *stretch = &l->stretches[l->own[l->runs[r].first + k].at];
            size_t q = (2 * k + 1) * QUANTILES / (2 * l->runs[r].count);
            stretch->usual_ns = stretch->own_ns > most[q]    ? most[q]
                                : stretch->own_ns > usual[q] ? stretch->own_ns
                                                             : usual[q];
        }
    return true;
}

bool usual_lengths_find(struct work_stretch *stretches, size_t count, const bool *mended, size_t dumps, bool *found) {
    struct lengths l = {.stretches = stretches,
                        .count = count,
                        .mended = mended,
                        .own = malloc((count + 1) * sizeof *l.own),
                        .most = malloc((count + 1) * sizeof *l.most),
                        .runs = malloc((count + 1) * sizeof *l.runs),
                        .scratch = malloc((dumps + 1) * sizeof *l.scratch)};
    bool done = l.own && l.most && l.runs && l.scratch;
    *found = true;
    if (done) {
        sort_lengths(&l);
        if (drop_shapes(&l))
            sort_lengths(&l);
    }
    for (size_t i = 0, end; done && *found && i < l.run_count; i = end) {
        end = end_of(&l, i, true);
        *found = match_runs(&l, i, end);
    }
    free(l.own);
    free(l.most);
    free(l.runs);
    free(l.scratch);
    return done;
}
