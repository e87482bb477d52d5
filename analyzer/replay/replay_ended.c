/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/replay/replay_ended.h"

#include <stdlib.h>

static int64_t *nothing(size_t count) {
    int64_t *times = malloc((count + 1) * sizeof *times);
    for (size_t i = 0; times && i < count; i++)
        times[i] = INT64_MIN;
    return times;
}

bool replay_ended_begin(struct replay_ended *ended, const struct replay *replay) {
    size_t count = replay->place ? replay->node_count : replay->flow_count;
    *ended = (struct replay_ended){
        .replay = replay, .pieces = nothing(count), .sends = nothing(count), .others = nothing(count)};
    return ended->pieces && ended->sends && ended->others;
}

void replay_ended_free(struct replay_ended *ended) {
    free(ended->pieces);
    free(ended->sends);
    free(ended->others);
}

/* Of a binary indexed tree over places from 1: each has the latest of as many places up to its own as its lowest
 * bit says. */
static void tree_add(int64_t *tree, uint32_t count, uint32_t place, int64_t at) {
    for (; place <= count && tree[place - 1] < at; place += place & -place)
        tree[place - 1] = at;
}

static int64_t tree_latest(const int64_t *tree, uint32_t place) {
    int64_t latest = INT64_MIN;
    for (; place > 0; place &= place - 1)
        latest = tree[place - 1] > latest ? tree[place - 1] : latest;
    return latest;
}

void replay_ended_add(struct replay_ended *ended, uint32_t node, int64_t at) {
    const struct replay *replay = ended->replay;
    uint32_t flow = replay->nodes[node].flow;
    int64_t *latest = replay->nodes[node].kind == REPLAY_KERNELS  ? ended->pieces
                      : replay->nodes[node].launch == REPLAY_SEND ? ended->sends
                                                                  : ended->others;
    if (replay->place)
        tree_add(latest + replay->launches_first[flow], replay->launches_first[flow + 1] - replay->launches_first[flow],
                 replay->place[node], at);
    else if (at > latest[flow])
        latest[flow] = at;
}

static int64_t latest_of(const struct replay *replay, uint32_t node, const int64_t *latest, const uint32_t *reach) {
    uint32_t flow = replay->nodes[node].flow;
    return replay->place ? tree_latest(latest + replay->launches_first[flow], reach[node]) : latest[flow];
}

int64_t replay_ended_pieces(const struct replay_ended *ended, uint32_t node) {
    return latest_of(ended->replay, node, ended->pieces, ended->replay->reach);
}

int64_t replay_ended_others(const struct replay_ended *ended, uint32_t node) {
    int64_t sends = latest_of(ended->replay, node, ended->sends, ended->replay->reach_sends);
    int64_t others = latest_of(ended->replay, node, ended->others, ended->replay->reach);
    return sends > others ? sends : others;
}
