/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: the fixpoint and the search for cycles.
 * Must not live here: ranks, calls, dumps.
 */
#include "analyzer/base/and_or_graph.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"

enum { STARTS_MAX = 32 }; /* nodes of the first cycle from which a shorter one is looked for */

uint32_t and_or_graph_node(struct and_or_graph *graph, bool any) {
    if (!grow_list(graph->any, graph->node_count)) {
        graph->no_memory = true;
        return AND_OR_GRAPH_NO_NODE;
    }
    graph->any[graph->node_count] = any;
    return graph->node_count++;
}

void and_or_graph_wait(struct and_or_graph *graph, uint32_t from, uint32_t to) {
    if (from == AND_OR_GRAPH_NO_NODE || to == AND_OR_GRAPH_NO_NODE)
        return;
    if (!grow_list(graph->edges, graph->edge_count)) {
        graph->no_memory = true;
        return;
    }
    graph->edges[graph->edge_count++] = (struct and_or_graph_edge){from, to};
}

/* Sorts the other ends of all edges by node: by `from` (forward) or by `to`. Stable. */
static void index_edges(const struct and_or_graph *graph, bool forward, size_t *first, uint32_t *ends) {
    memset(first, 0, (graph->node_count + 1) * sizeof *first);
    for (size_t e = 0; e < graph->edge_count; e++)
        first[(forward ? graph->edges[e].from : graph->edges[e].to) + 1]++;
    for (uint32_t n = 0; n < graph->node_count; n++)
        first[n + 1] += first[n];
    for (size_t e = 0; e < graph->edge_count; e++) {
        const struct and_or_graph_edge *edge = &graph->edges[e];
        ends[first[forward ? edge->from : edge->to]++] = forward ? edge->to : edge->from;
    }
    for (uint32_t n = graph->node_count; n > 0; n--)
        first[n] = first[n - 1];
    first[0] = 0;
}

/* Scratch of the fixpoint. */
struct release {
    size_t *first;     /* waiters of a node */
    uint32_t *waiters; /* by node */
    size_t *open;      /* targets that must still be released */
    uint32_t *queue;
};

/* `free_nodes`: these, too; NULL: none. */
static void run_release(const struct and_or_graph *graph, struct release *r, const bool *free_nodes, bool *released) {
    size_t head = 0, tail = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        r->open[n] = graph->any[n] ? 1 : graph->first[n + 1] - graph->first[n];
        if (r->open[n] == 0 || (free_nodes && free_nodes[n])) {
            released[n] = true;
            r->queue[tail++] = n;
        }
    }
    while (head < tail) {
        uint32_t n = r->queue[head++];
        for (size_t i = r->first[n]; i < r->first[n + 1]; i++) {
            uint32_t waiter = r->waiters[i];
            if (!released[waiter] && --r->open[waiter] == 0) {
                released[waiter] = true;
                r->queue[tail++] = waiter;
            }
        }
    }
}

/* Into `released`, which is clear. */
static bool release(const struct and_or_graph *graph, const bool *free_nodes, bool *released) {
    size_t nodes = (size_t)graph->node_count + 1;
    struct release r = {.first = malloc(nodes * sizeof *r.first),
                        .waiters = malloc((graph->edge_count + 1) * sizeof *r.waiters),
                        .open = malloc(nodes * sizeof *r.open),
                        .queue = malloc(nodes * sizeof *r.queue)};
    bool done = r.first && r.waiters && r.open && r.queue;
    if (done) {
        index_edges(graph, false, r.first, r.waiters);
        run_release(graph, &r, free_nodes, released);
    }
    free(r.first);
    free(r.waiters);
    free(r.open);
    free(r.queue);
    return done;
}

bool and_or_graph_release(struct and_or_graph *graph) {
    size_t nodes = (size_t)graph->node_count + 1;
    graph->released = calloc(nodes, sizeof *graph->released);
    graph->first = malloc(nodes * sizeof *graph->first);
    graph->targets = malloc((graph->edge_count + 1) * sizeof *graph->targets);
    if (!graph->released || !graph->first || !graph->targets)
        graph->no_memory = true;
    if (graph->no_memory)
        return false;
    index_edges(graph, true, graph->first, graph->targets);
    graph->no_memory = !release(graph, NULL, graph->released);
    return !graph->no_memory;
}

bool and_or_graph_release_with(const struct and_or_graph *graph, const bool *free_nodes, bool *released) {
    memset(released, 0, graph->node_count * sizeof *released);
    return release(graph, free_nodes, released);
}

/* ---- who waits for some ---------------------------------------------------------------------- */

