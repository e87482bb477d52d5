/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of MPI's ranks made by hand, each at the call where it hangs, and what is said of it.
 * Lives here: its dumps, opening and judging them. Must not live here: what the ranks did.
 */
#ifndef COMMTAP_TEST_HUNG_JOB_H
#define COMMTAP_TEST_HUNG_JOB_H

#include "analyzer/diagnose/diagnose.h"
#include "analyzer/findings/diagnosis_text.h"
#include "test/support/dump_builder.h"

enum { HUNG_RANKS_MOST = 8 };

struct hung_job {
    unsigned ranks;
    struct dump_builder *builders[HUNG_RANKS_MOST];
    struct dump *dumps[HUNG_RANKS_MOST];
    struct in_flight *slots[HUNG_RANKS_MOST];
    enum process_state states[HUNG_RANKS_MOST];
    bool duplicate[HUNG_RANKS_MOST];
    struct job job;
    struct diagnosis diagnosis;
    struct diagnosis_text text;
};

/* Ranks that run their own code, with the world as communicator 0 and one thread each. Freed by hung_free. */
void hung_make(struct hung_job *hung, unsigned ranks);

/* The same of processes that live, so many of them in worlds of `size`, generation after generation. Their rings hold
 * so many records. */
void hung_make_worlds(struct hung_job *hung, unsigned ranks, unsigned size, uint32_t records);
/* ... in one world, with small rings. */
void hung_make_living(struct hung_job *hung, unsigned ranks);

/* Puts a rank into a call on communicator `comm`, entered at `enter`. */
struct in_flight *hung_call(struct hung_job *hung, unsigned rank, uint16_t call, uint32_t flags, uint32_t comm,
                            int32_t peer, int32_t tag, uint32_t seq, uint64_t enter);

/* The same on the world, and on none where it waits for requests; when it was entered is not known. */
void hung_enter(struct hung_job *hung, unsigned rank, uint16_t call, uint32_t flags, int32_t peer, int32_t tag,
                uint32_t seq);

/* A request of the rank, posted as operation `op` with tag 1. */
struct pending *hung_pending(struct hung_job *hung, unsigned rank, uint16_t call, uint16_t flag, int32_t peer,
                             uint32_t op, uint32_t seq);

/* Says how many collectives of a communicator a rank has begun and ended. */
void hung_progress(struct hung_job *hung, unsigned rank, uint32_t comm, uint64_t begun, uint64_t ended);

/* `settled`: as it was seen to stand; else of a job that is over, unless `states` says otherwise. */
const struct diagnosis *hung_judge(struct hung_job *hung, struct diagnose_request request);
bool hung_says(const struct hung_job *hung, const char *text);
/* The ranks of the culprits as "0 2 ", in their order. */
const char *hung_culprits(const struct hung_job *hung, char text[64]);
void hung_free(struct hung_job *hung);

#endif
