/* SPDX-License-Identifier: Apache-2.0
 *
 * Which jobs lie in a directory: each launch of a program is one, whatever else ran under the same `commtap run`.
 * Lives here: telling them apart, their ids, which of them ran side by side.
 * Must not live here: which one is looked at (job.h), printing.
 */
#ifndef COMMTAP_JOB_JOB_LIST_H
#define COMMTAP_JOB_JOB_LIST_H

#include "analyzer/dumps/set.h"
#include "analyzer/load/dump.h"

enum { JOB_ID = 80 };

#define LAUNCHER_TORCHRUN "torchrun" /* as dumps name it */

/* The dumps of one run, world, generation and launch, which are neighbours in the set. */
struct listed_job {
    char id[JOB_ID]; /* the run's, followed by "/" and `number` where the run has several jobs; what --run takes */
    size_t first, count;
    size_t ranks;        /* duplicates left out */
    unsigned number;     /* of the run's jobs, in the order of their beginnings, from 1 */
    unsigned launch;     /* of the run, from 0: jobs of one launch ran side by side, or are restarts of it */
    unsigned generation; /* of the run: the launcher's restart count, and where it keeps none the launches, from 0; of
                            a batch job that was requeued it goes on from run to run */
    int64_t gap_ns;      /* from the end of the generation before it to its start; -1: none was, or not known */
    int64_t start_ns, end_ns; /* CLOCK_REALTIME; INT64_MIN where no dump tells it */
    uint64_t process_started; /* latest of its processes */
};

struct job_list {
    struct listed_job *items; /* by run, then by number */
    size_t count;
};

/* False: memory is short. The caller frees with job_list_free. */
bool job_list_build(struct job_list *list, const struct dump_set *set);
/* The job with the most ranks of the run's generation before this one's, or of the runs of the same batch job before it
 * was requeued; NULL where there is none. */
const struct listed_job *job_list_before(const struct job_list *list, const struct dump_set *set,
                                         const struct listed_job *job);
/* The same of generation `number` of the run that `of` belongs to. */
const struct listed_job *job_list_generation(const struct job_list *list, const struct dump_set *set,
                                             const struct listed_job *of, unsigned number);
void job_list_free(struct job_list *list);

/* Is `id` this job's, or that of its run? */
bool listed_job_is(const struct listed_job *job, const struct dump_set *set, const char *id);

#endif
