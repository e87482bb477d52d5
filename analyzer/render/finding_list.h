/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings as text and as JSON.
 * Lives here: their looks and keys, what they rest on. Must not live here: their sentences (findings/).
 */
#ifndef COMMTAP_RENDER_FINDING_LIST_H
#define COMMTAP_RENDER_FINDING_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "analyzer/findings/findings.h"

/* report.findings, each with its coverage. NULL when memory is short. */
json_t *findings_to_json(const struct findings *findings);

/* What something rests on, and how much of the run that is; the last only of events. NULL when memory is short. */
json_t *findings_coverage_to_json(const struct coverage *coverage, enum evidence evidence);

/* One paragraph per finding, wrapped for a screen of 100 columns. */
void findings_print(FILE *stream, const struct findings *findings, bool color);

#endif
