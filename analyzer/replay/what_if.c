/* SPDX-License-Identifier: Apache-2.0
 *
 * How much faster the job would be.
 * Lives here: ideal durations, the worst ranks, call sites, mending ranks and links.
 * Must not live here: the replay, who is suspected.
 */
#include "analyzer/replay/what_if.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/hash.h"
#include "analyzer/base/radix_sort.h"
#include "analyzer/base/statistics.h"
#include "analyzer/replay/usual_kernels.h"
#include "analyzer/replay/usual_lengths.h"
#include "analyzer/replay/usual_work.h"

enum {
    DELAY_RATIO = 4,  /* where work is named, a transfer this many times the usual has waited for something unnamed */
    SITE_SHARE = 100, /* work beyond the peers' of at least one hundredth of the time is worth a replay */
};

#define SITE_RATIO    1.05  /* from here on a rank takes longer than its peers */
#define SHARE_LEAST   1.005 /* below this slowdown there is nothing to share out */
#define SPEEDUP_LEAST 1.005

/* Durations to be replayed. */
struct durations {
    int64_t *work, *tail; /* per node */
};

static bool durations_copy(struct durations *durations, const struct replay *replay) {
    size_t bytes = (replay->node_count + 1) * sizeof *durations->work;
    *durations = (struct durations){malloc(bytes), malloc(bytes)};
    if (!durations->work || !durations->tail)
        return false;
    memcpy(durations->work, replay->work_ns, bytes - sizeof *durations->work);
    memcpy(durations->tail, replay->tail_ns, bytes - sizeof *durations->tail);
    return true;
}

static void durations_free(struct durations *durations) {
    free(durations->work);
    free(durations->tail);
}

/* At least 1; negative when memory was short. What a hole would have been shorter by is taken from the time that is
 * known, at the same rate. */
static double speedup(const struct replay *replay, const struct durations *durations) {
    int64_t time = replay_run(replay, durations->work, durations->tail);
    if (time < 0)
        return -1;
    double saved = (double)(replay->wall_ns - time) * (1 + replay->missing_ratio);
    double run = (double)replay->wall_ns + (double)replay->missing_ns;
    return saved > 0 && saved < run ? run / (run - saved) : 1;
}

/* ---- what is alike --------------------------------------------------------------------------- */

static bool own_tail_key(const struct replay *replay, size_t node, uint64_t *key) {
    *key = replay->nodes[node].signature;
    return replay_is_work(replay->nodes[node].kind);
}

/* What a Wait waits for is told by what was before it. */
static bool transfer_key(const struct replay *replay, size_t node, uint64_t *key) {
    const struct replay_node *at = &replay->nodes[node];
    *key = at->kind == REPLAY_WAIT ? (uint64_t)at->before << 32 : at->signature;
    return !replay_is_work(at->kind);
}

/* Every duration becomes the mean, or the median, of its group. `scratch` has room for all nodes. */
static void level_groups(int64_t *durations, const struct alike *groups, bool by_median, int64_t *scratch) {
    for (uint32_t g = 0; g < groups->count; g++) {
        const uint32_t *nodes = groups->list + groups->first[g];
        size_t count = alike_size(groups, g);
        double sum = 0;
        for (size_t i = 0; i < count; i++) {
            scratch[i] = durations[nodes[i]];
            sum += (double)scratch[i];
        }
        int64_t common = by_median ? median_unsorted_int64(scratch, count) : ns_clamped(sum / (double)count);
        for (size_t i = 0; i < count; i++)
            durations[nodes[i]] = common;
    }
}

/* ---- what nothing explains ------------------------------------------------------------------------ */

/* Dumps all of whose own work has names. A profiler's trace names that of a GPU alone: where this lies idle, its rank
 * may be late by itself. */
static bool names_work(const struct replay *replay, size_t dump) {
    for (size_t n = replay->first[dump]; n < replay->first[dump + 1]; n++)
        if (replay->nodes[n].kind == REPLAY_WORK)
            return true;
    return false;
}

