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
#include "analyzer/base/hash_table.h"
#include "analyzer/base/side_by_side.h"
#include "analyzer/base/statistics.h"
#include "analyzer/replay/usual_lengths.h"
#include "analyzer/replay/usual_work.h"

enum {
    DELAY_RATIO = 4,  /* where work is named, a transfer this many times the usual has waited for something unnamed */
    SITE_SHARE = 100, /* work beyond the peers' of at least one hundredth of the time is worth a replay */
};

#define AT_ONCE_NS    10000 /* a launch begins so soon after the one before where it lay ready behind that */
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

/* Nodes in groups: list[first[g] .. first[g + 1]) */
struct groups {
    uint32_t *of; /* per node; NOWHERE: in none */
    uint32_t *list, *first;
    uint32_t count;
};

typedef bool group_key(const struct replay *replay, size_t node, uint64_t *key);

/* Work before a call; the first node of a flow has none. */
static bool work_key(const struct replay *replay, size_t node, uint64_t *key) {
    *key = replay->nodes[node].before;
    return *key != 0;
}

static bool own_tail_key(const struct replay *replay, size_t node, uint64_t *key) {
    *key = replay->nodes[node].signature;
    return replay->nodes[node].kind == REPLAY_WORK;
}

/* What a Wait waits for is told by what was before it. */
static bool transfer_key(const struct replay *replay, size_t node, uint64_t *key) {
    const struct replay_node *at = &replay->nodes[node];
    *key = at->kind == REPLAY_WAIT ? (uint64_t)at->before << 32 : at->signature;
    return at->kind != REPLAY_WORK;
}

static void groups_free(struct groups *groups) {
    free(groups->of);
    free(groups->list);
    free(groups->first);
}

struct work_group_key {
    uint64_t key;
};

struct work_group {
    struct work_group_key key;
    uint32_t number; /* + 1; 0: new */
};

HASH_TABLE_OF(work_groups, struct work_group, struct work_group_key);

/* Numbers groups in the order of their first nodes. Returns false when memory is short. */
static bool number_groups(struct groups *groups, const struct replay *replay, group_key *key_of) {
    struct hash_table table = {0};
    bool done = true;
    for (size_t n = 0; done && n < replay->node_count; n++) {
        struct work_group_key key;
        groups->of[n] = NOWHERE;
        if (!key_of(replay, n, &key.key))
            continue;
        struct work_group *group = work_groups_add(&table, &key);
        if (group && group->number == 0)
            group->number = ++groups->count;
        groups->of[n] = group ? group->number - 1 : NOWHERE;
        done = group != NULL;
    }
    hash_table_free(&table);
    return done;
}

static bool groups_make(struct groups *groups, const struct replay *replay, group_key *key_of) {
    *groups = (struct groups){.of = malloc((replay->node_count + 1) * sizeof *groups->of),
                              .list = malloc((replay->node_count + 1) * sizeof *groups->list)};
    if (!groups->of || !groups->list || !number_groups(groups, replay, key_of))
        return false;
    groups->first = calloc(groups->count + 2u, sizeof *groups->first);
    if (!groups->first)
        return false;
    for (size_t n = 0; n < replay->node_count; n++)
        if (groups->of[n] != NOWHERE)
            groups->first[groups->of[n] + 2]++;
    for (uint32_t g = 0; g < groups->count; g++)
        groups->first[g + 2] += groups->first[g + 1];
    for (size_t n = 0; n < replay->node_count; n++) /* moves the beginnings to where they belong */
        if (groups->of[n] != NOWHERE)
            groups->list[groups->first[groups->of[n] + 1]++] = (uint32_t)n;
    return true;
}

/* Every duration becomes the mean, or the median, of its group. `scratch` has room for all nodes. */
static void level_groups(int64_t *durations, const struct groups *groups, bool by_median, int64_t *scratch) {
    for (uint32_t g = 0; g < groups->count; g++) {
        const uint32_t *nodes = groups->list + groups->first[g];
        size_t count = groups->first[g + 1] - groups->first[g];
        double sum = 0;
        for (size_t i = 0; i < count; i++) {
            scratch[i] = durations[nodes[i]];
            sum += (double)scratch[i];
        }
        int64_t common = by_median ? median_int64(scratch, count) : ns_clamped(sum / (double)count);
        for (size_t i = 0; i < count; i++)
            durations[nodes[i]] = common;
    }
}

