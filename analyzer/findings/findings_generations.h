/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that was started anew: what lies between this start and the one before it.
 * Must not live here: which starts belong together (job/job_list.h).
 */
#ifndef COMMTAP_FINDINGS_GENERATIONS_H
#define COMMTAP_FINDINGS_GENERATIONS_H

#include "analyzer/findings/finding.h"

/* Nothing where the start before it ran another program: then this is no restart. */
void findings_add_generations(struct findings *findings, const struct dump_set *set, const struct job *job);

#endif