static bool cut_transfers(struct replay *replay, const bool *named) {
    struct alike groups;
    int64_t *scratch = malloc((replay->node_count + 1) * sizeof *scratch);
    bool done = alike_find(&groups, replay, transfer_key) && scratch;
    for (uint32_t g = 0; done && g < groups.count; g++) {
        const uint32_t *nodes = groups.list + groups.first[g];
        size_t count = alike_size(&groups, g);
        for (size_t i = 0; i < count; i++)
            scratch[i] = replay->tail_ns[nodes[i]];
        int64_t most = median_unsorted_int64(scratch, count);
        most = most > 0 && most < NS_MOST / DELAY_RATIO ? most * DELAY_RATIO : most;
        for (size_t i = 0; i < count; i++)
            if (named[replay->nodes[nodes[i]].flow] && replay->tail_ns[nodes[i]] > most)
                replay->tail_ns[nodes[i]] = most;
    }
    free(scratch);
    alike_free(&groups);
    return done;
}

/* Leaves out delays that nothing explains. */
static bool leave_out_delays(struct replay *replay) {
    bool *named = calloc(replay->flow_count + 1, sizeof *named), any = false;
    if (!named)
        return false;
    for (size_t d = 0; d < replay->dump_count; d++) {
        if (!names_work(replay, d))
            continue;
        any = true;
        for (size_t n = replay->first[d]; n < replay->first[d + 1]; n++) {
            named[replay->nodes[n].flow] = true;
            replay->work_ns[n] = 0;
        }
    }
    bool done = !any || cut_transfers(replay, named);
    free(named);
    if (done && any)
        replay->wall_ns = replay_run(replay, replay->work_ns, replay->tail_ns);
    return done && replay->wall_ns > 0;
}

bool what_if_prepare(struct what_if_basis *basis, struct replay *replay) {
    *basis = (struct what_if_basis){.replay = replay};
    return leave_out_delays(replay) && work_kinds_find(&basis->work, replay);
}

void what_if_free(struct what_if_basis *basis) {
    work_kinds_free(&basis->work);
}

/* ---- everybody alike ------------------------------------------------------------------------- */

static bool level_tails(struct durations *ideal, const struct replay *replay, alike_key *key, bool by_median,
                        int64_t *scratch) {
    struct alike groups;
    bool done = alike_find(&groups, replay, key);
    if (done)
        level_groups(ideal->tail, &groups, by_median, scratch);
    alike_free(&groups);
    return done;
}

static bool level_all(struct durations *ideal, const struct what_if_basis *basis) {
    int64_t *scratch = malloc((basis->replay->node_count + 1) * sizeof *scratch);
    if (!scratch)
        return false;
    level_groups(ideal->work, &basis->work.nodes, false, scratch);
    bool done = level_tails(ideal, basis->replay, own_tail_key, false, scratch) &&
                level_tails(ideal, basis->replay, transfer_key, true, scratch);
    free(scratch);
    return done;
}

struct rank_excess {
    int64_t ns;
    size_t dump;
};

static int compare_excesses(const void *a, const void *b) {
    const struct rank_excess *left = a, *right = b;
    if (left->ns != right->ns)
        return left->ns > right->ns ? -1 : 1;
    return (left->dump > right->dump) - (left->dump < right->dump);
}

/* Ranks by how much longer their work and transfers take than the ideal ones. */
static struct rank_excess *worst_first(const struct replay *replay, const struct durations *ideal, size_t *ranks) {
    struct rank_excess *excesses = calloc(replay->dump_count + 1, sizeof *excesses);
    *ranks = 0;
    for (size_t d = 0; excesses && d < replay->dump_count; d++) {
        if (replay->first[d] == replay->first[d + 1])
            continue;
        struct rank_excess *excess = &excesses[(*ranks)++];
        excess->dump = d;
        for (size_t n = replay->first[d]; n < replay->first[d + 1]; n++)
            excess->ns =
                add_ns(excess->ns, add_ns(replay->work_ns[n] - ideal->work[n], replay->tail_ns[n] - ideal->tail[n]));
    }
    if (excesses)
        qsort(excesses, *ranks, sizeof *excesses, compare_excesses);
    return excesses;
}

static bool measure_share(struct what_if *what_if, const struct replay *replay, const struct durations *ideal) {
    size_t ranks;
    struct durations mended;
    struct rank_excess *worst = worst_first(replay, ideal, &ranks);
    bool done = durations_copy(&mended, replay) && worst;
    if (done) {
        what_if->worst_workers = (ranks * WHAT_IF_WORST_PERCENT + 99) / 100;
        for (size_t i = 0; i < what_if->worst_workers; i++)
            for (size_t n = replay->first[worst[i].dump]; n < replay->first[worst[i].dump + 1]; n++) {
                mended.work[n] = ideal->work[n];
                mended.tail[n] = ideal->tail[n];
            }
        double faster = speedup(replay, &mended);
        done = faster > 0;
        /* like their peers some ranks would take longer than they do: without that the worst may give more than all */
        what_if->worst_workers_share = fmin(1, (1 - 1 / faster) / (1 - 1 / what_if->slowdown));
    }
    free(worst);
    durations_free(&mended);
    return done;
}

