/* SPDX-License-Identifier: Apache-2.0
 *
 * A few hand-made ranks for tests of the stages behind the loader.
 * Lives here: making, opening and closing the dumps of a small world, with everything a stage needs beside them.
 * Must not live here: what the ranks do (the tests), jobs with chance in them (test/scenes).
 */
#ifndef COMMTAP_TEST_JOB_BUILDER_H
#define COMMTAP_TEST_JOB_BUILDER_H

#include "analyzer/align/common_clock.h"
#include "analyzer/match/directory.h"
#include "test/support/dump_builder.h"

enum { HAND_RANKS_MAX = 8 };

struct hand_job {
    unsigned ranks;
    struct dump_builder *builders[HAND_RANKS_MAX];
    struct dump *dumps[HAND_RANKS_MAX];
    struct common_clock clock;
    struct match_directory directory;
};

/* Builders with the standard calls, an anchor of width 0 and the world (local index 0). `plan` may set any size; rank
 * and world size are filled in. */
void hand_job_make(struct hand_job *job, unsigned ranks, struct dump_plan plan);
/* Opens the dumps of the first `with_dump` ranks, and builds clock and directory over them. */
void hand_job_open(struct hand_job *job, unsigned with_dump);
void hand_job_free(struct hand_job *job);

#endif
