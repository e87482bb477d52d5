/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication inside CUDA graphs: nothing runs when it is captured, and everything again at each replay.
 * Lives here: which launches a graph holds, event nodes around them, which executable graph is made of which, what is
 * done at a replay's launch.
 * Must not live here: the interception of the job's calls (wrap_cuda.c), reading the nodes' events (graph_replays.h).
 *
 * An event node is written anew by each replay, so a replay must be read before the next one of its graph is launched.
 * Where it has not finished by then, its launches are counted in the losses (replays_untimed).
 *
 * Two captures that are alike get the same nodes, or one could not update the executable graph of the other. Without
 * nodes, so that their replays are counted and not timed, are what is captured into a graph that exists already (the
 * bodies of conditional nodes, where event nodes are forbidden, are captured so), and graphs that others contain.
 *
 * Whose executable graphs nobody sees being made (a statically linked CUDA runtime; clones, bodies of conditional
 * nodes) is sampled: its nodes are looked at now and then, and a replay found there is a record. How many there were is
 * then unknown: such launches are counted in the header (captured_unfollowed).
 */
#ifndef COMMTAP_GPU_GRAPHS_H
#define COMMTAP_GPU_GRAPHS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/device.h"

/* Once per activation: forgets everything. */
void graphs_begin(void);

/* A launch on a stream under capture: a node for its start, where it can be timed. The span only carries it to
 * graphs_capture_end. NULL when nothing can be kept of it. */
struct gpu_span *graphs_capture_begin(struct gpu_device *device, void *stream, uint32_t streams);
void graphs_capture_end(struct gpu_span *span, const struct gpu_launch *launch);
void graphs_capture_drop(struct gpu_span *span);
/* That launch is, or holds, these operations. */
void graphs_capture_holds(const struct gpu_span *span, const struct capture_part *part);
/* ... and others that are not known. */
void graphs_capture_holds_more(const struct gpu_span *span);

/* The job captures into a graph of its own; made a copy of one; made one a part of another. */
void graphs_captured_into(const void *graph);
void graphs_cloned(const void *clone, const void *graph);
void graphs_child_added(const void *graph, const void *child);

/* The job made an executable graph, or gave it another's nodes; destroyed one; destroyed a graph. */
void graphs_instantiated(const void *executable, const void *graph);
void graphs_executable_destroyed(const void *executable);
void graphs_destroyed(const void *graph);

/* The job's launch of an executable graph that holds something of ours. */
struct graph_launch {
    struct captured_graph *graph;
    void *stream;
    uint32_t launches;     /* of its graph's, from the first one, that it was made with */
    uint32_t plain;        /* ... and of those that are only counted */
    bool into_capture;     /* it becomes a part of the graph that is being captured */
    bool quiet;            /* nothing is recorded now: it is neither timed nor lost */
    bool timed;            /* its nodes' events are to be read */
    uint32_t number;       /* of the replay */
    struct gpu_span *span; /* NULL: this replay can neither be timed nor followed to its end */
};

/* Around it: takes the times of the replay before; false: holds nothing of ours, and graphs_launched is not called. */
bool graphs_before_launch(struct graph_launch *launch, const void *executable, void *stream);
void graphs_launched(struct graph_launch *launch, bool succeeded);

#endif
