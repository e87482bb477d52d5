/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that work, meet in collectives and exchange messages, on hosts whose clocks are wrong: what happens to them,
 * and the dumps they would leave.
 * Lives here: the rules by which time passes. Must not live here: what the ranks do (workload.h), anything of the
 * analyzer's that could share a mistake with it.
 *
 * True time is one clock, ns since the job's start. The rules: nobody leaves a collective before everybody entered it;
 * a short message is buffered, its sender goes on at once; a long one is moved when both sides have come; a transfer
 * takes a latency and the time of its bytes on the slowest link it uses (collectives: a ring in the order of ranks).
 * Where ranks have a GPU, collectives run on its one stream: enqueued by the host, behind the stream's earlier work.
 */
#ifndef COMMTAP_TEST_ACTORS_H
#define COMMTAP_TEST_ACTORS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/load/dump.h"
#include "test/support/dump_builder.h"

enum act {
    ACT_WORK,       /* ns of own work (on the GPU's stream where there is one) */
    ACT_HOST,       /* ns of the host beside the GPU's stream */
    ACT_SYNC,       /* the host waits for the stream */
    ACT_COLLECTIVE, /* call, group, bytes: one that nobody leaves before everybody entered */
    ACT_SEND,       /* group, peer (its rank there), tag, bytes */
    ACT_RECEIVE,
    ACT_ISEND,
    ACT_IRECEIVE,
    ACT_WAIT_ALL, /* for all that was posted since the last one */
};

struct action {
    enum act act;
    uint16_t call;
    uint32_t group;
    int32_t peer, tag;
    uint64_t bytes;
    int64_t ns;
};

/* What a rank does in one step. */
struct script {
    struct action *items;
    size_t count, room;
};

void script_add(struct script *script, struct action action);

/* Clocks show (1 + drift) * t + offset + wander * sin(t), different for every host, each figure within +- the given. */
struct actor_clocks {
    double offset, drift, wander; /* s, 1, s */
    double realtime;              /* how far CLOCK_REALTIME is off, s */
};

struct actor_rules {
    uint64_t seed;
    unsigned ranks, ranks_per_host; /* 0 = all on one */
    double latency;                 /* ns */
    double bandwidth;               /* bytes per ns of every link */
    int slow_from, slow_to;         /* this pair's link, both ways, has ... */
    double slow_link;               /* ... this share of it; -1, -1, 1 = none */
    unsigned slow_hosts[2];         /* messages between these hosts likewise; equal: between this one and all others */
    bool between_hosts;             /* there are such */
    unsigned hosts_per_switch;      /* 0 = all on one */
    double switch_latency;          /* ns more for what passes between switches */
    double outliers;                /* share of collectives in which one member leaves a millisecond late */
    bool gpu;
    struct actor_clocks clocks;
    uint32_t ring_records; /* a power of two */
    bool compact;          /* the host's rings are of pages; without windows */
    uint32_t windows;      /* blocks for sampled windows, 0 = none are kept */
    uint32_t trace_window_level;
};

struct stage; /* everything at once */

struct stage *stage_new(const struct actor_rules *rules);
/* Makes a group of ranks; returns what actions name it by. Group 0 is the world and is there already. */
uint32_t stage_group(struct stage *stage, const char *name, unsigned start, unsigned count, unsigned stride);

/* Plays `steps` steps. `write` fills the script of one rank's next step; it is asked for each rank's steps in order,
 * but for the ranks in any order. */
void stage_play(struct stage *stage, unsigned steps,
                void (*write)(void *context, unsigned rank, unsigned step, struct script *script), void *context);

/* True time at which a rank began a step. */
int64_t stage_step_began(const struct stage *stage, unsigned rank, unsigned step);
/* What the clock of a rank's host shows then. */
int64_t stage_shown(const struct stage *stage, unsigned rank, int64_t when);
unsigned stage_host(const struct stage *stage, unsigned rank);

struct dump_builder *stage_builder(struct stage *stage, unsigned rank);
/* Opens all dumps; by rank, until stage_free. */
struct dump **stage_open(struct stage *stage);
/* Writes them into a directory. Returns 0, or -1 with errno set. */
int stage_write(struct stage *stage, const char *directory);
void stage_free(struct stage *stage);

#endif