/* `queue` holds the goals. */
static void run_marks(const struct and_or_graph *graph, const size_t *first, const uint32_t *waiters, uint32_t *queue,
                      size_t tail, uint8_t *marks) {
    for (size_t head = 0; head < tail; head++)
        for (size_t i = first[queue[head]]; i < first[queue[head] + 1]; i++) {
            uint32_t waiter = waiters[i];
            if (graph->released[waiter] || marks[waiter] & AND_OR_GRAPH_WAITS)
                continue;
            marks[waiter] |= AND_OR_GRAPH_WAITS;
            if (!(marks[waiter] & (AND_OR_GRAPH_BORDER | AND_OR_GRAPH_GOAL))) /* goals are in the queue already */
                queue[tail++] = waiter;
        }
}

bool and_or_graph_mark_waiters(const struct and_or_graph *graph, uint8_t *marks) {
    size_t *first = malloc(((size_t)graph->node_count + 1) * sizeof *first), goals = 0;
    uint32_t *waiters = calloc(graph->edge_count + 1, sizeof *waiters);
    uint32_t *queue = malloc(((size_t)graph->node_count + 1) * sizeof *queue);
    bool done = first && waiters && queue;
    if (done) {
        index_edges(graph, false, first, waiters);
        for (uint32_t n = 0; n < graph->node_count; n++)
            if (marks[n] & AND_OR_GRAPH_GOAL)
                queue[goals++] = n;
        run_marks(graph, first, waiters, queue, goals, marks);
    }
    free(first);
    free(waiters);
    free(queue);
    return done;
}

/* ---- cycles ---------------------------------------------------------------------------------- */

/* The first target of an unreleased node that is not released either. */
static uint32_t next_stuck(const struct and_or_graph *graph, uint32_t node) {
    for (size_t i = graph->first[node]; i < graph->first[node + 1]; i++)
        if (!graph->released[graph->targets[i]])
            return graph->targets[i];
    return AND_OR_GRAPH_NO_NODE; /* ANY of nothing */
}

/* Shortest way from `start` back to itself by breadth. `before` and `queue` are scratch of all nodes. Returns the
 * length and leaves the way in `before`, 0 when there is none shorter than `limit`. */
static size_t search(const struct and_or_graph *graph, uint32_t start, uint32_t *before, uint32_t *queue,
                     size_t limit) {
    size_t head = 0, tail = 0, depth = 0, level_end = 1;
    memset(before, 0xff, graph->node_count * sizeof *before);
    queue[tail++] = start;
    for (; head < tail; head++) {
        if (head == level_end) {
            level_end = tail;
            if (++depth + 1 >= limit)
                return 0;
        }
        for (size_t i = graph->first[queue[head]]; i < graph->first[queue[head] + 1]; i++) {
            uint32_t to = graph->targets[i];
            if (graph->released[to] || before[to] != AND_OR_GRAPH_NO_NODE)
                continue;
            before[to] = queue[head];
            if (to == start)
                return depth + 1;
            queue[tail++] = to;
        }
    }
    return 0;
}

/* Any cycle that following first targets from `start` runs into; its first nodes. */
static size_t walk_cycle(const struct and_or_graph *graph, uint32_t start, uint32_t *seen, uint32_t *nodes) {
    memset(seen, 0, graph->node_count * sizeof *seen);
    uint32_t at = start;
    for (; at != AND_OR_GRAPH_NO_NODE && !seen[at]; at = next_stuck(graph, at))
        seen[at] = 1;
    if (at == AND_OR_GRAPH_NO_NODE)
        return 0;
    size_t count = 0;
    for (uint32_t n = at; count < STARTS_MAX && (count == 0 || n != at); n = next_stuck(graph, n))
        nodes[count++] = n;
    return count;
}

size_t and_or_graph_cycle(const struct and_or_graph *graph, uint32_t start, uint32_t *nodes, size_t capacity) {
    uint32_t starts[STARTS_MAX], *before = malloc(graph->node_count * sizeof *before);
    uint32_t *queue = malloc(graph->node_count * sizeof *queue), best_start = AND_OR_GRAPH_NO_NODE;
    size_t best = SIZE_MAX, count = before && queue ? walk_cycle(graph, start, before, starts) : 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = search(graph, starts[i], before, queue, best);
        if (length > 0) {
            best = length;
            best_start = starts[i];
        }
    }
    if (best_start != AND_OR_GRAPH_NO_NODE && search(graph, best_start, before, queue, SIZE_MAX) > 0) {
        uint32_t node = before[best_start]; /* the last one: backwards to the start */
        for (size_t at = best; at-- > 0; node = before[node])
            if (at < capacity)
                nodes[at] = node;
    }
    free(before);
    free(queue);
    return best_start == AND_OR_GRAPH_NO_NODE ? 0 : best;
}

void and_or_graph_free(struct and_or_graph *graph) {
    free(graph->any);
    free(graph->released);
    free(graph->edges);
    free(graph->first);
    free(graph->targets);
    *graph = (struct and_or_graph){0};
}
