/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/replay/work_kinds.h"

#include <stdlib.h>

#define AT_ONCE_NS 10000 /* a launch begins so soon after the one before where it lay ready behind that */

static bool kind_key(const struct replay *replay, size_t node, uint64_t *key) {
    *key = replay->nodes[node].before;
    return *key != 0;
}

static bool any_key(const struct replay *replay, size_t node, uint64_t *key) {
    *key = 1;
    return replay->nodes[node].before != 0;
}

/* A kind's nodes come dump by dump. */
static void list_kind(struct work_kinds *kinds, const struct replay *replay, uint32_t kind) {
    size_t dump = 0;
    kinds->first[kind] = kinds->count;
    for (uint32_t i = kinds->nodes.first[kind]; i < kinds->nodes.first[kind + 1]; i++) {
        uint32_t node = kinds->nodes.list[i];
        while (node >= replay->first[dump + 1])
            dump++;
        if (kinds->count == kinds->first[kind] || kinds->works[kinds->count - 1].dump != dump)
            kinds->works[kinds->count++] = (struct rank_work){.kind = kind, .dump = (uint32_t)dump, .begin = i};
        struct rank_work *work = &kinds->works[kinds->count - 1];
        work->count++;
        work->ns = add_ns(work->ns, replay->work_ns[node]);
    }
    for (size_t i = kinds->first[kind]; i < kinds->count; i++)
        kinds->works[i].mean_ns = kinds->works[i].ns / kinds->works[i].count;
}

/* ---- hidden work ------------------------------------------------------------------------------------------------- */

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

/* The longest that a rank works before such a call, as the mean. */
static int64_t longest_mean(const struct work_kinds *kinds, uint32_t kind) {
    int64_t longest = 0;
    for (size_t i = kinds->first[kind]; i < kinds->first[kind + 1]; i++)
        longest = kinds->works[i].mean_ns > longest ? kinds->works[i].mean_ns : longest;
    return longest;
}

static bool any_launch(const struct replay *replay) {
    for (size_t n = 0; n < replay->node_count; n++)
        if (replay->nodes[n].launch)
            return true;
    return false;
}

/* Not more than anybody works before such a call. */
static bool find_hidden(struct work_kinds *kinds, const struct replay *replay) {
    if (!any_launch(replay))
        return true;
    kinds->hidden_ns = calloc(replay->node_count, sizeof *kinds->hidden_ns);
    for (uint32_t kind = 0; kinds->hidden_ns && kind < kinds->nodes.count; kind++) {
        int64_t most = longest_mean(kinds, kind);
        for (uint32_t i = kinds->nodes.first[kind]; i < kinds->nodes.first[kind + 1]; i++) {
            int64_t waited = wait_before(replay, kinds->nodes.list[i]);
            kinds->hidden_ns[kinds->nodes.list[i]] = waited < most ? waited : most;
        }
    }
    return kinds->hidden_ns != NULL;
}

static bool list_kinds(struct work_kinds *kinds, const struct replay *replay, alike_key *key_of) {
    *kinds = (struct work_kinds){.works = malloc((replay->node_count + 1) * sizeof *kinds->works)};
    if (!alike_find(&kinds->nodes, replay, key_of) || !kinds->works)
        return false;
    kinds->first = malloc((kinds->nodes.count + 1u) * sizeof *kinds->first);
    if (!kinds->first)
        return false;
    for (uint32_t kind = 0; kind < kinds->nodes.count; kind++)
        list_kind(kinds, replay, kind);
    kinds->first[kinds->nodes.count] = kinds->count;
    return true;
}

bool work_kinds_find(struct work_kinds *kinds, const struct replay *replay) {
    return list_kinds(kinds, replay, kind_key) && find_hidden(kinds, replay);
}

bool work_kinds_find_one(struct work_kinds *kinds, const struct replay *replay) {
    return list_kinds(kinds, replay, any_key);
}

void work_kinds_free(struct work_kinds *kinds) {
    alike_free(&kinds->nodes);
    free(kinds->works);
    free(kinds->first);
    free(kinds->hidden_ns);
    *kinds = (struct work_kinds){0};
}