bool what_if_measure_slowdown(struct what_if *what_if, const struct what_if_basis *basis) {
    const struct replay *replay = basis->replay;
    struct durations ideal;
    bool done = durations_copy(&ideal, replay) && level_all(&ideal, basis);
    if (done) {
        what_if->slowdown = speedup(replay, &ideal);
        done = what_if->slowdown > 0;
    }
    if (done && what_if->slowdown >= SHARE_LEAST)
        done = measure_share(what_if, replay, &ideal);
    durations_free(&ideal);
    return done;
}

/* ---- somebody mended ------------------------------------------------------------------------- */

/* Whether a node's tail is own work that is looked at stretch by stretch. */
static bool tail_counts(const struct replay *replay, size_t node, bool by_number) {
    enum replay_kind kind = (enum replay_kind)replay->nodes[node].kind;
    return replay_is_work(kind) && !(by_number && kind == REPLAY_KERNELS);
}

/* What of a node is its rank's own work, pieces that are compared by their number (usual_kernels.h) left out. */
static int64_t own_work(const struct replay *replay, size_t node, bool by_number) {
    return add_ns(replay->work_ns[node], tail_counts(replay, node, by_number) ? replay->tail_ns[node] : 0);
}

/* Those of one dump lie side by side, by part. */
struct stretches {
    struct work_stretch *items;
    size_t count;
};

/* What mending needs room for. */
struct mending {
    struct durations durations;
    struct stretches stretches;
    bool *mended;    /* per dump */
    bool *by_number; /* per dump: its GPU's pieces of work are compared with its peers' one by one */
};

static uint32_t part_of(const struct replay *replay, size_t node, const struct what_if_mend *mend) {
    unsigned collectives = mend->collectives > 0 ? mend->collectives : 1;
    return (replay->nodes[node].segment + collectives - mend->begin) / collectives;
}

static bool list_stretches(struct mending *m, const struct what_if_basis *basis, const uint32_t *peers,
                           const struct what_if_mend *mend) {
    const struct replay *replay = basis->replay;
    struct stretches *stretches = &m->stretches;
    stretches->count = 0;
    for (size_t d = 0; d < replay->dump_count; d++)
        for (size_t n = replay->first[d]; n < replay->first[d + 1]; n++) {
            uint32_t part = part_of(replay, n, mend);
            if (n == replay->first[d] || stretches->items[stretches->count - 1].part != part)
                stretches->items[stretches->count++] =
                    (struct work_stretch){.part = part, .peers = peers[d], .dump = (uint32_t)d, .usual_ns = -1};
            struct work_stretch *stretch = &stretches->items[stretches->count - 1];
            stretch->own_ns = add_ns(stretch->own_ns, own_work(replay, n, m->by_number[d]));
            if (!m->by_number[d]) /* else all of its GPU's work is on record */
                stretch->hidden_ns = add_ns(stretch->hidden_ns, work_kinds_hidden(&basis->work, n));
            uint64_t called = (uint64_t)replay->nodes[n].role << 32 | replay->nodes[n].before;
            stretch->shape = (uint32_t)hash_mix(hash_scramble(stretch->shape), called);
        }
    return stretches->count > 0;
}

/* Of one part of all peers, by part. */
static void sort_by_part(struct sort_key *keys, struct sort_key *scratch, const struct stretches *stretches) {
    for (size_t i = 0; i < stretches->count; i++)
        keys[i] = (struct sort_key){(uint64_t)stretches->items[i].part << 32 | stretches->items[i].peers, (uint32_t)i};
    radix_sort(keys, scratch, stretches->count);
}

