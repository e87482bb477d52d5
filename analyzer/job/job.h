/* SPDX-License-Identifier: Apache-2.0
 *
 * Which job a directory is about, and how it ended.
 * Lives here: choosing one run, world and generation, what became of every rank, who is missing.
 * Must not live here: what the ranks did with their time, sentences.
 */
#ifndef COMMTAP_JOB_JOB_H
#define COMMTAP_JOB_JOB_H

#include "analyzer/align/common_clock.h"
#include "analyzer/job/job_list.h"
#include "analyzer/load/gpu_view.h"
#include "analyzer/load/losses.h"

/* What became of a rank, as far as its dump tells. */
enum rank_end {
    END_FINALISED = 0,
    END_RUNNING,     /* the process is alive */
    END_IN_INIT,     /* gone, or unknown, and MPI_Init never returned */
    END_IN_FINALIZE, /* gone inside MPI_Finalize */
    END_ABORTED,     /* it called MPI_Abort */
    END_EXITED,      /* a normal exit without MPI_Finalize */
    END_KILLED,      /* gone without any of these */
    END_UNTOLD,      /* imported from a recording that does not tell */
};

struct job {
    struct dump_set selected; /* for sums: the processes' dumps, in the places of `dumps`; of a process that has several
                                 there, all but the first are duplicates. Shallow: never close it */
    struct dump **processes;  /* one of each process, with all that it did, by rank */
    size_t process_count;
    struct dump **dumps; /* whoever can be late: the processes, or the GPUs of those that have several (job_split) */
    size_t count;
    size_t *process_of;      /* per dump: index into processes */
    struct gpu_views *views; /* private: per process; NULL: not split */
    enum rank_end *ends;     /* per process */
    int32_t ranks_expected;  /* 0 = unknown */
    int32_t *missing;        /* ranks without a dump, ascending */
    size_t missing_count;
    const struct dump_stub **missing_stubs; /* per missing rank: what tells that its dump lies on its node, or NULL */
    struct job_list list;                   /* all jobs of the directory */
    const struct listed_job *listed;        /* this one, in it */
    size_t runs;                            /* in the directory */
    size_t launches;                        /* of this run, one after the other */
    size_t worlds;                /* of this launch and generation: more than one where programs ran side by side */
    size_t generations;           /* of this launch */
    size_t others;                /* usable dumps of the directory that belong to another job */
    size_t duplicates;            /* of this job, left out */
    uint64_t events, events_lost; /* records ever written; of these, neither in a ring nor in a kept window */
    struct loss_counts losses;
};

/* Of `events_lost` those that were written once, and not left out for COMMTAP_BUDGET's sake. */
uint64_t job_overwritten(const struct job *job);

/* Chooses the newest run, of it the newest launch, of that the newest generation, and of several worlds the largest.
 * `id` (NULL: none) names a run or one job of it (job_list.h). `alive` tells whether a dump's process still runs (NULL:
 * never). Returns 0, -1 when no dump belongs to `id`, in which case the list is there nevertheless, -2 when memory
 * is short. The caller frees with job_free in every case; `set` must outlive the job. */
int job_select(struct job *job, const struct dump_set *set, const char *id, bool (*alive)(const struct dump *));
void job_free(struct job *job);

/* From now on `dumps` are the GPUs, one by one, of processes that use several. Returns false when memory is short. */
bool job_split(struct job *job);

/* How many of `dumps` are one GPU of several. */
size_t job_gpus(const struct job *job);

/* First and last moment that the dumps tell of, common ns; wall time is their difference. NS_MOST and -NS_MOST where
 * they tell of none. */
void job_span(const struct job *job, const struct common_clock *clock, int64_t *start_ns, int64_t *end_ns);

#endif
