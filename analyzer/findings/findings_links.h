/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences about slow links.
 * Lives here: what is said of links that messages show, and of what slow communicators have in common.
 * Must not live here: any figure that was not computed before.
 */
#ifndef COMMTAP_FINDINGS_FINDINGS_LINKS_H
#define COMMTAP_FINDINGS_FINDINGS_LINKS_H

#include "analyzer/findings/finding.h"
#include "analyzer/stragglers/stragglers.h"

/* What is known against a link, in one phrase, cut to `size`. */
void findings_say_link(char *text, size_t size, const struct straggler_analysis *analysis,
                       const struct straggler *straggler);

/* Adds a link with that evidence; `gain` is a sentence on what mending it gives, or empty. */
void findings_add_link(struct findings *findings, const struct straggler *straggler, const char *evidence,
                       const char *gain, bool claimed);

/* Adds what slow communicators have in common. */
void findings_add_groups(struct findings *findings, const struct straggler_analysis *analysis);

#endif
