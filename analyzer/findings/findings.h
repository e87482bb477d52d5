/* SPDX-License-Identifier: Apache-2.0
 *
 * What a report says first: sentences about the job, worst first.
 * Lives here: turning the job's state and the straggler analysis into findings; when something is worth saying.
 * Must not live here: layout; any figure that was not computed before.
 */
#ifndef COMMTAP_FINDINGS_FINDINGS_H
#define COMMTAP_FINDINGS_FINDINGS_H

#include "analyzer/findings/finding.h"
#include "analyzer/stragglers/stragglers.h"

/* Everything worth saying, errors first, each severity in a fixed order. `set` is the whole directory. Check no_memory
 * afterwards; the caller frees with findings_free. */
void findings_collect(struct findings *findings, const struct dump_set *set, const struct job *job,
                      const struct straggler_analysis *analysis);

/* What else lies in the directory that the job was taken from: other runs, launches, generations, programs. */
void findings_add_choice(struct findings *findings, const struct dump_set *set, const struct job *job);

#endif
