/* SPDX-License-Identifier: Apache-2.0
 *
 * live/: what a job that runs does now, from two readings of what its dumps count.
 * Lives here: one reading: counters of every process, how far every member of a communicator came.
 * Must not live here: opening or taking dumps anew, asking for the time, printing.
 *
 * Nothing here walks records: a reading costs the rows of the tables, however long the job runs.
 */
#ifndef COMMTAP_LIVE_SAMPLE_H
#define COMMTAP_LIVE_SAMPLE_H

#include "analyzer/wait_for_graph/world.h"

enum { LIVE_DEVICES_MAX = 16 };

/* When a reading was made. Dumps of this host are read in place; those of others are copies that were taken before. */
struct live_clock {
    const char *boot_id;           /* of this host */
    int64_t monotonic_ns;          /* here, now */
    int64_t elsewhere_realtime_ns; /* when the copies were taken, by the clock of this host */
};

/* By how much CLOCK_REALTIME of the dump's host, which hosts agree on, is ahead of its CLOCK_MONOTONIC. */
int64_t live_clocks_apart_ns(const struct dump *dump);

/* What one process has counted until now, and how much of it since the reading before. */
struct live_counters {
    uint64_t process; /* a number that is its own in every reading */
    int32_t rank;
    int64_t when_ns;  /* CLOCK_MONOTONIC of its host */
    uint64_t look;    /* dump_look */
    int64_t moved_ns; /* when it was last seen to have come on; in the first reading of it when_ns */
    bool paused;      /* recording is, by an order: its calls count nothing */
    uint64_t calls;
    uint64_t mpi_bytes;                    /* of MPI's calls */
    uint64_t enqueued_bytes;               /* of NCCL's calls on the host */
    uint64_t device_bytes;                 /* of what ran on GPUs: replays of graphs have no call */
    bool shared;                           /* threads share a lane: whose time it holds is not known */
    uint64_t waited_ns[DUMP_LANES_MAX];    /* by lane: inside calls that wait for others, the one it is in included */
    uint64_t exposed_ns[LIVE_DEVICES_MAX]; /* by GPU: its streams waited for communication */

    int64_t interval_ns; /* since an earlier reading; 0: there is none, and the rest is not known */
    bool moved;          /* it came on since */
    bool untold;         /* recording was paused meanwhile: the rates are not known */
    double calls_per_s, bytes_per_s;
    double wait_share; /* negative: not known */
};

struct live_sample {
    struct live_counters *items; /* per dump of the job */
    size_t count;
};

/* Reads all dumps of a job. `before` (NULL: none) is an earlier reading, perhaps of fewer dumps in another order.
 * Returns false when memory is short; the caller frees with live_sample_free in every case. */
bool live_sample_take(struct live_sample *sample, const struct job *job, const struct live_clock *clock,
                      const struct live_sample *before);
void live_sample_free(struct live_sample *sample);

/* The same process in another reading, NULL: it was not there. */
const struct live_counters *live_sample_find(const struct live_sample *sample, uint64_t process);

/* How far a member of a communicator has come. */
struct live_head {
    uint64_t enqueued;
    uint64_t last_enter; /* ticks; 0 unknown */
    bool known;
};

/* Reads all members of all communicators, one per membership of the world. NULL when memory is short. */
struct live_head *live_heads_read(const struct world *world);

#endif
