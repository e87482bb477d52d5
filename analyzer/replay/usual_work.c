/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/replay/usual_work.h"

#include <stdlib.h>

struct work_kind_key {
    uint64_t before;
};

struct work_kind {
    struct work_kind_key key;
    int64_t sum_ns; /* of what is looked at */
    uint64_t count;
    int64_t usual_ns; /* negative: no peer does it */
};

HASH_TABLE_OF(work_kinds, struct work_kind, struct work_kind_key);

/* One peer's mean of one kind. */
struct work_mean {
    uint64_t before;
    int64_t ns;
};

static struct work_kind *kind_of(const struct usual_work *usual, const struct replay *replay, size_t node) {
    const struct work_kind_key key = {replay->nodes[node].before};
    return key.before != 0 ? work_kinds_find(&usual->kinds, &key) : NULL;
}

static bool list_kinds(struct usual_work *usual, const struct replay *replay, size_t dump) {
    for (size_t n = replay->first[dump]; n < replay->first[dump + 1]; n++) {
        const struct work_kind_key key = {replay->nodes[n].before};
        struct work_kind *kind = key.before != 0 ? work_kinds_add(&usual->kinds, &key) : NULL;
        if (key.before != 0 && !kind)
            return false;
        if (kind)
            kind->usual_ns = -1;
    }
    return true;
}

/* Appends a dump's means. Leaves the sums as it found them: 0. */
static size_t add_means(const struct usual_work *usual, const struct replay *replay, size_t dump,
                        struct work_mean *means, size_t count) {
    struct work_kind *kind;
    for (size_t n = replay->first[dump]; n < replay->first[dump + 1]; n++)
        if ((kind = kind_of(usual, replay, n))) {
            kind->sum_ns = add_ns(kind->sum_ns, replay->work_ns[n]);
            kind->count++;
        }
    for (size_t n = replay->first[dump]; n < replay->first[dump + 1]; n++) {
        kind = kind_of(usual, replay, n);
        if (!kind || kind->count == 0)
            continue;
        means[count++] = (struct work_mean){kind->key.before, kind->sum_ns / (int64_t)kind->count};
        kind->sum_ns = 0;
        kind->count = 0;
    }
    return count;
}

static int compare_means(const void *a, const void *b) {
    const struct work_mean *left = a, *right = b;
    if (left->before != right->before)
        return left->before < right->before ? -1 : 1;
    return (left->ns > right->ns) - (left->ns < right->ns);
}

bool usual_work_find(struct usual_work *usual, const struct replay *replay, size_t dump, const uint32_t *peers,
                     const bool *left_out) {
    struct work_mean *means = malloc((replay->node_count + 1) * sizeof *means);
    size_t count = 0;
    *usual = (struct usual_work){.kinds = {0}};
    bool done = means && list_kinds(usual, replay, dump);
    for (size_t d = 0; done && d < replay->dump_count; d++)
        if (d != dump && peers[d] == peers[dump] && !left_out[d])
            count = add_means(usual, replay, d, means, count);
    if (count > 0)
        qsort(means, count, sizeof *means, compare_means);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && means[end].before == means[i].before; end++)
            ;
        work_kinds_find(&usual->kinds, &(struct work_kind_key){means[i].before})->usual_ns =
            means[i + (end - i - 1) / 2].ns;
    }
    free(means);
    return done;
}

void usual_work_free(struct usual_work *usual) {
    hash_table_free(&usual->kinds);
}

static int64_t excess_of(const struct work_kind *kind) {
    double excess = (double)kind->sum_ns - (double)kind->usual_ns * (double)kind->count;
    return kind->usual_ns >= 0 && excess > 0 ? ns_clamped(excess) : 0;
}

int64_t usual_work_excess(struct usual_work *usual, const struct replay *replay, size_t from, size_t to) {
    struct work_kind *kind;
    int64_t excess = 0;
    for (size_t n = from; n < to; n++)
        if ((kind = kind_of(usual, replay, n)))
            *kind = (struct work_kind){.key = kind->key, .usual_ns = kind->usual_ns};
    for (size_t n = from; n < to; n++)
        if ((kind = kind_of(usual, replay, n))) {
            excess = add_ns(excess, -excess_of(kind));
            kind->sum_ns = add_ns(kind->sum_ns, replay->work_ns[n]);
            kind->count++;
            excess = add_ns(excess, excess_of(kind));
        }
    return excess;
}

double usual_work_share(const struct usual_work *usual, const struct replay *replay, size_t node) {
    const struct work_kind *kind = kind_of(usual, replay, node);
    return kind && kind->sum_ns > 0 ? (double)excess_of(kind) / (double)kind->sum_ns : 0;
}
