/* SPDX-License-Identifier: Apache-2.0
 *
 * How long GPU work takes, without ever waiting for it: an event before a launch, one behind it, and a thread of our
 * own that looks later.
 * Lives here: what the wrappers of a communication library say about a launch; everything behind it is hidden.
 * Must not live here: which library launches, what a collective is.
 *
 * Every function may be called from any of the job's threads and never blocks, synchronises or fails the job. A launch
 * that cannot be timed is counted in the dump's losses and otherwise forgotten.
 */
#ifndef COMMTAP_GPU_TIMING_H
#define COMMTAP_GPU_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/captures.h"
#include "shim/gpu/launch.h"

/* One launch between its two events. Taken from a pool, given back by the harvester. */
struct gpu_span;

/* A communicator of the job is about to be used on the calling thread's current device: prepares a pool of events for
 * its context and starts the harvester with the first. Returns the device's index in the dump, -1 when GPU operations
 * are not timed (no driver, no context, switched off). Called after the library has created a communicator:
 * only then the context is sure to exist. */
int gpu_attach_device(void);

/* The same for the device with this number in the process (communicators made for several devices at once). */
int gpu_attach_ordinal(int ordinal);

#define GPU_STREAMS_UNTIMED 2u /* streams of a launch of which no node may be made in a graph */

/* Records the start. `device` as gpu_attach_device gave it for the communicator; `stream` is what the job passed, the
 * special handles 0, 1 and 2 included; `streams` is how many different streams of the job take part in the launch: a
 * captured launch of several is counted only, since a node behind it would have no way back to the job's stream.
 * NULL: this launch is not timed. */
struct gpu_span *gpu_span_begin(int device, void *stream, uint32_t streams);

/* Whether the device can begin a kernel before the one in front of it on the stream has ended, where its launch asks
 * for that (a programmatic dependent launch: compute capability 9, CUDA 12.3). */
bool gpu_overlaps_launches(int device);

/* Instead of gpu_span_begin for such a launch, from which an event in front would take the overlap: it is not timed,
 * but where COMMTAP_GPU_TIMING=events asks for times at that price. Its replays in graphs are counted. */
struct gpu_span *gpu_span_begin_overlapping(int device, void *stream, uint32_t streams);

/* True for a span under graph capture: nothing runs until the graph does. NULL: false. */
bool gpu_span_is_captured(const struct gpu_span *span);
/* Of such a span: messages that it holds; its collectives gpu_span_end tells. There are more, that are not known. */
void gpu_span_holds(const struct gpu_span *span, const struct capture_part *part);
void gpu_span_holds_more(const struct gpu_span *span);

/* Records the stop on the same stream and hands the span to the harvester. NULL is accepted. */
void gpu_span_end(struct gpu_span *span, const struct gpu_launch *launch);

/* The launch never happened (the call failed, or was only simulated). */
void gpu_span_drop(struct gpu_span *span);

/* True while `stream` is being captured into a graph. */
bool gpu_stream_is_capturing(int device, void *stream);

/* Are launches timed by events here, or would be but for the next function? */
bool gpu_events_are_in_use(void);

/* Launches are not timed for COMMTAP_BUDGET's sake, or are again. Captured ones, whose events cost once, are always. */
void gpu_events_shed(bool shed);

/* The communicator with this local index was aborted: its launches in flight will not be waited for. */
void gpu_abort_communicator(uint32_t comm);

/* At the library's end: one bounded look at what is finished, the rest is counted as unfinished. Stops the harvester
 * without waiting for it. */
void gpu_timing_exit(void);

#endif
