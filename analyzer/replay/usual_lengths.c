/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/replay/usual_lengths.h"

#include <stdlib.h>

#include "analyzer/base/ns.h"
#include "analyzer/base/radix_sort.h"
#include "analyzer/base/statistics.h"
#include "analyzer/match/match.h"

enum {
    QUANTILES = 128,  /* of the parts of the run, by length */
    SHAPE_SLACK = 2,  /* parts by which ranks differ where the record of their runs begins and ends ... */
    SHAPE_SHARE = 16, /* ... and one in so many of samples */
    STEADY_LEAST = 8, /* parts of a shape of whose median one part that is slow now and then changes little: its
                         standard error is 1.25 / sqrt(8) = 0.44 of theirs (as of a normal distribution) */
    STEADY_SHARE = 8, /* at most one part in so many is of a rarer shape */
};

/* One rank's stretches of one shape. */
struct run {
    size_t first, count;
    uint32_t peers, shape, dump;
    int64_t base_ns; /* mean of what its parts' lengths are compared with */
};

/* One rank's parts among its peers'. */
struct rank_parts {
    size_t all, often; /* often: of shapes that it has often enough to tell how long they usually are */
    size_t shared;     /* of shapes that others have, too */
    int64_t own_ns;
};

struct lengths {
    struct work_stretch *stretches;
    size_t count;
    const bool *mended;
    bool hidden;                 /* some of the work may be */
    struct sort_key *own, *most; /* run by run: which stretches, and where it is asked for sorted by their own work, and
                                    by the most that it can have been */
    struct sort_key *scratch;
    struct run *runs;
    size_t run_count;
    int64_t *of_ranks; /* room for one of each */
    int64_t *base_ns;  /* per stretch: what its length is compared with, 0: with nothing */
    int64_t *values;   /* room for one of each stretch */
    struct rank_parts *ranks;
};

static void list_runs(struct lengths *l) {
    l->run_count = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct work_stretch *at = &l->stretches[l->own[i].index];
        struct run *run = l->run_count > 0 ? &l->runs[l->run_count - 1] : NULL;
        if (!run || run->peers != at->peers || run->shape != at->shape || run->dump != at->dump)
            l->runs[l->run_count++] = (struct run){i, 1, at->peers, at->shape, at->dump, 0};
        else
            run->count++;
    }
}

/* By peers, shape and rank: what counts least comes first. */
static void make_runs(struct lengths *l) {
    for (size_t i = 0; i < l->count; i++) {
        const struct work_stretch *s = &l->stretches[i];
        l->own[i] = (struct sort_key){(uint64_t)s->shape << 32 | s->dump, (uint32_t)i};
        l->hidden |= s->hidden_ns != 0;
    }
    radix_sort(l->own, l->scratch, l->count);
    for (size_t i = 0; i < l->count; i++)
        l->own[i].value = l->stretches[l->own[i].index].peers;
    radix_sort(l->own, l->scratch, l->count);
    list_runs(l);
}

