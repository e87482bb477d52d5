/* SPDX-License-Identifier: Apache-2.0
 *
 * What is worth saying about GPUs and about NCCL's calls.
 * Lives here: the findings of their own, and the phrase about where a late GPU rank was late.
 * Must not live here: findings about any job (findings.c), figures that were not computed before.
 */
#ifndef COMMTAP_FINDINGS_FINDINGS_GPU_H
#define COMMTAP_FINDINGS_FINDINGS_GPU_H

#include "analyzer/findings/finding.h"
#include "analyzer/stragglers/stragglers.h"

void findings_add_gpu(struct findings *findings, const struct job *job, const struct straggler_analysis *analysis);

/* Whether a straggler enqueues its GPU operations late or its GPU comes to them late, as a clause that begins with
 * "; ", "" where that is not known. */
void findings_say_where_late(const struct straggler_analysis *analysis, const struct straggler *straggler, char *text,
                             size_t size);

/* That mending gives more than is said, as a sentence after that, where replays of graphs were not timed; else "". */
void findings_say_untimed_replays(const struct straggler_analysis *analysis, char *text, size_t size);
/* The same where no sentence about a named one says it. */
void findings_add_untimed_replays(struct findings *findings, const struct straggler_analysis *analysis);

#endif
