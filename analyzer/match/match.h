/* SPDX-License-Identifier: Apache-2.0
 *
 * match/: the same collective on all ranks, a send and its receive. Traces -> instances and messages.
 * Lives here: the contract of matching collectives by (communicator, number) and messages by (communicator, sender,
 * receiver, tag, ordinal), and of walking all records once. What ran on GPUs is matched by the records of its launches.
 * Must not live here: what a late arrival costs, who is to blame.
 *
 * All dumps are walked once, together, in time order. Memory is bounded by how far ranks are apart, not by the number
 * of records. Each of several workers reads its share of the dumps and tells those who pair what it read (arrivals.h):
 * a collective has one worker who puts it together, by its number, and a message that of the receiver's dump. Everybody
 * takes what was read in one order of batches, so the instances are the same for any number of workers; only the order
 * of delivery differs. What a consumer makes of instances and records must therefore not depend on their order between
 * workers: sums, extremes, counts. All messages to one dump go to one worker, and in one order.
 */
#ifndef COMMTAP_MATCH_MATCH_H
#define COMMTAP_MATCH_MATCH_H

#include <stdbool.h>

#include "analyzer/base/team.h"
#include "analyzer/match/instances.h"

enum {
    MATCH_THREADS_MAX = 8,  /* of one process */
    MATCH_WORKERS_MAX = 64, /* of all: each looks at every batch that any of them has read */
};

/* Walks all dumps of `clock` with `workers` (1 .. MATCH_THREADS_MAX) threads; states[i] is handed to the consumers of
 * worker i. Returns false when memory is short. */
bool match_run(const struct common_clock *clock, const struct match_directory *directory, const struct match_sink *sink,
               void *const *states, unsigned workers, struct match_totals *totals);

/* The same by all processes of a team, each with so many threads: worker w is thread w % threads of process w /
 * threads, and states[w] is there for all of them in every process. When it returns every process has in states[w] what
 * worker w gathered, wherever it was; where the sink has no parcel, each process has walked all by itself, as the first
 * workers. A team of NULL or one process is match_run. False also where another process has failed. */
bool match_run_among(struct team *team, const struct common_clock *clock, const struct match_directory *directory,
                     const struct match_sink *sink, void *const *states, unsigned threads, struct match_totals *totals);

/* How many workers match_run will use for a wish, and match_run_among for so many threads in each process. Processes
 * beyond MATCH_WORKERS_MAX have none. */
unsigned match_workers(unsigned wish);
unsigned match_workers_among(const struct team *team, unsigned threads);

#endif
