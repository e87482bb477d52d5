/* SPDX-License-Identifier: Apache-2.0
 *
 * The POP efficiencies as a table and as JSON.
 * Lives here: keys, looks, why some are unknown in words.
 * Must not live here: the ratios (efficiencies.h).
 */
#ifndef COMMTAP_RENDER_EFFICIENCIES_TABLE_H
#define COMMTAP_RENDER_EFFICIENCIES_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "analyzer/stragglers/efficiencies.h"

/* One line, its legend, and why some are unknown. Returns false when memory is short. */
bool efficiencies_print(FILE *stream, const struct efficiencies *efficiencies, bool color);
/* report.efficiencies; NULL when memory is short. */
json_t *efficiencies_to_json(const struct efficiencies *efficiencies);

#endif
