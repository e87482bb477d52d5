/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: in which order a GPU's work was launched, and what of it later launches can need.
 * Must not live here: when that has ended (replay_ended.h).
 */
#include <stdlib.h>

#include "analyzer/base/radix_sort.h"
#include "analyzer/replay/replay_build.h"

/* All launches, those of one flow after the other, by time. */
struct launches {
    struct replay *replay;
    struct sort_key *keys, *scratch;
    uint32_t *next; /* per flow */
};

/* ---- the order of launches ------------------------------------------------------------------------- */

static bool any_piece(const struct replay *replay) {
    for (size_t n = 0; n < replay->node_count; n++)
        if (replay->nodes[n].kind == REPLAY_KERNELS)
            return true;
    return false;
}

static bool launches_begin(struct launches *l, struct replay *replay) {
    size_t nodes = replay->node_count + 1, flows = replay->flow_count + 1;
    *l = (struct launches){.replay = replay,
                           .keys = malloc(nodes * sizeof *l->keys),
                           .scratch = malloc(nodes * sizeof *l->scratch),
                           .next = malloc(flows * sizeof *l->next)};
    replay->place = malloc(nodes * sizeof *replay->place);
    replay->reach = malloc(nodes * sizeof *replay->reach);
    replay->reach_sends = malloc(nodes * sizeof *replay->reach_sends);
    replay->launches_first = calloc(flows, sizeof *replay->launches_first);
    return l->keys && l->scratch && l->next && replay->place && replay->reach && replay->reach_sends &&
           replay->launches_first;
}

static void launches_end(struct launches *l) {
    free(l->keys);
    free(l->scratch);
    free(l->next);
}

static void list_launches(struct launches *l) {
    const struct replay *replay = l->replay;
    uint32_t *first = replay->launches_first;
    for (size_t n = 0; n < replay->node_count; n++)
        first[replay->nodes[n].flow + 1]++;
    for (size_t f = 0; f < replay->flow_count; f++) {
        l->next[f] = first[f];
        first[f + 1] += first[f];
    }
    for (size_t n = 0; n < replay->node_count; n++)
        l->keys[l->next[replay->nodes[n].flow]++] =
            (struct sort_key){sort_value(replay->nodes[n].launched_ns), (uint32_t)n};
}

/* A trace rounds: what it puts closer together than that may have come before. */
static void place_flow(struct replay *replay, const struct sort_key *keys, uint32_t count) {
    for (uint32_t i = 0, end = 0; i < count; i++) {
        int64_t until = add_ns(replay->nodes[keys[i].index].launched_ns, TRACE_ROUNDED_NS);
        while (end < count && replay->nodes[keys[end].index].launched_ns <= until)
            end++;
        replay->place[keys[i].index] = i + 1;
        replay->reach[keys[i].index] = replay->reach_sends[keys[i].index] = end;
    }
}

static uint32_t flow_size(const struct replay *replay, size_t flow) {
    return replay->launches_first[flow + 1] - replay->launches_first[flow];
}

static void place_flows(struct launches *l) {
    list_launches(l);
    for (size_t f = 0; f < l->replay->flow_count; f++) {
        struct sort_key *keys = l->keys + l->replay->launches_first[f];
        radix_sort(keys, l->scratch, flow_size(l->replay, f));
        place_flow(l->replay, keys, flow_size(l->replay, f));
    }
}

/* ---- sends that nobody waits for ------------------------------------------------------------------- */
/* A send leaves nothing that its rank's next work would need; that may wait for it all the same, so that its memory may
 * be used again. It does not wait for as many of the last sends before it as were still under way when such work began,
 * on any rank: where the receivers are late it shows. */

enum waiter { WAITER_PIECE, WAITER_RECEIVE, WAITER_COLLECTIVE, WAITERS };

enum {
    SENDS_MOST = 64,      /* under way that are looked at */
    SENDS_SEEN_LEAST = 2, /* once may be another stream's work */
};

