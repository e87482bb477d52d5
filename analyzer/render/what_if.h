/* SPDX-License-Identifier: Apache-2.0
 *
 * How much faster the job would be, as JSON and as lines of a page.
 * Lives here: keys and words.
 * Must not live here: figures.
 */
#ifndef COMMTAP_RENDER_WHAT_IF_H
#define COMMTAP_RENDER_WHAT_IF_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "analyzer/stragglers/stragglers.h"

/* report.what_if and stragglers.what_if: null where ranks never wait for each other. NULL when memory is short. */
json_t *what_if_to_json(const struct straggler_analysis *analysis);

/* Whether there is anything worth a line. */
bool what_if_matters(const struct what_if *what_if);
/* Lines indented by two. */
void what_if_print(FILE *stream, const struct straggler_analysis *analysis);

#endif
