/* SPDX-License-Identifier: Apache-2.0
 *
 * The starts of an elastic job side by side: who was slow in each, who died first, and whether they were there in the
 * next. Lives here: following a rank from one start to the next by the hosts of the members. Must not live here:
 * finding out who was slow (cli/generations.h), printing.
 */
#ifndef COMMTAP_JOB_GENERATIONS_H
#define COMMTAP_JOB_GENERATIONS_H

#include "analyzer/job/job_list.h"

/* What became of a rank's place when the job was started anew. */
enum rank_after {
    AFTER_NOT_KNOWN = 0,
    AFTER_STAYED,   /* its host has as many ranks as before, or only another one's place is gone */
    AFTER_LEFT,     /* its host, or its place there, has gone */
    AFTER_REPLACED, /* it had died, and its host has as many ranks as before */
};

struct generation_rank {
    int32_t rank;     /* -1: the whole host */
    const char *host; /* the dump's; NULL: nobody */
    enum rank_after after;
};

struct generation_row {
    const struct listed_job *listed;
    size_t hosts;
    struct generation_rank slow; /* who costs the others most, where chance is ruled out */
    double slowdown_ratio;       /* of it */
    struct generation_rank dead; /* whose process ended before all others, and not as it should */
};

/* Whether two command lines are of one program, as those of a job and of its restart: their arguments may differ, as in
 * --resume; of an interpreter's program the first is its name. */
bool generations_are_alike(const char *a, const char *b);

/* Fills `after` of slow and dead, of rows in the order of their generations. The last one has no next. */
void generations_follow(struct generation_row *rows, size_t count, const struct dump_set *set);

#endif
