/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences about ranks that did not end as they should.
 * Lives here: how they ended and what they were doing when last seen. Must not live here: why a job hangs (diagnose/).
 */
#ifndef COMMTAP_FINDINGS_FINDINGS_ENDINGS_H
#define COMMTAP_FINDINGS_FINDINGS_ENDINGS_H

#include "analyzer/findings/finding.h"
#include "analyzer/stragglers/stragglers.h"

/* Adds a finding for each way of ending; `start_ns`: when the job began, on the common clock. */
void findings_add_endings(struct findings *findings, const struct job *job, const struct straggler_analysis *analysis,
                          int64_t start_ns);
/* The same again, where it has become known meanwhile who lives (job->ends). */
void findings_renew_endings(struct findings *findings, const struct job *job, const struct straggler_analysis *analysis,
                            int64_t start_ns);

#endif
