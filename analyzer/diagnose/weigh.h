/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a job that nobody saw stand looks as if it had: one that was killed at work is full of waits too.
 * Lives here: what the ages of waits and absences leave of a verdict. Must not live here: who is to blame (blame.h),
 * how old waits are (standing.h).
 */
#ifndef COMMTAP_DIAGNOSE_WEIGH_H
#define COMMTAP_DIAGNOSE_WEIGH_H

#include "analyzer/diagnose/diagnosis.h"

/* Takes back or doubts the verdict of a job that may have been at work when it ended. False: memory is short. */
bool weigh(struct diagnosis *diagnosis, const struct diagnose_request *request);
/* Whether those that others wait for were away, all of them, for no longer than what may be work: then a job that
 * stands, or was killed meanwhile, need not hang. Sets `may_come_back` and the culprits' absences. */
void weigh_absences(struct diagnosis *diagnosis, const struct diagnose_request *request);

#endif