/* ---- what nothing explains ------------------------------------------------------------------------ */

/* Dumps whose own work has names. */
static bool names_work(const struct replay *replay, size_t dump) {
    for (size_t n = replay->first[dump]; n < replay->first[dump + 1]; n++)
        if (replay->nodes[n].kind == REPLAY_WORK)
            return true;
    return false;
}

static bool cut_transfers(struct replay *replay, const bool *named) {
    struct groups groups;
    int64_t *scratch = malloc((replay->node_count + 1) * sizeof *scratch);
    bool done = groups_make(&groups, replay, transfer_key) && scratch;
    for (uint32_t g = 0; done && g < groups.count; g++) {
        const uint32_t *nodes = groups.list + groups.first[g];
        size_t count = groups.first[g + 1] - groups.first[g];
        for (size_t i = 0; i < count; i++)
            scratch[i] = replay->tail_ns[nodes[i]];
        int64_t most = median_int64(scratch, count);
        most = most > 0 && most < NS_MOST / DELAY_RATIO ? most * DELAY_RATIO : most;
        for (size_t i = 0; i < count; i++)
            if (named[replay->nodes[nodes[i]].flow] && replay->tail_ns[nodes[i]] > most)
                replay->tail_ns[nodes[i]] = most;
    }
    free(scratch);
    groups_free(&groups);
    return done;
}