/* Parts in which a rank stands out come down to the median of all of its peers. */
static bool cut_peaks(const struct stretches *stretches, const bool *mended, double now_and_then) {
    struct work_stretch *items = stretches->items;
    struct sort_key *keys = malloc((stretches->count + 1) * sizeof *keys);
    struct sort_key *scratch = malloc((stretches->count + 1) * sizeof *scratch);
    int64_t *lengths = malloc((stretches->count + 1) * sizeof *lengths);
    bool done = keys && scratch && lengths;
    if (done)
        sort_by_part(keys, scratch, stretches);
    for (size_t i = 0; done && i < stretches->count;) {
        size_t end = i;
        for (; end < stretches->count && keys[end].value == keys[i].value; end++)
            lengths[end - i] = items[keys[end].index].own_ns;
        int64_t usual = median_int64(lengths, end - i);
        for (; i < end; i++) {
            struct work_stretch *item = &items[keys[i].index];
            if (item->peers != NOWHERE && (double)item->own_ns > now_and_then * (double)usual && mended[item->dump])
                item->usual_ns = usual;
        }
    }
    free(keys);
    free(scratch);
    free(lengths);
    return done;
}

/* Node by node. */
static void scale_part(struct mending *m, struct usual_work *usual, size_t dump, size_t from, size_t to, double share,
                       double factor) {
    for (size_t n = from; n < to; n++) {
        if (share > 0)
            m->durations.work[n] = ns_clamped((double)m->durations.work[n] * (1 - share * usual_work_share(usual, n)));
        m->durations.work[n] = ns_clamped((double)m->durations.work[n] * factor);
        if (tail_counts(usual->replay, n, m->by_number[dump]))
            m->durations.tail[n] = ns_clamped((double)m->durations.tail[n] * factor);
    }
}

/* Takes what a part is to be shorter by from where it takes longer than its peers do, and only what is left of it from
 * all of its work alike: before another call it would hold up others. [from, to): its nodes. */
static void mend_part(struct mending *m, struct usual_work *usual, const struct work_stretch *stretch, size_t from,
                      size_t to) {
    int64_t saved = stretch->own_ns - stretch->usual_ns;
    int64_t excess = saved > 0 ? usual_work_excess(usual, from, to) : 0;
    if (excess > stretch->own_ns) /* wrong clocks make work negative */
        excess = 0;
    double share = excess > saved ? (double)saved / (double)excess : 1;
    int64_t rest = stretch->own_ns - excess;
    double factor = excess > 0 && excess >= saved ? 1 : rest > 0 ? (double)stretch->usual_ns / (double)rest : 0;
    scale_part(m, usual, stretch->dump, from, to, excess > 0 ? share : 0, factor);
}

static void mend_dump(struct mending *m, struct usual_work *usual, const struct work_stretch *stretch,
                      const struct what_if_mend *mend) {
    const struct replay *replay = usual->replay;
    size_t end = replay->first[stretch->dump + 1];
    for (size_t n = replay->first[stretch->dump], to; n < end; n = to, stretch++) {
        for (to = n; to < end && part_of(replay, to, mend) == stretch->part; to++)
            ;
        if (stretch->usual_ns >= 0 && stretch->own_ns > 0)
            mend_part(m, usual, stretch, n, to);
    }
}

/* `peers`: as the stretches were listed. Of those to be mended that do what others do, or of the others: `alone`. */
static bool mend_some(struct mending *m, const struct what_if_basis *basis, const struct work_kinds *kinds,
                      const uint32_t *peers, const struct what_if_mend *mend, bool alone) {
    const struct work_stretch *items = m->stretches.items;
    struct usual_work usual;
    bool done = usual_work_begin(&usual, basis->replay, kinds, peers, m->mended, alone);
    for (size_t i = 0; done && i < m->stretches.count; i++) {
        if (!m->mended[items[i].dump] || items[i].alone != alone || (i > 0 && items[i - 1].dump == items[i].dump))
            continue;
        if (mend->now_and_then <= 0) /* who is slow now and then is, on the whole, as fast before every call */
            usual_work_of(&usual, items[i].dump);
        mend_dump(m, &usual, &items[i], mend);
    }
    usual_work_free(&usual);
    return done;
}

static bool is_any_alone(const struct mending *m) {
    for (size_t i = 0; i < m->stretches.count; i++)
        if (m->stretches.items[i].alone && m->mended[m->stretches.items[i].dump])
            return true;
    return false;
}

static bool mend_stretches(struct mending *m, const struct what_if_basis *basis, const uint32_t *peers,
                           const struct what_if_mend *mend) {
    struct work_kinds one = {0};
    bool done = mend_some(m, basis, &basis->work, peers, mend, false);
    if (done && is_any_alone(m))
        done = work_kinds_find_one(&one, basis->replay) && mend_some(m, basis, &one, peers, mend, true);
    work_kinds_free(&one);
    return done;
}

