/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "analyzer/replay/replay_build.h"

/* A Wait that was entered when all it needs had come. */
struct late_wait {
    uint32_t before; /* like Waits have this in common (struct replay_node) */
    int64_t tail_ns;
};

static int compare_late_waits(const void *a, const void *b) {
    const struct late_wait *left = a, *right = b;
    if (left->before != right->before)
        return left->before < right->before ? -1 : 1;
    return (left->tail_ns > right->tail_ns) - (left->tail_ns < right->tail_ns);
}

/* When the last of what a node needs had come; INT64_MIN: it needs nothing. */
static int64_t last_come(const struct replay *replay, const int64_t *come, size_t node) {
    int64_t last = INT64_MIN;
    for (uint32_t t = replay->takes_first[node]; t < replay->takes_first[node + 1]; t++)
        if (replay->takes[t] != NOWHERE && come[replay->takes[t]] > last)
            last = come[replay->takes[t]];
    return last;
}

static size_t list_late_waits(struct late_wait *list, const struct replay *replay, const int64_t *come) {
    size_t count = 0;
    for (size_t n = 0; n < replay->node_count; n++) {
        int64_t last = last_come(replay, come, n);
        if (replay->nodes[n].kind == REPLAY_WAIT && last > INT64_MIN && replay->nodes[n].enter >= last)
            list[count++] = (struct late_wait){replay->nodes[n].before, replay->tail_ns[n]};
    }
    if (count > 0)
        qsort(list, count, sizeof *list, compare_late_waits);
    return count;
}

static size_t first_of(const struct late_wait *list, size_t count, uint32_t before) {
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (list[middle].before < before)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* The middle one of those alike, at most `most`. */
static int64_t usual_tail(const struct late_wait *list, size_t count, uint32_t before, int64_t most) {
    size_t first = first_of(list, count, before), end = before < UINT32_MAX ? first_of(list, count, before + 1) : count;
    return end > first && list[first + (end - first) / 2].tail_ns < most ? list[first + (end - first) / 2].tail_ns
                                                                         : most;
}

/* Of a Wait that came before what it needs, how long it would have taken had it come after that by at least its tail:
 * as long as like Waits did that came so. For all other nodes, and where there is none, the tail itself. `come`:
 * replay_arrivals. Returns false when memory is short. */
static bool find_late_tails(struct replay *replay, const int64_t *come) {
    struct late_wait *list = malloc((replay->node_count + 1) * sizeof *list);
    replay->late_tail_ns = malloc((replay->node_count + 1) * sizeof *replay->late_tail_ns);
    bool done = list && replay->late_tail_ns;
    size_t count = done ? list_late_waits(list, replay, come) : 0;
    for (size_t n = 0; done && n < replay->node_count; n++) {
        bool early = replay->nodes[n].kind == REPLAY_WAIT && last_come(replay, come, n) > replay->nodes[n].enter;
        replay->late_tail_ns[n] =
            early ? usual_tail(list, count, replay->nodes[n].before, replay->tail_ns[n]) : replay->tail_ns[n];
    }
    free(list);
    return done;
}

/* What is left of a node once everybody it needs is there. */
bool replay_measure_tails(struct replay *replay) {
    replay->tail_ns = malloc((replay->node_count + 1) * sizeof *replay->tail_ns);
    int64_t *come = replay_arrivals(replay);
    if (!come || !replay->tail_ns) {
        free(come);
        return false;
    }
    for (size_t n = 0; n < replay->node_count; n++) {
        int64_t since = replay->nodes[n].enter;
        for (uint32_t t = replay->takes_first[n]; t < replay->takes_first[n + 1]; t++)
            if (replay->takes[t] != NOWHERE && come[replay->takes[t]] > since)
                since = come[replay->takes[t]];
        replay->tail_ns[n] = replay->nodes[n].leave - since;
    }
    bool done = find_late_tails(replay, come);
    free(come);
    return done;
}
