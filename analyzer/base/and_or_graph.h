/* SPDX-License-Identifier: Apache-2.0
 *
 * Who can never go on: an AND/OR graph of waits, solved by releasing from those who run.
 * Lives here: nodes, edges, the release fixpoint, shortest cycles of what is left.
 * Must not live here: ranks, calls, dumps.
 *
 * A node that waits for ALL of its targets is released when the last of them is, one that waits for ANY when the first
 * is. ALL of nothing is free, ANY of nothing never is.
 */
#ifndef COMMTAP_BASE_AND_OR_GRAPH_H
#define COMMTAP_BASE_AND_OR_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AND_OR_GRAPH_NO_NODE UINT32_MAX

struct and_or_graph_edge {
    uint32_t from, to;
};

struct and_or_graph {
    uint32_t node_count;
    bool *any;      /* per node: ANY, not ALL */
    bool *released; /* after and_or_graph_release */
    struct and_or_graph_edge *edges;
    size_t edge_count;
    bool no_memory;
    /* after and_or_graph_release: targets of node n are targets[first[n]] .. targets[first[n + 1] - 1], as added */
    size_t *first;
    uint32_t *targets;
};

/* Adds a node; AND_OR_GRAPH_NO_NODE when memory is short (no_memory is set then, and edges from or to it are ignored).
 */
uint32_t and_or_graph_node(struct and_or_graph *graph, bool any);
/* `from` waits for `to`. */
void and_or_graph_wait(struct and_or_graph *graph, uint32_t from, uint32_t to);

/* Releases whatever can be, in O(nodes + edges). Returns false when memory is or was short. */
bool and_or_graph_release(struct and_or_graph *graph);

/* The same as if those nodes were free, too (per node), into `released`. Returns false when memory is short. */
bool and_or_graph_release_with(const struct and_or_graph *graph, const bool *free_nodes, bool *released);

/* Marks of and_or_graph_mark_waiters, of which a node may have several. */
enum and_or_graph_mark {
    AND_OR_GRAPH_GOAL = 1,   /* whom the others are asked to wait for */
    AND_OR_GRAPH_BORDER = 2, /* who waits for this one is not asked further */
    AND_OR_GRAPH_WAITS = 4   /* added: it waits for a goal, over none of the border */
};

/* Adds AND_OR_GRAPH_WAITS to the nodes that were not released and that wait for one of the goals, themselves or by way
 * of others; `marks` is per node. Returns false when memory is short. */
bool and_or_graph_mark_waiters(const struct and_or_graph *graph, uint8_t *marks);

/* Shortest cycle among nodes that were not released that can be found from `start` (one of these), as nodes in the
 * order of waiting; written up to `capacity`. Returns its length, 0 when memory is short. Each unreleased node waits
 * for at least one other, so there always is a cycle. */
size_t and_or_graph_cycle(const struct and_or_graph *graph, uint32_t start, uint32_t *nodes, size_t capacity);

void and_or_graph_free(struct and_or_graph *graph);

#endif
