/* SPDX-License-Identifier: Apache-2.0
 *
 * The starts of an elastic job, each judged as a job of its own.
 * Lives here: running the stages on each. Must not live here: what follows for a rank (job/generations.h), printing.
 */
#ifndef COMMTAP_CLI_GENERATIONS_H
#define COMMTAP_CLI_GENERATIONS_H

#include "analyzer/base/team.h"
#include "analyzer/cli/session.h"
#include "analyzer/job/generations.h"

/* Each costs as much as a report of it alone. */
enum { GENERATIONS_MOST = 16 };

struct generations {
    struct generation_row rows[GENERATIONS_MOST]; /* the newest ones, in their order */
    size_t count;                                 /* 0: the job was started once */
    size_t left_out;                              /* older ones */
};

/* Of the run that the session's job belongs to, the session's own judgement included. False: memory is short. */
bool generations_judge(struct generations *generations, const struct session *session, struct team *team,
                       unsigned workers);

#endif
