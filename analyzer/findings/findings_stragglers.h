/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences about those who make the others wait.
 * Lives here: who is named, what is known against him, where in the code he comes late.
 * Must not live here: who is named (stragglers/); any figure that was not computed before.
 */
#ifndef COMMTAP_FINDINGS_FINDINGS_STRAGGLERS_H
#define COMMTAP_FINDINGS_FINDINGS_STRAGGLERS_H

#include "analyzer/findings/finding.h"
#include "analyzer/stragglers/stragglers.h"

/* Adds stragglers, suspects, slow communicators and work that is dealt out unevenly, or why nobody could be judged
 * where records were kept at all; and who else kept the others waiting once. `start_ns`: of the job, common ns. */
void findings_add_stragglers(struct findings *findings, const struct straggler_analysis *analysis, bool kept,
                             int64_t start_ns);

/* What is known against one straggler, in one phrase, cut to `size`. */
void findings_evidence(const struct straggler_analysis *analysis, const struct straggler *straggler, char *text,
                       size_t size);

/* Name of the call site at which the others waited for it longest, NULL where none is known. */
const char *findings_site(const struct straggler_analysis *analysis, const struct straggler *straggler);
/* The same of work before a call (what_if.h). */
const char *findings_what_if_site(const struct straggler_analysis *analysis, const struct what_if_site *site);

#endif