bool what_if_prepare(struct replay *replay) {
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

/* ---- everybody alike ------------------------------------------------------------------------- */

static bool level_all(struct durations *ideal, const struct replay *replay) {
    static const struct {
        group_key *key;
        bool tail, by_median;
    } kinds[] = {{work_key, false, false}, {own_tail_key, true, false}, {transfer_key, true, true}};
    int64_t *scratch = malloc((replay->node_count + 1) * sizeof *scratch);
    bool done = scratch != NULL;
    for (size_t k = 0; done && k < sizeof kinds / sizeof *kinds; k++) {
        struct groups groups;
        done = groups_make(&groups, replay, kinds[k].key);
        if (done)
            level_groups(kinds[k].tail ? ideal->tail : ideal->work, &groups, kinds[k].by_median, scratch);
        groups_free(&groups);
    }
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

bool what_if_measure_slowdown(struct what_if *what_if, const struct replay *replay) {
    struct durations ideal;
    bool done = durations_copy(&ideal, replay) && level_all(&ideal, replay);
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

/* What of a node is its rank's own work. */
static int64_t own_work(const struct replay *replay, size_t node) {
    return add_ns(replay->work_ns[node], replay->nodes[node].kind == REPLAY_WORK ? replay->tail_ns[node] : 0);
}

static void scale_node(struct durations *durations, const struct replay *replay, size_t node, double factor) {
    durations->work[node] = ns_clamped((double)durations->work[node] * factor);
    if (replay->nodes[node].kind == REPLAY_WORK)
        durations->tail[node] = ns_clamped((double)durations->tail[node] * factor);
}

static bool is_mended(const struct what_if_mend *mend, size_t dump) {
    for (size_t i = 0; i < mend->count; i++)
        if (mend->dumps[i] == dump)
            return true;
    return false;
}

/* A launch that began as soon as the one before was over may have lain ready behind it since that waited for others:
 * what the rank worked before it, on another stream of its GPU, is then hidden in that wait. How much at most. */
static int64_t wait_before(const struct replay *replay, size_t node) {
    const struct replay_node *at = &replay->nodes[node], *before = at - 1;
    if (node == 0 || !at->launch || !before->launch || before->flow != at->flow || replay->work_ns[node] > AT_ONCE_NS)
        return 0;
    int64_t tail = replay->tail_ns[node - 1] > 0 ? replay->tail_ns[node - 1] : 0;
    int64_t waited = before->leave - before->enter - tail;
    return waited > 0 ? waited : 0;
}

/* The longest that a rank works before such a call, as the mean. `nodes`: rank by rank. */
static int64_t longest_mean(const struct replay *replay, const uint32_t *nodes, size_t count) {
    int64_t longest = 0, sum = 0;
    for (size_t i = 0, first = 0, dump = 0; i < count; i++) {
        for (; nodes[i] >= replay->first[dump + 1]; dump++) {
            first = i;
            sum = 0;
        }
        sum = add_ns(sum, replay->work_ns[nodes[i]]);
        bool last = i + 1 == count || nodes[i + 1] >= replay->first[dump + 1];
        int64_t mean = last ? sum / (int64_t)(i + 1 - first) : 0;
        longest = mean > longest ? mean : longest;
    }
    return longest;
}

/* What may be hidden before each node: not more than anybody works before such a call. */
static bool find_hidden(int64_t *hidden, const struct replay *replay) {
    struct groups groups;
    bool done = groups_make(&groups, replay, work_key);
    for (uint32_t g = 0; done && g < groups.count; g++) {
        const uint32_t *nodes = groups.list + groups.first[g];
        size_t count = groups.first[g + 1] - groups.first[g];
        int64_t most = longest_mean(replay, nodes, count);
        for (size_t i = 0; i < count; i++) {
            int64_t waited = wait_before(replay, nodes[i]);
            hidden[nodes[i]] = waited < most ? waited : most;
        }
    }
    groups_free(&groups);
    return done;
}

/* Those of one dump lie side by side, by part. */
struct stretches {
    struct work_stretch *items;
    size_t count;
};

static uint32_t part_of(const struct replay *replay, size_t node, const struct what_if_mend *mend) {
    return replay->nodes[node].segment / (mend->collectives > 0 ? mend->collectives : 1);
}

static int compare_parts(const void *a, const void *b) {
    const struct work_stretch *left = a, *right = b;
    if (left->part != right->part)
        return left->part < right->part ? -1 : 1;
    if (left->peers != right->peers)
        return left->peers < right->peers ? -1 : 1;
    return (left->dump > right->dump) - (left->dump < right->dump);
}

static int compare_places(const void *a, const void *b) {
    const struct work_stretch *left = a, *right = b;
    if (left->dump != right->dump)
        return left->dump < right->dump ? -1 : 1;
    return (left->part > right->part) - (left->part < right->part);
}

static bool list_stretches(struct stretches *stretches, const struct replay *replay, const int64_t *hidden,
                           const uint32_t *peers, const struct what_if_mend *mend) {
    stretches->count = 0;
    for (size_t d = 0; d < replay->dump_count; d++)
        for (size_t n = replay->first[d]; n < replay->first[d + 1]; n++) {
            uint32_t part = part_of(replay, n, mend);
            if (n == replay->first[d] || stretches->items[stretches->count - 1].part != part)
                stretches->items[stretches->count++] =
                    (struct work_stretch){.part = part, .peers = peers[d], .dump = (uint32_t)d, .usual_ns = -1};
            struct work_stretch *stretch = &stretches->items[stretches->count - 1];
            stretch->own_ns = add_ns(stretch->own_ns, own_work(replay, n));
            stretch->hidden_ns = add_ns(stretch->hidden_ns, hidden[n]);
            stretch->shape = (uint32_t)hash_mix(hash_scramble(stretch->shape), replay->nodes[n].before);
        }
    return stretches->count > 0;
}

/* Parts in which a rank stands out come down to the median of all of its peers. */
static void cut_peaks(struct stretches *stretches, const struct what_if_mend *mend, int64_t *scratch) {
    struct work_stretch *items = stretches->items;
    qsort(items, stretches->count, sizeof *items, compare_parts);
    for (size_t i = 0; i < stretches->count;) {
        size_t end = i;
        for (; end < stretches->count && items[end].part == items[i].part && items[end].peers == items[i].peers; end++)
            scratch[end - i] = items[end].own_ns;
        int64_t usual = median_int64(scratch, end - i);
        for (; i < end; i++)
            if (items[i].peers != NOWHERE && (double)items[i].own_ns > mend->now_and_then * (double)usual &&
                is_mended(mend, items[i].dump))
                items[i].usual_ns = usual;
    }
    qsort(items, stretches->count, sizeof *items, compare_places);
}

/* What mending needs room for. */
struct mending {
    struct durations durations;
    struct stretches stretches;
    bool *mended;     /* per dump */
    int64_t *hidden;  /* per node */
    int64_t *scratch; /* per node, or dump where there are more of these */
};

/* Takes what a part is to be shorter by from where it takes longer than its peers do, and only what is left of it from
 * all of its work alike: before another call it would hold up others. [from, to): its nodes. */
static void mend_part(struct durations *durations, const struct replay *replay, struct usual_work *usual,
                      const struct work_stretch *stretch, size_t from, size_t to) {
    int64_t saved = stretch->own_ns - stretch->usual_ns;
    int64_t excess = saved > 0 ? usual_work_excess(usual, replay, from, to) : 0;
    if (excess > stretch->own_ns) /* wrong clocks make work negative */
        excess = 0;
    double share = excess > saved ? (double)saved / (double)excess : 1;
    int64_t rest = stretch->own_ns - excess;
    double factor = excess > 0 && excess >= saved ? 1 : rest > 0 ? (double)stretch->usual_ns / (double)rest : 0;
    for (size_t n = from; n < to; n++) {
        if (excess > 0)
            durations->work[n] =
                ns_clamped((double)durations->work[n] * (1 - share * usual_work_share(usual, replay, n)));
        scale_node(durations, replay, n, factor);
    }
}

static void mend_dump(struct durations *durations, const struct replay *replay, struct usual_work *usual,
                      const struct work_stretch *stretch, const struct what_if_mend *mend) {
    size_t end = replay->first[stretch->dump + 1];
    for (size_t n = replay->first[stretch->dump], to; n < end; n = to, stretch++) {
        for (to = n; to < end && part_of(replay, to, mend) == stretch->part; to++)
            ;
        if (stretch->usual_ns >= 0 && stretch->own_ns > 0)
            mend_part(durations, replay, usual, stretch, n, to);
    }
}

/* `peers`: as the stretches were listed. */
static bool mend_stretches(struct mending *m, const struct replay *replay, const uint32_t *peers,
                           const struct what_if_mend *mend) {
    bool done = true;
    for (size_t i = 0; done && i < m->stretches.count; i++) {
        const struct work_stretch *stretch = &m->stretches.items[i];
        struct usual_work usual;
        if (!m->mended[stretch->dump] || (i > 0 && stretch[-1].dump == stretch->dump))
            continue;
        usual = (struct usual_work){.kinds = {0}};
        /* who is slow now and then is, on the whole, as fast before every call */
        done = mend->now_and_then > 0 || usual_work_find(&usual, replay, stretch->dump, peers, m->mended);
        if (done)
            mend_dump(&m->durations, replay, &usual, stretch, mend);
        usual_work_free(&usual);
    }
    return done;
}

static bool mending_begin(struct mending *mending, const struct replay *replay) {
    size_t room = (replay->node_count > replay->dump_count ? replay->node_count : replay->dump_count) + 1;
    *mending = (struct mending){.stretches.items = calloc(room, sizeof *mending->stretches.items),
                                .mended = calloc(replay->dump_count + 1, sizeof *mending->mended),
                                .hidden = calloc(room, sizeof *mending->hidden),
                                .scratch = malloc(room * sizeof *mending->scratch)};
    return durations_copy(&mending->durations, replay) && mending->stretches.items && mending->mended &&
           mending->hidden && mending->scratch && find_hidden(mending->hidden, replay);
}

static void mending_end(struct mending *mending) {
    free(mending->stretches.items);
    free(mending->mended);
    free(mending->hidden);
    free(mending->scratch);
    durations_free(&mending->durations);
}

static void mark_mended(struct mending *m, const struct what_if_mend *mend) {
    for (size_t i = 0; i < mend->count; i++)
        m->mended[mend->dumps[i]] = true;
}

static bool mend_ranks(struct mending *m, const struct replay *replay, const struct what_if_peers *peers,
                       const struct what_if_mend *mend) {
    const uint32_t *among = peers->classes;
    struct stretches *stretches = &m->stretches;
    bool found = list_stretches(stretches, replay, m->hidden, among, mend), done = true;
    mark_mended(m, mend);
    if (found && mend->now_and_then > 0) {
        cut_peaks(stretches, mend, m->scratch);
    } else if (found) {
        done = usual_lengths_find(stretches->items, stretches->count, m->mended, replay->dump_count, &found);
        if (done && !found) { /* a whole rank class */
            among = peers->comparison_groups;
            done = list_stretches(stretches, replay, m->hidden, among, mend) &&
                   usual_lengths_find(stretches->items, stretches->count, m->mended, replay->dump_count, &found);
        }
    }
    return done && (!found || mend_stretches(m, replay, among, mend));
}

double what_if_mended(const struct replay *replay, const struct what_if_peers *peers, const struct what_if_mend *mend) {
    struct mending mending;
    double faster = -1;
    if (mending_begin(&mending, replay) && mend_ranks(&mending, replay, peers, mend))
        faster = speedup(replay, &mending.durations);
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

double what_if_link(const struct replay *replay, const struct what_if_ends *ends, double ratio) {
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

/* One rank's work before one kind of call. */
struct site_work {
    uint32_t group, rank_class, dump;
    uint32_t count;
    int64_t ns, mean_ns, usual_ns; /* usual: the median of the peers' means */
    uint32_t begin;                /* of its nodes in the group's list */
};

struct site_list {
    struct site_work *items;
    size_t count;
};

static int compare_sites(const void *a, const void *b) {
    const struct site_work *left = a, *right = b;
    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    if (left->rank_class != right->rank_class)
        return left->rank_class < right->rank_class ? -1 : 1;
    if (left->mean_ns != right->mean_ns)
        return left->mean_ns < right->mean_ns ? -1 : 1;
    return (left->dump > right->dump) - (left->dump < right->dump);
}

/* Sums by kind of call and dump: a group's nodes come dump by dump. */
static bool list_site_work(struct site_list *list, const struct replay *replay, const struct groups *groups,
                           const uint32_t *classes) {
    size_t dump = 0;
    list->items = malloc((replay->node_count + 1) * sizeof *list->items);
    if (!list->items)
        return false;
    for (uint32_t g = 0; g < groups->count; g++, dump = 0) {
        size_t begin = list->count;
        for (uint32_t i = groups->first[g]; i < groups->first[g + 1]; i++) {
            uint32_t node = groups->list[i];
            while (node >= replay->first[dump + 1])
                dump++;
            if (list->count == begin || list->items[list->count - 1].dump != dump)
                list->items[list->count++] =
                    (struct site_work){.group = g, .rank_class = classes[dump], .dump = (uint32_t)dump, .begin = i};
            struct site_work *work = &list->items[list->count - 1];
            work->count++;
            work->ns = add_ns(work->ns, replay->work_ns[node]);
        }
    }
    for (size_t i = 0; i < list->count; i++)
        list->items[i].mean_ns = list->items[i].ns / list->items[i].count;
    qsort(list->items, list->count, sizeof *list->items, compare_sites);
    return true;
}

/* The peers' usual work; what is done by fewer than two ranks has none. */
static void find_usual_work(struct site_list *list) {
    for (size_t i = 0; i < list->count;) {
        size_t end = i;
        while (end < list->count && list->items[end].group == list->items[i].group &&
               list->items[end].rank_class == list->items[i].rank_class)
            end++;
        for (size_t k = i; k < end; k++)
            list->items[k].usual_ns = end - i < 2 || list->items[k].rank_class == NOWHERE
                                          ? list->items[k].mean_ns
                                          : list->items[i + (end - i - 1) / 2].mean_ns;
        i = end;
    }
}

static int64_t extra_of(const struct site_work *work) {
    if ((double)work->mean_ns <= SITE_RATIO * (double)work->usual_ns)
        return 0;
    double extra = (double)(work->mean_ns - work->usual_ns) * work->count;
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
        for (; found.end < list->count && list->items[found.end].group == list->items[i].group; found.end++) {
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

/* Every piece of work of those who take longer takes what their peers' takes. */
static bool mend_work(struct mending *m, const struct replay *replay, const struct groups *groups,
                      const struct site_work *works, size_t count) {
    size_t *longer = malloc((count + 1) * sizeof *longer);
    struct what_if_mend mend = {.dumps = longer};
    if (!longer)
        return false;
    for (size_t k = 0; k < count; k++) {
        if (extra_of(&works[k]) > 0)
            longer[mend.count++] = works[k].dump;
        for (uint32_t i = works[k].begin; i < works[k].begin + works[k].count; i++)
            m->stretches.items[m->stretches.count++] = (struct work_stretch){.part = groups->list[i],
                                                                             .peers = works[k].rank_class,
                                                                             .dump = works[k].dump,
                                                                             .own_ns = replay->work_ns[groups->list[i]],
                                                                             .hidden_ns = m->hidden[groups->list[i]],
                                                                             .usual_ns = -1};
    }
    mark_mended(m, &mend);
    bool found,
        done = usual_lengths_find(m->stretches.items, m->stretches.count, m->mended, replay->dump_count, &found);
    for (size_t i = 0; i < m->stretches.count; i++)
        if (m->stretches.items[i].usual_ns >= 0)
            m->durations.work[m->stretches.items[i].part] = m->stretches.items[i].usual_ns;
    free(longer);
    return done;
}

static bool mend_site(struct what_if_site *site, const struct replay *replay, const struct groups *groups,
                      const struct site_list *list, const struct site_candidate *candidate) {
    struct mending mending;
    bool done = mending_begin(&mending, replay) &&
                mend_work(&mending, replay, groups, list->items + candidate->first, candidate->end - candidate->first);
    const struct site_work *worst = &list->items[candidate->worst];
    const struct replay_node *node = &replay->nodes[groups->list[worst->begin]];
    *site = (struct what_if_site){.dump = worst->dump,
                                  .stack = node->stack,
                                  .call = node->call,
                                  .extra_ns = candidate->extra_ns,
                                  .speedup = done ? speedup(replay, &mending.durations) : -1};
    mending_end(&mending);
    return site->speedup > 0;
}

static int compare_speedups(const void *a, const void *b) {
    const struct what_if_site *left = a, *right = b;
    if (left->speedup != right->speedup)
        return left->speedup > right->speedup ? -1 : 1;
    return left->extra_ns > right->extra_ns ? -1 : left->extra_ns < right->extra_ns;
}

/* The candidates, each of which is mended alone. */
struct site_mending {
    const struct replay *replay;
    const struct groups *groups;
    const struct site_list *list;
    const struct site_candidate *candidates;
    struct what_if_site sites[WHAT_IF_SITES];
    bool done[WHAT_IF_SITES];
};

static void mend_candidate(void *context, size_t number) {
    struct site_mending *m = context;
    m->done[number] = mend_site(&m->sites[number], m->replay, m->groups, m->list, &m->candidates[number]);
}

bool what_if_measure_sites(struct what_if *what_if, const struct replay *replay, const struct what_if_peers *peers,
                           unsigned threads) {
    struct groups groups;
    struct site_list list = {0};
    struct site_candidate best[WHAT_IF_SITES + 1];
    struct site_mending mending = {.replay = replay, .groups = &groups, .list = &list, .candidates = best};
    bool done = groups_make(&groups, replay, work_key) && list_site_work(&list, replay, &groups, peers->classes);
    if (done)
        find_usual_work(&list);
    size_t candidates = done ? find_candidates(&list, best) : 0;
    while (candidates > 0 && best[candidates - 1].extra_ns <= replay->wall_ns / SITE_SHARE) /* the most comes first */
        candidates--;
    side_by_side(threads, candidates, mend_candidate, &mending);
    for (size_t i = 0; i < candidates; i++) {
        done = done && mending.done[i];
        if (done && mending.sites[i].speedup >= SPEEDUP_LEAST)
            what_if->sites[what_if->site_count++] = mending.sites[i];
    }
    qsort(what_if->sites, what_if->site_count, sizeof *what_if->sites, compare_speedups);
    free(list.items);
    groups_free(&groups);
    return done;
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