/* How often something began while the last so many sends, and not one more, were under way. */
struct under_way {
    uint32_t times[WAITERS][SENDS_MOST + 1];
    uint32_t most[WAITERS]; /* so many were, SENDS_SEEN_LEAST times or more often */
};

static bool waits(const struct replay_node *node, enum waiter *waiter) {
    *waiter = node->kind == REPLAY_KERNELS     ? WAITER_PIECE
              : node->launch == REPLAY_RECEIVE ? WAITER_RECEIVE
                                               : WAITER_COLLECTIVE;
    return *waiter != WAITER_COLLECTIVE || node->launch == REPLAY_COLLECTIVE;
}

/* Messages with one partner on one communicator may share a stream, as all on it may share its collectives'. */
static bool may_share_stream(const struct replay_node *send, const struct replay_node *node) {
    return node->launch != REPLAY_NO_LAUNCH && send->communicator == node->communicator &&
           (node->launch == REPLAY_COLLECTIVE || send->peer == node->peer);
}

static bool is_under_way(const struct replay_node *send, const struct replay_node *node) {
    return send->leave - TRACE_ROUNDED_NS > node->enter;
}

/* Of the sends launched before a node, how many of the last ones it need not wait for: at most `most`, and none that it
 * may follow on its stream. `sends`: `count` of them by launch, the last one last. */
static uint32_t sends_passed(const struct replay *replay, const struct replay_node *node, const uint32_t *sends,
                             uint32_t count, uint32_t most) {
    uint32_t passed = 0;
    while (passed < count && passed < most && !may_share_stream(&replay->nodes[sends[count - passed - 1]], node))
        passed++;
    return passed;
}

/* Goes through one flow by launch: counts sends under way, or places what waits for them. `sends` has room for all. */
static void pass_flow(struct launches *l, size_t flow, uint32_t *sends, struct under_way *counted, bool place) {
    struct replay *replay = l->replay;
    const struct sort_key *keys = l->keys + replay->launches_first[flow];
    uint32_t count = 0;
    for (uint32_t i = 0; i < flow_size(replay, flow); i++) {
        const struct replay_node *node = &replay->nodes[keys[i].index];
        enum waiter waiter;
        if (node->launch == REPLAY_SEND)
            sends[count++] = keys[i].index;
        if (!waits(node, &waiter))
            continue;
        uint32_t passed = sends_passed(replay, node, sends, count, place ? counted->most[waiter] : SENDS_MOST);
        if (place && passed > 0) {
            replay->reach_sends[keys[i].index] = passed < count ? replay->place[sends[count - passed - 1]] : 0;
            continue;
        }
        uint32_t open = 0;
        while (open < passed && is_under_way(&replay->nodes[sends[count - open - 1]], node))
            open++;
        counted->times[waiter][open] += !place;
    }
}

static void find_most(struct under_way *counted) {
    for (int w = 0; w < WAITERS; w++) {
        uint32_t times = 0;
        for (uint32_t open = SENDS_MOST; open > 0 && counted->most[w] == 0; open--) {
            times += counted->times[w][open];
            counted->most[w] = times >= SENDS_SEEN_LEAST ? open : 0;
        }
    }
}

static bool pass_sends(struct launches *l) {
    struct under_way counted = {0};
    uint32_t *sends = malloc((l->replay->node_count + 1) * sizeof *sends);
    for (size_t f = 0; sends && f < l->replay->flow_count; f++)
        pass_flow(l, f, sends, &counted, false);
    find_most(&counted);
    for (size_t f = 0; sends && f < l->replay->flow_count; f++)
        pass_flow(l, f, sends, &counted, true);
    free(sends);
    return sends != NULL;
}

bool replay_place_launches(struct replay *replay) {
    struct launches l;
    if (!any_piece(replay))
        return true;
    bool done = launches_begin(&l, replay);
    if (done) {
        place_flows(&l);
        done = pass_sends(&l);
    }
    launches_end(&l);
    return done;
}
