/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "analyzer/replay/replay.h"
#include "analyzer/replay/replay_ended.h"

int64_t *replay_arrivals(const struct replay *replay) {
    int64_t *come = malloc((replay->link_count + 1u) * sizeof *come);
    for (uint32_t l = 0; come && l < replay->link_count; l++)
        come[l] = INT64_MIN;
    for (size_t n = 0; come && n < replay->node_count; n++)
        for (uint32_t g = replay->gives_first[n]; g < replay->gives_first[n + 1]; g++)
            if (replay->nodes[n].enter > come[replay->gives[g]])
                come[replay->gives[g]] = replay->nodes[n].enter;
    return come;
}

int64_t replay_length(const struct replay *replay, const int64_t *ends) {
    int64_t sum = 0;
    for (uint32_t s = 0; s < replay->span_count; s++) {
        int64_t from = replay->spans[s].from, to = ends ? ends[s] : replay->spans[s].to;
        sum = to > from ? add_ns(sum, to - from) : sum;
    }
    return sum > 0 ? sum : 1;
}

struct running {
    int64_t *entered; /* per node */
    int64_t *left;    /* per node */
    int64_t *come;    /* per link: its last member */
    int64_t *ends;    /* per span: the last leaving */
    struct replay_ended ended;
};

/* A Wait's messages are under way from when both ends have come. */
static int64_t leave(const struct replay *replay, const struct running *run, uint32_t node, int64_t tail_ns) {
    int64_t since = INT64_MIN, entered = run->entered[node], late = replay->late_tail_ns[node];
    for (uint32_t t = replay->takes_first[node]; t < replay->takes_first[node + 1]; t++)
        if (replay->takes[t] != NOWHERE && run->come[replay->takes[t]] > since)
            since = run->come[replay->takes[t]];
    late = add_ns(entered, late < tail_ns ? late : tail_ns);
    if (since == INT64_MIN)
        return add_ns(entered, tail_ns);
    int64_t over = add_ns(since, tail_ns);
    return over > late ? over : late;
}

/* When all has ended that a node needs of its own flow. */
static int64_t ready_for(const struct replay *replay, const struct running *run, uint32_t node) {
    int64_t ready = replay->flow_start[replay->nodes[node].flow], piece = INT64_MIN;
    int64_t others = replay_ended_others(&run->ended, node);
    if (!replay->behind || replay->behind[node] == NOWHERE)
        piece = replay_ended_pieces(&run->ended, node);
    else if (replay->behind[node] != node)
        piece = run->left[replay->behind[node]];
    ready = others > ready ? others : ready;
    return piece > ready ? piece : ready;
}

static void end_node(const struct replay *replay, struct running *run, uint32_t node, int64_t tail_ns) {
    uint32_t flow = replay->nodes[node].flow;
    int64_t left = leave(replay, run, node, tail_ns), *end = &run->ends[replay->span_of[flow]];
    run->left[node] = left;
    replay_ended_add(&run->ended, node, left);
    *end = left > *end ? left : *end;
}

static int64_t run_through(const struct replay *replay, struct running *run, const int64_t *work_ns,
                           const int64_t *tail_ns) {
    for (uint32_t l = 0; l < replay->link_count; l++)
        run->come[l] = INT64_MIN;
    for (uint32_t s = 0; s < replay->span_count; s++)
        run->ends[s] = replay->spans[s].from;
    for (size_t i = 0; i < 2 * replay->node_count; i++) {
        uint32_t node = replay->order[i] >> 1;
        if (replay->order[i] & 1) {
            end_node(replay, run, node, tail_ns[node]);
            continue;
        }
        int64_t entered = run->entered[node] = add_ns(ready_for(replay, run, node), work_ns[node]);
        for (uint32_t g = replay->gives_first[node]; g < replay->gives_first[node + 1]; g++)
            if (entered > run->come[replay->gives[g]])
                run->come[replay->gives[g]] = entered;
    }
    return replay_length(replay, run->ends);
}

int64_t replay_run(const struct replay *replay, const int64_t *work_ns, const int64_t *tail_ns) {
    struct running run = {.entered = malloc((replay->node_count + 1) * sizeof *run.entered),
                          .left = malloc((replay->node_count + 1) * sizeof *run.left),
                          .come = malloc((replay->link_count + 1u) * sizeof *run.come),
                          .ends = malloc((replay->span_count + 1u) * sizeof *run.ends)};
    int64_t wall = -1;
    bool begun = replay_ended_begin(&run.ended, replay);
    if (begun && run.entered && run.left && run.come && run.ends)
        wall = replay->node_count > 0 ? run_through(replay, &run, work_ns, tail_ns) : 1;
    free(run.entered);
    free(run.left);
    free(run.come);
    free(run.ends);
    replay_ended_free(&run.ended);
    return wall;
}

/* Whether a node's tail is a transfer, or what sending and receiving costs the host. */
static bool is_transfer(const struct replay *replay, size_t node) {
    enum replay_kind kind = (enum replay_kind)replay->nodes[node].kind;
    bool linked = replay->gives_first[node] < replay->gives_first[node + 1] ||
                  replay->takes_first[node] < replay->takes_first[node + 1];
    return linked || kind == REPLAY_POST || kind == REPLAY_WAIT;
}

int64_t replay_on_ideal_network(const struct replay *replay) {
    int64_t *tails = malloc((replay->node_count + 1) * sizeof *tails);
    if (!tails)
        return -1;
    for (size_t n = 0; n < replay->node_count; n++) /* those below 0 are the clocks' error, and stay */
        tails[n] = replay->tail_ns[n] > 0 && is_transfer(replay, n) ? 0 : replay->tail_ns[n];
    int64_t wall = replay_run(replay, replay->work_ns, tails);
    free(tails);
    return wall;
}

void replay_free(struct replay *replay) {
    free(replay->first);
    free(replay->nodes);
    free(replay->work_ns);
    free(replay->tail_ns);
    free(replay->late_tail_ns);
    free(replay->gives);
    free(replay->takes);
    free(replay->gives_first);
    free(replay->takes_first);
    free(replay->link_from);
    free(replay->link_to);
    free(replay->order);
    free(replay->behind);
    free(replay->flow_start);
    free(replay->spans);
    free(replay->span_of);
    free(replay->place);
    free(replay->reach);
    free(replay->reach_sends);
    free(replay->launches_first);
    *replay = (struct replay){0};
}
