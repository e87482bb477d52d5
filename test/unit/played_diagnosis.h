/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of ranks with a GPU each, made by hand, and what is said of it at some moment.
 * Lives here: its dumps, opening and judging them. Must not live here: what the ranks did.
 */
#ifndef COMMTAP_TEST_PLAYED_DIAGNOSIS_H
#define COMMTAP_TEST_PLAYED_DIAGNOSIS_H

#include "analyzer/diagnose/diagnose.h"
#include "analyzer/findings/diagnosis_text.h"
#include "test/support/dump_builder.h"

enum { PLAYED_RANKS_MOST = 4 };

struct played_diagnosis {
    unsigned ranks;
    struct dump_builder *builders[PLAYED_RANKS_MOST];
    struct dump *dumps[PLAYED_RANKS_MOST];
    bool duplicate[PLAYED_RANKS_MOST];
    struct job job;
    struct diagnosis diagnosis;
    struct diagnosis_text text;
};

/* The next rank of NCCL's world, away from the library, with a lane for its host and one for its GPU. */
struct dump_builder *played_rank(struct played_diagnosis *play, const struct dump_plan *plan);

/* As the job was seen to stand at that moment (CLOCK_MONOTONIC), or to have ended then. Ended by played_leave. */
enum verdict played_judge(struct played_diagnosis *play, enum process_state state, int64_t moment_ns);
void played_leave(struct played_diagnosis *play);

#endif
