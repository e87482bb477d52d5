/* SPDX-License-Identifier: Apache-2.0
 *
 * Which process of a job ended before all others, and when.
 * Lives here: putting together what dumps, their beats and the note of `commtap run` tell of ends.
 * Must not live here: whether that is what the job failed of (diagnose.h).
 */
#ifndef COMMTAP_WAIT_FOR_GRAPH_DEATHS_H
#define COMMTAP_WAIT_FOR_GRAPH_DEATHS_H

#include "analyzer/job/deaths.h"
#include "analyzer/wait_for_graph/moments.h"
#include "analyzer/wait_for_graph/world.h"

/* Exits as close together as this have one cause: launchers that end a job give its processes up to a second before
 * they are killed. */
#define EXITS_TOGETHER_NS INT64_C(1000000000)

struct first_death {
    bool known;
    uint32_t party;
    bool of_itself; /* it crashed, gave up or returned an exit status; nobody ended it from outside */
    bool missed;    /* its node found it gone while all others lived on: how it ended is not known */
    struct moment when;
};

/* By MPI_Finalize; NCCL alone has none: a normal exit is its end. */
bool has_finished(const struct dump *dump);

/* The last moment at which the process is known to have lived: from its own dump, or from beats. */
struct moment last_known_alive(const struct party *party);

/* The earliest end before MPI_Finalize whose moment is known; `end` is what was noted of the job's end, NULL nothing.
 */
struct first_death first_death_find(const struct world *world, const struct job_end *end);

/* The same of a job that is not split into GPUs, beats taken in. Processes are taken to be over: of one that still runs
 * its dump tells. Returns false when memory is short. */
bool first_death_of_job(struct first_death *first, const struct job *job, const struct job_end *end);

/* Whether it exited, by itself and not from within a call that waits for others. */
bool exited_at_work(const struct dump *dump);

/* Whether a process that exited did so because of something else: it was inside of a call that waits, as where a
 * library gives up that has lost its launcher, or another one, `first`, had ended just before. */
bool exit_is_a_consequence(const struct world *world, uint32_t party, const struct first_death *first);

#endif