static bool mending_begin(struct mending *mending, const struct replay *replay) {
    size_t room = (replay->node_count > replay->dump_count ? replay->node_count : replay->dump_count) + 1;
    *mending = (struct mending){.stretches.items = calloc(room, sizeof *mending->stretches.items),
                                .mended = calloc(replay->dump_count + 1, sizeof *mending->mended),
                                .by_number = calloc(replay->dump_count + 1, sizeof *mending->by_number)};
    return durations_copy(&mending->durations, replay) && mending->stretches.items && mending->mended &&
           mending->by_number;
}

static void mending_end(struct mending *mending) {
    free(mending->stretches.items);
    free(mending->mended);
    free(mending->by_number);
    durations_free(&mending->durations);
}

static void mark_mended(struct mending *m, const struct what_if_mend *mend) {
    for (size_t i = 0; i < mend->count; i++)
        m->mended[mend->dumps[i]] = true;
}

/* What those who are to be mended take where they are like their peers. */
static bool find_usual(struct mending *m, const struct what_if_basis *basis, const uint32_t *peers,
                       const struct what_if_mend *mend, bool *found) {
    const struct replay *replay = basis->replay;
    return usual_kernels_find(replay, peers, m->mended, m->durations.tail, m->by_number) &&
           (!(*found = list_stretches(m, basis, peers, mend)) ||
            usual_lengths_find(m->stretches.items, m->stretches.count, m->mended, replay->dump_count, found));
}

/* Before it is asked of other peers. */
static void forget_numbers(struct mending *m, const struct replay *replay) {
    memcpy(m->durations.tail, replay->tail_ns, replay->node_count * sizeof *m->durations.tail);
    memset(m->by_number, 0, replay->dump_count * sizeof *m->by_number);
}

static bool mend_ranks(struct mending *m, const struct what_if_basis *basis, const struct what_if_peers *peers,
                       const struct what_if_mend *mend) {
    const uint32_t *among = peers->classes;
    bool found, done;
    mark_mended(m, mend);
    if (mend->now_and_then > 0) {
        found = list_stretches(m, basis, among, mend);
        done = !found || cut_peaks(&m->stretches, m->mended, mend->now_and_then);
    } else {
        done = find_usual(m, basis, among, mend, &found);
        if (done && !found) { /* a whole rank class */
            among = peers->comparison_groups;
            forget_numbers(m, basis->replay);
            done = find_usual(m, basis, among, mend, &found);
        }
        if (!found)
            forget_numbers(m, basis->replay);
    }
    return done && (!found || mend_stretches(m, basis, among, mend));
}

double what_if_mended(const struct what_if_basis *basis, const struct what_if_peers *peers,
                      const struct what_if_mend *mend) {
    struct mending mending;
    double faster = -1;
    if (mending_begin(&mending, basis->replay) && mend_ranks(&mending, basis, peers, mend))
        faster = speedup(basis->replay, &mending.durations);
    mending_end(&mending);
    return faster;
}

static bool is_between(const struct what_if_ends *ends, uint32_t from, uint32_t to) {
    uint32_t a = ends->host_of ? ends->host_of[from] : from, b = ends->host_of ? ends->host_of[to] : to;
    if (ends->from == ends->to)
        return (a == ends->from) != (b == ends->from);
    return (a == ends->from && b == ends->to) || (ends->both && a == ends->to && b == ends->from);
}

/* A message that is waited for may have been under way before: what of its transfer is saved comes off what is left at
 * the end. */
static int64_t mended_tail(const struct replay *replay, size_t node, int64_t come, double ratio) {
    int64_t tail = replay->tail_ns[node], transfer = tail;
    if (replay->nodes[node].kind == REPLAY_WAIT && come > INT64_MIN)
        transfer = replay->nodes[node].leave - come;
    int64_t saved = transfer > 0 ? ns_clamped((double)transfer * (1 - 1 / ratio)) : 0;
    return tail <= 0 ? tail : saved < tail ? tail - saved : 0;
}

