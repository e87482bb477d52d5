/* SPDX-License-Identifier: Apache-2.0
 *
 * A few hand-made ranks for tests of the stages behind the loader.
 * Lives here: making, opening and closing the dumps of a small world.
 * Must not live here: what the ranks do (the tests), jobs with chance in them (test/scenes).
 */
#include "test/unit/job_builder.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyzer/align/align.h"

void hand_job_make(struct hand_job *job, unsigned ranks, struct dump_plan plan) {
    *job = (struct hand_job){.ranks = ranks};
    for (unsigned r = 0; r < ranks; r++) {
        plan.rank = (int32_t)r;
        plan.world_size = (int32_t)ranks;
        job->builders[r] = dump_builder_new(&plan);
        dump_builder_standard_calls(job->builders[r]);
        dump_builder_anchor(job->builders[r], 0, 0, 1000000000, 0);
        dump_builder_world(job->builders[r]);
    }
}

void hand_job_open(struct hand_job *job, unsigned with_dump) {
    for (unsigned r = 0; r < with_dump; r++) {
        size_t bytes;
        const void *data = dump_builder_data(job->builders[r], &bytes);
        job->dumps[r] = dump_open_buffer("hand", data, bytes);
    }
    if (!common_clock_build(&job->clock, job->dumps, with_dump) ||
        !match_directory_build(&job->directory, job->dumps, with_dump)) {
        fputs("job_builder: no memory\n", stderr);
        abort();
    }
}

void hand_job_free(struct hand_job *job) {
    match_directory_free(&job->directory);
    common_clock_free(&job->clock);
    for (unsigned r = 0; r < job->ranks; r++) {
        if (job->dumps[r])
            dump_close(job->dumps[r]);
        dump_builder_free(job->builders[r]);
    }
}
