/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recording lost, for `check` and `report`.
 * Lives here: its lines of text and its JSON object.
 * Must not live here: words and sums (load/losses).
 */
#ifndef COMMTAP_RENDER_LOSS_LIST_H
#define COMMTAP_RENDER_LOSS_LIST_H

#include <jansson.h>
#include <stdio.h>

#include "analyzer/load/losses.h"

/* A line for each kind that is not zero, after `indent`. */
void loss_list_print(FILE *stream, const struct loss_counts *counts, const char *indent);
/* Every kind by its key, zeros too. NULL when memory is short. */
json_t *loss_list_to_json(const struct loss_counts *counts);

#endif
