/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "analyzer/replay/replay_build.h"
#include "analyzer/replay/replay_ended.h"

/* ---- the order on one dump ------------------------------------------------------------------- */

struct flow_end {
    int64_t at;
    uint32_t node;
};

static int compare_endings(const void *a, const void *b) {
    const struct flow_end *left = a, *right = b;
    if (left->at != right->at)
        return left->at < right->at ? -1 : 1;
    return (left->node > right->node) - (left->node < right->node);
}

/* What began right behind a kernel needed it, and a launch right behind another one lay on its stream. */
static bool ends_before(const struct replay_node *ending, const struct replay_node *entering) {
    bool rounded =
        ending->kind == REPLAY_KERNELS || entering->kind == REPLAY_KERNELS || (ending->launch && entering->launch);
    return ending->leave - (rounded ? TRACE_ROUNDED_NS : 0) <= entering->enter;
}

/* The dump's enterings and leavings as they were recorded; of one moment, leaving comes first. */
static void order_dump(const struct replay *replay, size_t dump, struct flow_end *endings, uint32_t *events) {
    size_t first = replay->first[dump], count = replay->first[dump + 1] - first, left = 0;
    bool sorted = true;
    for (size_t i = 0; i < count; i++) {
        endings[i] = (struct flow_end){replay->nodes[first + i].leave, (uint32_t)(first + i)};
        sorted &= i == 0 || endings[i].at >= endings[i - 1].at;
    }
    if (!sorted)
        qsort(endings, count, sizeof *endings, compare_endings);
    for (size_t i = 0; i < count; i++) {
        for (; left < count && endings[left].node < first + i &&
               ends_before(&replay->nodes[endings[left].node], &replay->nodes[first + i]);
             left++)
            *events++ = endings[left].node << 1 | 1;
        *events++ = (uint32_t)(first + i) << 1;
    }
    for (; left < count; left++)
        *events++ = endings[left].node << 1 | 1;
}

static bool order_dumps(struct replay *replay, uint32_t *events) {
    size_t most = 0;
    for (size_t d = 0; d < replay->dump_count; d++)
        if (replay->first[d + 1] - replay->first[d] > most)
            most = replay->first[d + 1] - replay->first[d];
    struct flow_end *endings = malloc((most + 1) * sizeof *endings);
    for (size_t d = 0; endings && d < replay->dump_count; d++)
        order_dump(replay, d, endings, events + 2 * replay->first[d]);
    free(endings);
    return endings != NULL;
}

/* When each flow's first node is entered. */
static bool find_starts(struct replay *replay) {
    replay->flow_start = malloc((replay->flow_count + 1) * sizeof *replay->flow_start);
    for (size_t n = replay->node_count; replay->flow_start && n-- > 0;) /* each dump's by enter */
        replay->flow_start[replay->nodes[n].flow] = replay->nodes[n].enter;
    return replay->flow_start != NULL;
}

/* When all had ended that a node needs. Nothing else explains why it began only when a send was over that it need not
 * have waited for: it did wait. */
static int64_t ready_at(struct replay *replay, const struct replay_ended *ended, uint32_t node) {
    int64_t ready = replay->flow_start[replay->nodes[node].flow];
    int64_t pieces = replay_ended_pieces(ended, node), others = replay_ended_others(ended, node);
    ready = pieces > ready ? pieces : ready;
    ready = others > ready ? others : ready;
    if (!replay->place || replay->reach_sends[node] == replay->reach[node])
        return ready;
    uint32_t reach = replay->reach_sends[node];
    replay->reach_sends[node] = replay->reach[node];
    others = replay_ended_others(ended, node);
    if (others > ready + TRACE_ROUNDED_NS)
        return others;
    replay->reach_sends[node] = reach;
    return ready;
}

/* Own work before every node, from the recorded times. */
static bool measure_work(struct replay *replay, const uint32_t *events) {
    struct replay_ended ended;
    bool done = replay_ended_begin(&ended, replay) && find_starts(replay);
    for (size_t i = 0; done && i < 2 * replay->node_count; i++) {
        uint32_t n = events[i] >> 1;
        const struct replay_node *node = &replay->nodes[n];
        if (events[i] & 1) {
            replay_ended_add(&ended, n, node->leave);
            continue;
        }
        replay->work_ns[n] = node->enter - ready_at(replay, &ended, n);
    }
    replay_ended_free(&ended);
    return done;
}

/* ---- the order on all dumps ------------------------------------------------------------------ */

struct ordering {
    struct replay *replay;
    const uint32_t *events;
    size_t *at;         /* per dump: its next event */
    uint32_t *awaited;  /* per dump: the link it waits for, NOWHERE */
    uint32_t *next;     /* per dump: the next one that waits for the same link */
    uint32_t *waiting;  /* per link: the first dump that waits for it, NOWHERE */
    uint32_t *missing;  /* per link: members that have not come */
    uint32_t *runnable; /* dumps that may go on */
    size_t runnable_count, ordered;
};

