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
 * Whose executable graphs nobody sees being made (a statically linked CUDA runtime; clones and child graphs) is
 * sampled: its nodes are looked at now and then, and a replay found there is a record. How many there were is then
 * unknown.
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

/* The job made an executable graph, or gave it another's nodes; destroyed one; destroyed a graph. */
void graphs_instantiated(const void *executable, const void *graph);
void graphs_executable_destroyed(const void *executable);
void graphs_destroyed(const void *graph);

/* Around the job's launch of an executable graph: takes the times of the replay before. The result goes to
 * graphs_launched with whether the launch succeeded; NULL: holds nothing of ours. */
struct gpu_span *graphs_before_launch(const void *executable, void *stream);
void graphs_launched(struct gpu_span *span, bool succeeded);

#endif