double what_if_link(const struct what_if_basis *basis, const struct what_if_ends *ends, double ratio) {
    const struct replay *replay = basis->replay;
    struct durations durations;
    int64_t *come = replay_arrivals(replay);
    double faster = -1;
    if (durations_copy(&durations, replay) && come) {
        for (size_t n = 0; n < replay->node_count; n++)
            for (uint32_t t = replay->takes_first[n]; t < replay->takes_first[n + 1]; t++) {
                uint32_t link = replay->takes[t];
                if (link == NOWHERE || replay->link_from[link] == NOWHERE ||
                    !is_between(ends, replay->link_from[link], replay->link_to[link]))
                    continue;
                int64_t tail = mended_tail(replay, n, come[link], ratio);
                durations.tail[n] = tail < durations.tail[n] ? tail : durations.tail[n];
            }
        faster = speedup(replay, &durations);
    }
    free(come);
    durations_free(&durations);
    return faster;
}

/* ---- call sites ------------------------------------------------------------------------------ */

/* One rank's work before one kind of call, among its peers'. */
struct site_work {
    struct rank_work own;
    uint32_t rank_class;
    int64_t usual_ns; /* the median of the peers' means */
};

struct site_list {
    struct site_work *items;
    size_t count;
};

static int compare_sites(const void *a, const void *b) {
    const struct site_work *left = a, *right = b;
    if (left->own.kind != right->own.kind)
        return left->own.kind < right->own.kind ? -1 : 1;
    if (left->rank_class != right->rank_class)
        return left->rank_class < right->rank_class ? -1 : 1;
    if (left->own.mean_ns != right->own.mean_ns)
        return left->own.mean_ns < right->own.mean_ns ? -1 : 1;
    return (left->own.dump > right->own.dump) - (left->own.dump < right->own.dump);
}

static bool list_site_work(struct site_list *list, const struct work_kinds *work, const uint32_t *classes) {
    *list = (struct site_list){malloc((work->count + 1) * sizeof *list->items), work->count};
    if (!list->items)
        return false;
    for (size_t i = 0; i < work->count; i++)
        list->items[i] = (struct site_work){.own = work->works[i], .rank_class = classes[work->works[i].dump]};
    qsort(list->items, list->count, sizeof *list->items, compare_sites);
    return true;
}

/* The peers' usual work; what is done by fewer than two ranks has none. */
static void find_usual_work(struct site_list *list) {
    for (size_t i = 0; i < list->count;) {
        size_t end = i;
        while (end < list->count && list->items[end].own.kind == list->items[i].own.kind &&
               list->items[end].rank_class == list->items[i].rank_class)
            end++;
        for (size_t k = i; k < end; k++)
            list->items[k].usual_ns = end - i < 2 || list->items[k].rank_class == NOWHERE
                                          ? list->items[k].own.mean_ns
                                          : list->items[i + (end - i - 1) / 2].own.mean_ns;
        i = end;
    }
}

static int64_t extra_of(const struct site_work *work) {
    if ((double)work->own.mean_ns <= SITE_RATIO * (double)work->usual_ns)
        return 0;
    double extra = (double)(work->own.mean_ns - work->usual_ns) * work->own.count;
    return ns_clamped(extra);
}

/* Candidates: the kinds of calls before which most is lost. */
struct site_candidate {
    size_t first, end; /* of the list */
    size_t worst;
    int64_t extra_ns;
};

static size_t find_candidates(const struct site_list *list, struct site_candidate *best) {
    size_t count = 0;
    for (size_t i = 0; i < list->count;) {
        struct site_candidate found = {.first = i, .end = i, .worst = i};
        for (; found.end < list->count && list->items[found.end].own.kind == list->items[i].own.kind; found.end++) {
            found.extra_ns = add_ns(found.extra_ns, extra_of(&list->items[found.end]));
            if (extra_of(&list->items[found.end]) > extra_of(&list->items[found.worst]))
                found.worst = found.end;
        }
        i = found.end;
        size_t place = count;
        while (place > 0 && best[place - 1].extra_ns < found.extra_ns)
            place--;
        if (place == WHAT_IF_SITES)
            continue;
        count += count < WHAT_IF_SITES;
        memmove(best + place + 1, best + place, (count - place - 1) * sizeof *best);
        best[place] = found;
    }
    return count;
}

struct what_if_site_list {
    struct site_list works;
    struct site_candidate best[WHAT_IF_SITES + 1];
    size_t count;
};

