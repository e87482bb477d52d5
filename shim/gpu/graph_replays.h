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
#define LAUNCH_CHUNKS      128u /* 4096 launches in one graph are timed */
#define GRAPHS_MAX         65536u

struct captured_launch {
    void *start, *stop;   /* nodes' events: this launch's alone, kept for the place's next tenant */
    uint32_t incarnation; /* of the device whose events they are */
    uint32_t epoch_bits;
    bool timed, dropped;
    uint64_t sampled_t0; /* of the last replay found by sampling */
    struct gpu_launch launch;
    struct gpu_span carrier; /* from the capture's beginning to its end */
};

struct captured_graph {
    uint32_t taken;
    uint32_t number; /* of its place, from 0 */
    uint32_t users;  /* executable graphs, and 1 while the graph itself lives */
    uint64_t capture_id;
    struct gpu_device *device;
    uint32_t launch_count;
    uint32_t plain;       /* further launches, that are only counted: of graphs in it, and beyond the last place */
    uint32_t unfollowed;  /* of all of them, those that no executable graph was seen to be made with */
    uint32_t nested;      /* it is part of another graph, whose replays write its events, too: nothing is timed */
    uint64_t replay;      /* the last one launched: see below */
    uint32_t former;      /* replays of the graphs that had this place before: numbers go on */
    uint64_t captured_ns; /* when the last of its launches was captured */
    uint32_t seen;        /* its executable graphs are seen: nothing is left to sampling */
    struct captured_launch *chunks[LAUNCH_CHUNKS];
    struct capture_contents contents;
};

/* One word for a replay, so that a launch of it is either read by the harvester or counted as lost by the thread that
 * begins the next one, never both: number of the replay, REPLAY_UNREAD until it is done with, how many launches it has,
 * how many of them were read. */
#define REPLAY_ONE       (UINT64_C(1) << 42)
#define REPLAY_UNREAD    (UINT64_C(1) << 41)
#define REPLAY_TOTAL     (UINT64_C(1) << 14)
#define REPLAY_TOTAL_MAX ((1u << 27) - 1)

static inline uint32_t replay_number(uint64_t replay) {
    return (uint32_t)(replay / REPLAY_ONE);
}

/* Launches that were not read. */
static inline uint64_t replay_left(uint64_t replay) {
    return (replay & (REPLAY_UNREAD - 1)) / REPLAY_TOTAL - replay % REPLAY_TOTAL;
}

static inline struct captured_launch *captured_launch_at(const struct captured_graph *captured, uint32_t i) {
    return &captured->chunks[i / LAUNCHES_PER_CHUNK][i % LAUNCHES_PER_CHUNK];
}

/* Of its first `count` launches those that the graph really holds: not the ones whose call failed. */
uint32_t captured_launches(const struct captured_graph *captured, uint32_t count);

/* A free place for a graph of this device's, taken; NULL when there is none. Events of a former tenant stay with the
 * place, which is its device's for good. */
struct captured_graph *captured_graph_take(struct gpu_device *device);
void captured_graph_give_back(struct captured_graph *captured);

/* The place with a number, NULL where there is none yet. */
struct captured_graph *captured_graph_at(uint32_t number);

/* Launches of replays whose times nobody will know. */
void count_untimed_replays(uint64_t launches);

/* Once per activation: forgets everything. */
void graph_replays_begin(void);

/* Looks for replays of graphs that only show by their nodes, when it is time to. */
void graphs_sample(struct gpu_device *device, uint64_t now_ns);

/* The replay of a SPAN_REPLAY has ended. Returns the driver's status. */
int graphs_replayed(const struct gpu_span *span);
/* ... or nobody will know. */
void graphs_replay_lost(const struct gpu_span *span);

#endif
