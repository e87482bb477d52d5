/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSpeed's two tables and its dictionary.
 * Lives here: their layout, column widths and keys.
 * Must not live here: their figures (profile/summary_deepspeed).
 */
#ifndef COMMTAP_RENDER_DEEPSPEED_TABLE_H
#define COMMTAP_RENDER_DEEPSPEED_TABLE_H

#include <jansson.h>
#include <stdio.h>

#include "analyzer/profile/summary_deepspeed.h"

/* The summary table, the straggler table after it, and one line that says whose figures these are. */
void deepspeed_print_text(FILE *stream, const struct deepspeed *log);
/* {summary, straggler_analysis, metadata}. NULL when memory is short. */
json_t *deepspeed_to_json(const struct deepspeed *log);

#endif