/* Each of the runs [first, end) by length. */
static void sort_runs(struct lengths *l, size_t first, size_t end) {
    for (struct run *run = l->runs + first; run < l->runs + end; run++) {
        struct sort_key *own = l->own + run->first, *most = l->most + run->first;
        int64_t bases = 0;
        for (size_t i = 0; i < run->count; i++) {
            uint32_t index = own[i].index;
            const struct work_stretch *s = &l->stretches[index];
            bases = add_ns(bases, l->base_ns[index]);
            int64_t length = add_ns(s->own_ns, -l->base_ns[index]);
            own[i].value = sort_value(length);
            if (l->hidden)
                most[i] = (struct sort_key){sort_value(add_ns(length, s->hidden_ns)), index};
        }
        run->base_ns = bases / (int64_t)run->count;
        radix_sort(own, l->scratch, run->count);
        if (l->hidden)
            radix_sort(most, l->scratch, run->count);
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

static bool about_as_many(size_t a, size_t b) {
    size_t least = a < b ? a : b, most = a < b ? b : a;
    return most <= least + SHAPE_SLACK + least / SHAPE_SHARE;
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
        if (!same || next - i != ranks || !about_as_many(least, most))
            return false;
    }
    return true;
}

/* ---- ranks that do not do the same ----------------------------------------------------------- */

/* As stages of a pipeline: each of their parts has shapes that come again and again, but the work is spread over them
 * in another way. How much longer one part is than another is then a rank's own, and stays so: what can be compared is
 * how long its parts are altogether, and how far those of a shape are from each other. */

static void count_parts(struct lengths *l, size_t first, size_t end) {
    for (const struct run *run = l->runs + first; run < l->runs + end; run++)
        l->ranks[run->dump] = (struct rank_parts){0};
    for (const struct run *run = l->runs + first; run < l->runs + end; run++) {
        struct rank_parts *rank = &l->ranks[run->dump];
        rank->all += run->count;
        rank->often += run->count >= STEADY_LEAST ? run->count : 0;
        for (size_t i = run->first; i < run->first + run->count; i++)
            rank->own_ns = add_ns(rank->own_ns, l->stretches[l->own[i].index].own_ns);
    }
}

/* Parts of the shapes that somebody has who is not to be mended, among those of the runs of one rank who is: where
 * several streams take turns in all ways these are all, however often which one comes. */
static void count_shared(struct lengths *l, size_t first, size_t end) {
    for (size_t r = first, next; r < end; r = next) {
        bool others = false;
        next = end_of(l, r, true);
        for (size_t k = r; k < next; k++)
            others |= !l->mended[l->runs[k].dump];
        for (size_t k = r; others && k < next; k++)
            l->ranks[l->runs[k].dump].shared += l->runs[k].count;
    }
}

static bool do_other_things(struct lengths *l, size_t first, size_t end) {
    bool any = false;
    count_parts(l, first, end);
    count_shared(l, first, end);
    for (size_t r = first; r < end; r++) {
        const struct rank_parts *rank = &l->ranks[l->runs[r].dump];
        bool mended = l->mended[l->runs[r].dump];
        any |= mended;
        if (rank->often + rank->all / STEADY_SHARE < rank->all ||
            !about_as_many(rank->all, l->ranks[l->runs[first].dump].all) ||
            (mended && rank->shared > rank->all / STEADY_SHARE))
            return false;
    }
    return any;
}

/* Parts are compared with the median of those of their rank and shape; with the rank's mean where these are few. */
static void compare_by_shapes(struct lengths *l, size_t first, size_t end) {
    for (const struct run *run = l->runs + first; run < l->runs + end; run++) {
        const struct rank_parts *rank = &l->ranks[run->dump];
        int64_t base = rank->own_ns / (int64_t)rank->all;
        for (size_t i = 0; i < run->count; i++)
            l->values[i] = l->stretches[l->own[run->first + i].index].own_ns;
        if (run->count >= STEADY_LEAST)
            base = median_unsorted_int64(l->values, run->count);
        for (size_t i = run->first; i < run->first + run->count; i++) {
            l->base_ns[l->own[i].index] = base;
            l->stretches[l->own[i].index].alone = true;
        }
    }
}

/* ---- who has peers --------------------------------------------------------------------------- */

/* Where ranks do not have the same shapes these tell nothing. Returns whether there are such ranks. */
static bool drop_shapes(struct lengths *l) {
    bool any = false;
    for (size_t i = 0, end; i < l->run_count; i = end) {
        end = end_of(l, i, false);
        if (have_same_shapes(l, i, end))
            continue;
        any = true;
        if (do_other_things(l, i, end))
            compare_by_shapes(l, i, end);
        for (size_t k = l->runs[i].first; k < l->runs[end - 1].first + l->runs[end - 1].count; k++)
            l->stretches[l->own[k].index].shape = 0;
    }
    return any;
}

/* What the peers of [first, end) that are not to be mended usually take, from their shortest parts to their longest:
 * usual[q] is the median of their own quantiles. Returns false where there are none. */
static bool usual_quantiles(const struct lengths *l, size_t first, size_t end, const struct sort_key *lengths,
                            int64_t usual[QUANTILES]) {
    for (size_t q = 0; q < QUANTILES; q++) {
        size_t others = 0;
        for (size_t r = first; r < end; r++) {
            size_t at = l->runs[r].first + ((size_t)2 * q + 1) * l->runs[r].count / ((size_t)2 * QUANTILES);
            if (!l->mended[l->runs[r].dump])
                l->of_ranks[others++] = sort_number(lengths[at].value);
        }
        if (others == 0)
            return false;
        usual[q] = median_int64(l->of_ranks, others);
    }
    return true;
}

/* `scale`: how much longer the others' parts are than this rank's. */
static void set_usual(const struct lengths *l, const struct run *run, const int64_t usual[QUANTILES],
                      const int64_t most[QUANTILES], double scale) {
    for (size_t k = 0; k < run->count; k++) {
        uint32_t index = l->own[run->first + k].index;
        struct work_stretch *stretch = &l->stretches[index];
        size_t q = (2 * k + 1) * QUANTILES / (2 * run->count);
        int64_t base = ns_clamped((double)l->base_ns[index] * scale);
        int64_t likely = add_ns(base, usual[q]), longest = add_ns(base, most[q]);
        int64_t length = stretch->own_ns > longest ? longest : stretch->own_ns > likely ? stretch->own_ns : likely;
        stretch->usual_ns = length > 0 ? length : 0; /* times that are rounded give next to no work a sign */
    }
}

/* What the others' parts are compared with, over what this rank's are. */
static double scale_of(const struct lengths *l, size_t first, size_t end, const struct run *run) {
    size_t others = 0;
    if (run->base_ns <= 0)
        return 1;
    for (size_t r = first; r < end; r++)
        if (!l->mended[l->runs[r].dump])
            l->of_ranks[others++] = l->runs[r].base_ns;
    return (double)median_int64(l->of_ranks, others) / (double)run->base_ns;
}

/* The ranks of [first, end) have peers in each other. */
static bool match_runs(struct lengths *l, size_t first, size_t end) {
    int64_t usual[QUANTILES], most[QUANTILES];
    bool wanted = false;
    for (size_t r = first; r < end; r++)
        wanted |= l->mended[l->runs[r].dump];
    if (!wanted)
        return true;
    if (l->runs[first].peers == NOWHERE)
        return false;
    sort_runs(l, first, end);
    if (!usual_quantiles(l, first, end, l->own, usual) ||
        !usual_quantiles(l, first, end, l->hidden ? l->most : l->own, most))
        return false;
    for (size_t r = first; r < end; r++)
        if (l->mended[l->runs[r].dump])
            set_usual(l, &l->runs[r], usual, most, scale_of(l, first, end, &l->runs[r]));
    return true;
}

static bool lengths_begin(struct lengths *l, size_t dumps) {
    l->own = malloc((l->count + 1) * sizeof *l->own);
    l->most = malloc((l->count + 1) * sizeof *l->most);
    l->scratch = malloc((l->count + 1) * sizeof *l->scratch);
    l->runs = malloc((l->count + 1) * sizeof *l->runs);
    l->of_ranks = malloc((dumps + 1) * sizeof *l->of_ranks);
    l->base_ns = calloc(l->count + 1, sizeof *l->base_ns);
    l->values = malloc((l->count + 1) * sizeof *l->values);
    l->ranks = malloc((dumps + 1) * sizeof *l->ranks);
    return l->own && l->most && l->scratch && l->runs && l->of_ranks && l->base_ns && l->values && l->ranks;
}

static void lengths_end(struct lengths *l) {
    free(l->own);
    free(l->most);
    free(l->scratch);
    free(l->runs);
    free(l->of_ranks);
    free(l->base_ns);
    free(l->values);
    free(l->ranks);
}

bool usual_lengths_find(struct work_stretch *stretches, size_t count, const bool *mended, size_t dumps, bool *found) {
    struct lengths l = {.stretches = stretches, .count = count, .mended = mended};
    bool done = lengths_begin(&l, dumps);
    *found = true;
    if (done) {
        make_runs(&l);
        if (drop_shapes(&l))
            make_runs(&l);
    }
    for (size_t i = 0, end; done && *found && i < l.run_count; i = end) {
        end = end_of(&l, i, true);
        *found = match_runs(&l, i, end);
    }
    lengths_end(&l);
    return done;
}
