/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "analyzer/replay/replay_build.h"
#include "analyzer/replay/replay_ended.h"

/* What is known of the dumps' pieces of work of their GPUs. */
struct behind {
    struct replay *replay;
    uint32_t *dump_of;  /* per flow */
    uint32_t *pieces;   /* per dump: how many; dump d's are listed in the order of their ends from first[d] on */
    uint32_t *listed;   /* nodes */
    size_t *first;      /* per dump */
    uint32_t *ended;    /* per node: how many of its dump's pieces had ended when it was entered */
    int64_t *others_ns; /* per node: when all that had ended by then, and was no piece, had */
};

static bool is_piece(const struct replay *replay, uint32_t node) {
    return replay->nodes[node].kind == REPLAY_KERNELS;
}

static bool any_piece(const struct replay *replay) {
    for (uint32_t n = 0; n < replay->node_count; n++)
        if (is_piece(replay, n))
            return true;
    return false;
}

static bool behind_begin(struct behind *b) {
    const struct replay *replay = b->replay;
    b->dump_of = calloc(replay->flow_count + 1, sizeof *b->dump_of);
    b->pieces = calloc(replay->dump_count + 1, sizeof *b->pieces);
    b->listed = malloc((replay->node_count + 1) * sizeof *b->listed);
    b->first = malloc((replay->dump_count + 1) * sizeof *b->first);
    b->ended = calloc(replay->node_count + 1, sizeof *b->ended);
    b->others_ns = malloc((replay->node_count + 1) * sizeof *b->others_ns);
    if (!b->dump_of || !b->pieces || !b->listed || !b->first || !b->ended || !b->others_ns)
        return false;
    for (uint32_t d = 0; d < replay->dump_count; d++) {
        b->first[d] = replay->first[d];
        for (size_t n = replay->first[d]; n < replay->first[d + 1]; n++)
            b->dump_of[replay->nodes[n].flow] = d;
    }
    return true;
}

static void behind_end(struct behind *b) {
    free(b->dump_of);
    free(b->pieces);
    free(b->listed);
    free(b->first);
    free(b->ended);
    free(b->others_ns);
}

/* As recorded. */
static bool list_pieces(struct behind *b) {
    const struct replay *replay = b->replay;
    struct replay_ended ended;
    bool done = replay_ended_begin(&ended, replay);
    for (size_t i = 0; done && i < 2 * replay->node_count; i++) {
        uint32_t n = replay->order[i] >> 1, dump = b->dump_of[replay->nodes[n].flow];
        if (!(replay->order[i] & 1)) {
            b->ended[n] = b->pieces[dump];
            b->others_ns[n] = replay_ended_others(&ended, n);
            continue;
        }
        replay_ended_add(&ended, n, replay->nodes[n].leave);
        if (is_piece(replay, n))
            b->listed[b->first[dump] + b->pieces[dump]++] = n;
    }
    replay_ended_free(&ended);
    return done;
}

/* Whether it lay ready: it began as soon as the stream was free. */
static bool lay_ready(const struct behind *b, uint32_t node) {
    const struct replay_node *at = &b->replay->nodes[node];
    return at->launch && b->others_ns[node] > INT64_MIN && at->enter - b->others_ns[node] <= TRACE_ROUNDED_NS;
}

/* The least that had ended before the same collective on a rank with as many pieces. */
static uint32_t least_ended(const struct behind *b, const uint32_t *members, uint32_t count, uint32_t member) {
    uint32_t least = b->ended[members[member]];
    uint32_t pieces = b->pieces[b->dump_of[b->replay->nodes[members[member]].flow]];
    for (uint32_t i = 0; i < count; i++)
        if (b->ended[members[i]] < least && b->pieces[b->dump_of[b->replay->nodes[members[i]].flow]] == pieces)
            least = b->ended[members[i]];
    return least;
}

static void place_members(struct behind *b, const uint32_t *members, uint32_t count) {
    struct replay *replay = b->replay;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = members[i], least = least_ended(b, members, count, i), dump = b->dump_of[replay->nodes[n].flow];
        if (least == b->ended[n] || !lay_ready(b, n))
            continue;
        replay->behind[n] = least > 0 ? b->listed[b->first[dump] + least - 1] : n;
        int64_t since = least > 0 ? replay->nodes[replay->behind[n]].leave : INT64_MIN;
        replay->work_ns[n] = replay->nodes[n].enter - (since > b->others_ns[n] ? since : b->others_ns[n]);
    }
}

/* A collective's members, one after the other: list[first[l] .. first[l + 1]). */
struct members {
    uint32_t *first, *list;
};

static bool list_members(struct members *m, const struct replay *replay) {
    m->first = calloc(replay->link_count + 2u, sizeof *m->first);
    m->list = malloc((replay->gives_first[replay->node_count] + 1u) * sizeof *m->list);
    if (!m->first || !m->list)
        return false;
    for (uint32_t g = 0; g < replay->gives_first[replay->node_count]; g++)
        m->first[replay->gives[g] + 2]++;
    for (uint32_t l = 2; l < replay->link_count + 2; l++)
        m->first[l] += m->first[l - 1];
    for (uint32_t n = 0; n < replay->node_count; n++)
        for (uint32_t g = replay->gives_first[n]; g < replay->gives_first[n + 1]; g++)
            m->list[m->first[replay->gives[g] + 1]++] = n;
    return true;
}

static bool place_all(struct behind *b) {
    struct replay *replay = b->replay;
    struct members m;
    bool done = list_members(&m, replay);
    for (uint32_t l = 0; done && l < replay->link_count; l++)
        if (replay->link_from[l] == NOWHERE)
            place_members(b, m.list + m.first[l], m.first[l + 1] - m.first[l]);
    free(m.first);
    free(m.list);
    return done;
}

bool replay_find_behind(struct replay *replay) {
    struct behind b = {.replay = replay};
    if (!any_piece(replay))
        return true;
    replay->behind = malloc((replay->node_count + 1) * sizeof *replay->behind);
    for (size_t n = 0; replay->behind && n < replay->node_count; n++)
        replay->behind[n] = NOWHERE;
    bool done = replay->behind && behind_begin(&b) && list_pieces(&b) && place_all(&b);
    behind_end(&b);
    return done;
}