/* The stretches of work before one kind of call, and who takes longer for them than others. */
static void list_work(struct mending *m, const struct what_if_basis *basis, const struct site_work *works,
                      size_t count) {
    const struct replay *replay = basis->replay;
    const uint32_t *nodes = basis->work.nodes.list;
    for (size_t k = 0; k < count; k++) {
        m->mended[works[k].own.dump] |= extra_of(&works[k]) > 0;
        for (uint32_t i = works[k].own.begin; i < works[k].own.begin + works[k].own.count; i++)
            m->stretches.items[m->stretches.count++] =
                (struct work_stretch){.part = nodes[i],
                                      .peers = works[k].rank_class,
                                      .dump = works[k].own.dump,
                                      .own_ns = replay->work_ns[nodes[i]],
                                      .hidden_ns = work_kinds_hidden(&basis->work, nodes[i]),
                                      .usual_ns = -1};
    }
}

/* Every piece of work of those who take longer takes what their peers' takes. */
static bool mend_work(struct mending *m, const struct what_if_basis *basis, const struct site_work *works,
                      size_t count) {
    bool found;
    list_work(m, basis, works, count);
    bool done =
        usual_lengths_find(m->stretches.items, m->stretches.count, m->mended, basis->replay->dump_count, &found);
    for (size_t i = 0; i < m->stretches.count; i++)
        if (m->stretches.items[i].usual_ns >= 0)
            m->durations.work[m->stretches.items[i].part] = m->stretches.items[i].usual_ns;
    return done;
}

struct what_if_site_list *what_if_list_sites(const struct what_if_basis *basis, const struct what_if_peers *peers) {
    struct what_if_site_list *sites = calloc(1, sizeof *sites);
    if (!sites || !list_site_work(&sites->works, &basis->work, peers->classes)) {
        free(sites);
        return NULL;
    }
    find_usual_work(&sites->works);
    sites->count = find_candidates(&sites->works, sites->best);
    while (sites->count > 0 && sites->best[sites->count - 1].extra_ns <= basis->replay->wall_ns / SITE_SHARE)
        sites->count--; /* the most comes first */
    return sites;
}

size_t what_if_site_count(const struct what_if_site_list *sites) {
    return sites->count;
}

double what_if_site_mended(const struct what_if_basis *basis, const struct what_if_site_list *sites, size_t number) {
    const struct site_candidate *candidate = &sites->best[number];
    struct mending mending;
    bool done = mending_begin(&mending, basis->replay) &&
                mend_work(&mending, basis, sites->works.items + candidate->first, candidate->end - candidate->first);
    double faster = done ? speedup(basis->replay, &mending.durations) : -1;
    mending_end(&mending);
    return faster;
}

static int compare_speedups(const void *a, const void *b) {
    const struct what_if_site *left = a, *right = b;
    if (left->speedup != right->speedup)
        return left->speedup > right->speedup ? -1 : 1;
    return left->extra_ns > right->extra_ns ? -1 : left->extra_ns < right->extra_ns;
}

void what_if_keep_sites(struct what_if *what_if, const struct what_if_basis *basis,
                        const struct what_if_site_list *sites, const double *speedups) {
    for (size_t i = 0; i < sites->count; i++) {
        const struct rank_work *worst = &sites->works.items[sites->best[i].worst].own;
        const struct replay_node *node = &basis->replay->nodes[basis->work.nodes.list[worst->begin]];
        if (speedups[i] >= SPEEDUP_LEAST)
            what_if->sites[what_if->site_count++] = (struct what_if_site){.dump = worst->dump,
                                                                          .stack = node->stack,
                                                                          .call = node->call,
                                                                          .extra_ns = sites->best[i].extra_ns,
                                                                          .speedup = speedups[i]};
    }
    qsort(what_if->sites, what_if->site_count, sizeof *what_if->sites, compare_speedups);
}

void what_if_free_sites(struct what_if_site_list *sites) {
    if (!sites)
        return;
    free(sites->works.items);
    free(sites);
}

/* Where one rank alone has anything on record there is nobody to be like. */
static bool has_several_ranks(const struct replay *replay) {
    size_t ranks = 0;
    for (size_t d = 0; d < replay->dump_count; d++)
        ranks += replay->first[d] < replay->first[d + 1];
    return ranks > 1;
}

void what_if_begin(struct what_if *what_if, const struct replay *replay) {
    *what_if = (struct what_if){.slowdown = 1,
                                .worst_workers_share = -1,
                                .covered_ns = replay->wall_ns,
                                .partial = replay->partial,
                                .end_only = replay->end_only};
    what_if->known = replay->linked > 0 && has_several_ranks(replay);
}
