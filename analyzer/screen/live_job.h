/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that is looked at again and again while it runs.
 * Lives here: opening it, taking its counters anew, opening it again where that is not enough, the verdict.
 * Must not live here: what is shown of it, the terminal, dumps on other hosts (collect/).
 */
#ifndef COMMTAP_SCREEN_LIVE_JOB_H
#define COMMTAP_SCREEN_LIVE_JOB_H

#include "analyzer/cli/options.h"
#include "analyzer/live/summary.h"

struct live_job {
    const struct options *options; /* for --run */
    char *const *places;           /* directories */
    size_t place_count;
    /* whether a dump's process, on another host, still ran when its copy was taken; NULL: there are no copies */
    bool (*is_used)(const void *context, const struct dump *dump);
    const void *context;
    int64_t elsewhere_realtime_ns; /* when those copies were taken */

    struct dump_set set;
    struct job job;
    struct dump_stub *stubs; /* of the job: what is still elsewhere; their texts are the set's */
    size_t stub_count;
    enum process_state *states;
    int64_t opened_ns;
    char boot_id[64];
    struct live_sample now; /* of the last look */
    struct live_rows rows;
    struct live_summary summary;
};

/* Opens the job for the first time: what cannot be used of it is said on stderr. `live` holds the options, the places
 * and, where there are some, what tells of copies. Returns EXIT_FINE; otherwise a message was printed. The caller ends
 * with live_job_close in every case. */
int live_job_open(struct live_job *live);
/* Says on stderr which other jobs live in the directories, unless --run has chosen. `whole_runs`: those of the job's
 * own run are meant with it. */
void live_job_name_others(const struct live_job *live, bool whole_runs);
/* Looks at it: rows and summary are as it is now. EXIT_FINE, or EXIT_OUTPUT where memory is short; EXIT_UNUSABLE: the
 * directory is gone. Only the latter was said on stderr. */
int live_job_look(struct live_job *live);
/* Opens everything anew at the next look. */
void live_job_reopen(struct live_job *live);
void live_job_close(struct live_job *live);

#endif