static void make_runnable(struct ordering *o, uint32_t link) {
    for (uint32_t d = o->waiting[link]; d != NOWHERE; d = o->next[d]) {
        o->awaited[d] = NOWHERE;
        o->runnable[o->runnable_count++] = d;
    }
    o->waiting[link] = NOWHERE;
}

/* A link that a node cannot be left without, NOWHERE when all are complete. */
static uint32_t incomplete(const struct ordering *o, uint32_t node) {
    const struct replay *replay = o->replay;
    for (uint32_t t = replay->takes_first[node]; t < replay->takes_first[node + 1]; t++)
        if (replay->takes[t] != NOWHERE && o->missing[replay->takes[t]] > 0)
            return replay->takes[t];
    return NOWHERE;
}

static void advance_dump(struct ordering *o, uint32_t dump) {
    const struct replay *replay = o->replay;
    for (; o->at[dump] < 2 * replay->first[dump + 1]; o->at[dump]++) {
        uint32_t event = o->events[o->at[dump]], node = event >> 1;
        if (event & 1) {
            uint32_t link = incomplete(o, node);
            if (link != NOWHERE) {
                o->awaited[dump] = link;
                o->next[dump] = o->waiting[link];
                o->waiting[link] = dump;
                return;
            }
        } else {
            for (uint32_t g = replay->gives_first[node]; g < replay->gives_first[node + 1]; g++)
                if (--o->missing[replay->gives[g]] == 0)
                    make_runnable(o, replay->gives[g]);
        }
        o->replay->order[o->ordered++] = event;
    }
}

/* Records that contradict each other wait in a circle: of those who wait, the one whose call ended first stops waiting
 * for what is not there. */
static void untie(struct ordering *o) {
    const struct replay *replay = o->replay;
    uint32_t best = NOWHERE;
    for (uint32_t d = 0; d < replay->dump_count; d++) {
        if (o->awaited[d] == NOWHERE)
            continue;
        if (best == NOWHERE ||
            replay->nodes[o->events[o->at[d]] >> 1].leave < replay->nodes[o->events[o->at[best]] >> 1].leave)
            best = d;
    }
    uint32_t node = o->events[o->at[best]] >> 1, *place = &o->waiting[o->awaited[best]];
    while (*place != best)
        place = &o->next[*place];
    *place = o->next[best];
    o->awaited[best] = NOWHERE;
    for (uint32_t t = replay->takes_first[node]; t < replay->takes_first[node + 1]; t++)
        if (replay->takes[t] != NOWHERE && o->missing[replay->takes[t]] > 0)
            replay->takes[t] = NOWHERE;
    o->replay->untied++;
    o->runnable[o->runnable_count++] = best;
}

static bool begin_ordering(struct ordering *o) {
    const struct replay *replay = o->replay;
    size_t dumps = replay->dump_count, links = replay->link_count;
    o->at = malloc((dumps + 1) * sizeof *o->at);
    o->awaited = malloc((dumps + 1) * sizeof *o->awaited);
    o->next = malloc((dumps + 1) * sizeof *o->next);
    o->runnable = malloc((dumps + 1) * sizeof *o->runnable);
    o->waiting = malloc((links + 1) * sizeof *o->waiting);
    o->missing = calloc(links + 1, sizeof *o->missing);
    if (!o->at || !o->awaited || !o->next || !o->runnable || !o->waiting || !o->missing)
        return false;
    for (size_t l = 0; l < links; l++)
        o->waiting[l] = NOWHERE;
    for (uint32_t g = 0; g < replay->gives_first[replay->node_count]; g++)
        o->missing[replay->gives[g]]++;
    for (uint32_t d = 0; d < dumps; d++) {
        o->at[d] = 2 * replay->first[d];
        o->awaited[d] = NOWHERE;
        o->runnable[o->runnable_count++] = d;
    }
    return true;
}

static bool order_all(struct replay *replay, const uint32_t *events) {
    struct ordering o = {.replay = replay, .events = events};
    bool done = begin_ordering(&o);
    while (done && o.ordered < 2 * replay->node_count) {
        if (o.runnable_count == 0)
            untie(&o);
        advance_dump(&o, o.runnable[--o.runnable_count]);
    }
    free(o.at);
    free(o.awaited);
    free(o.next);
    free(o.runnable);
    free(o.waiting);
    free(o.missing);
    return done;
}

bool replay_order(struct replay *replay) {
    size_t events_bytes = (2 * replay->node_count + 1) * sizeof(uint32_t);
    uint32_t *events = malloc(events_bytes);
    replay->order = malloc(events_bytes);
    replay->work_ns = malloc((replay->node_count + 1) * sizeof *replay->work_ns);
    bool done = events && replay->order && replay->work_ns && order_dumps(replay, events) &&
                measure_work(replay, events) && order_all(replay, events);
    free(events);
    return done;
}
