/* SPDX-License-Identifier: Apache-2.0
 *
 * The profiler plugin as NCCL 2.28 loads and calls it (src/plugin/profiler.cc there).
 *
 * Environment: NCCL_PROFILER_PLUGIN as for the real library; STANDIN_PROFILER_VERSION = 4, 5 or 6, the newest version
 * that is asked for (default: that of STANDIN_NCCL_VERSION); STANDIN_GLOBALTIMER_NS, what the GPU's globaltimer is
 * ahead of CLOCK_MONOTONIC. Lives here: loading, and every event. Must not live here: what is profiled.
 */
#ifndef STANDIN_NCCL_PLUGIN_H
#define STANDIN_NCCL_PLUGIN_H

#include "test/standin/nccl/group.h"

void plugin_init(ncclComm_t comm);
void plugin_finalize(ncclComm_t comm);

/* Around one call, in the caller's thread. begin() also opens the group's event and leaves mask and handles in the
 * task. */
void plugin_call_begin(struct task *task, uint64_t capture);
void plugin_call_end(const struct task *task);
/* An implicit or explicit group is entered (by an operation's call) or left (by anyone). */
void plugin_group_nest(void);
void plugin_group_unnest(void);
void plugin_group_closed(void);

/* Around the launch of a plan. */
void plugin_launch_begin(struct plan *plan, cudaStream_t stream);
void plugin_launch_end(struct plan *plan);
/* Announces the group and its tasks: right after the launch, or, where a captured plan has work for the proxy, at
 * every replay. */
bool plugin_announces_at_replay(const struct plan *plan);
void plugin_announce(struct plan *plan);

/* Around a kernel, on the stream's thread: per task and channel the times of the GPU's globaltimer. */
struct kernel_trace;
struct kernel_trace *kernel_begin(struct plan *plan);
void kernel_end(struct kernel_trace *trace);

/* One message through the proxy: only between ranks of different hosts; otherwise all of these do nothing. */
struct proxy_trace {
    void *context, *op, *step_handle;
    int mask, rank, step;
    bool active, sends;
};
void proxy_begin(struct proxy_trace *trace, ncclComm_t comm, struct task *task, int peer, bool sends, size_t bytes);
/* A chunk's step: from the moment this rank would move it (begin() again while it waits does nothing), through being
 * sent or received, to its end. */
void proxy_step_begin(struct proxy_trace *trace);
void proxy_step_sent(struct proxy_trace *trace, size_t bytes);
void proxy_step_received(struct proxy_trace *trace, size_t bytes); /* ends it too */
void proxy_step_end(struct proxy_trace *trace);
void proxy_end(struct proxy_trace *trace);

#endif
