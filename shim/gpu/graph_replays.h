/* SPDX-License-Identifier: Apache-2.0
 *
 * The launches that graphs hold, and their replays as the harvester reads them from the nodes' events.
 * Lives here: the table of captured graphs; reading a replay, or finding one by sampling.
 * Must not live here: what the job does with graphs (graphs.h).
 */
#ifndef COMMTAP_GPU_GRAPH_REPLAYS_H
#define COMMTAP_GPU_GRAPH_REPLAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/device.h"

#define LAUNCHES_PER_CHUNK 32u
#define LAUNCH_CHUNKS      128u /* 4096 launches in one graph */

struct captured_launch {
    void *start, *stop;   /* nodes' events: this launch's alone, kept for the place's next tenant */
    uint32_t incarnation; /* of the device whose events they are */
    uint32_t epoch_bits;
    bool timed, dropped;
    uint64_t sampled_t0; /* of the last replay found by sampling */
    struct gpu_launch launch;
};

struct captured_graph {
    uint32_t taken;
    uint32_t users; /* executable graphs, and 1 while the graph itself lives */
    uint64_t capture_id;
    struct gpu_device *device;
    uint32_t launch_count;
    uint64_t replay;      /* the last one launched: see REPLAY_UNREAD */
    uint64_t captured_ns; /* when the last of them was captured */
    uint32_t seen;        /* its executable graphs are seen: nothing is left to sampling */
    struct captured_launch *chunks[LAUNCH_CHUNKS];
};

/* One word for a replay, so that a launch of it is either read by the harvester or counted as lost by the thread that
 * begins the next one, never both: number of the replay in the high half, REPLAY_UNREAD until it is done with, launches
 * read of it below. */
#define REPLAY_ONE    (UINT64_C(1) << 32)
#define REPLAY_UNREAD (UINT64_C(1) << 31)

static inline uint32_t replay_number(uint64_t replay) {
    return (uint32_t)(replay >> 32);
}

static inline uint32_t replay_read(uint64_t replay) {
    return (uint32_t)(replay & (REPLAY_UNREAD - 1));
}

static inline struct captured_launch *captured_launch_at(const struct captured_graph *captured, uint32_t i) {
    return &captured->chunks[i / LAUNCHES_PER_CHUNK][i % LAUNCHES_PER_CHUNK];
}

/* Those that the graph really holds: not the ones whose call failed. */
uint32_t captured_launches(const struct captured_graph *captured);

/* A free place for a graph of this device's, taken; NULL when there is none. Events of a former tenant stay with the
 * place. */
struct captured_graph *captured_graph_take(const struct gpu_device *device);

/* Launches of replays whose times nobody will know. */
void count_untimed_replays(uint64_t launches);

/* Forgets everything. */
void graph_replays_begin(void);

/* Looks for replays of graphs that only show by their nodes, when it is time to. */
void graphs_sample(struct gpu_device *device, uint64_t now_ns);

/* The replay of a SPAN_REPLAY has ended. Returns the driver's status. */
int graphs_replayed(const struct gpu_span *span);
/* ... or nobody will know. */
void graphs_replay_lost(const struct gpu_span *span);

#endif
