/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path as a table and as JSON.
 * Lives here: keys and looks of its call sites.
 * Must not live here: figures.
 */
#ifndef COMMTAP_RENDER_CRITICAL_PATH_TABLE_H
#define COMMTAP_RENDER_CRITICAL_PATH_TABLE_H

#include "analyzer/waits/critical_path_sites.h"
#include "analyzer/stragglers/stragglers.h"
#include "analyzer/render/table.h"

/* The table of the first `most` call sites, and a line on what the path is; nothing where there is no path. `color` as
 * in table_print_text. Returns false when memory is short. */
bool critical_path_print(FILE *stream, const struct straggler_analysis *analysis,
                         const struct critical_path_sites *sites, size_t most, bool color);

/* {"seconds", "from_seconds", "to_seconds", "partial", "waits_seconds", "ranks", "sites"}: seconds are null where
 * there is no path; moments count from `start_ns`, common clock. NULL when memory is short. */
json_t *critical_path_to_json(const struct straggler_analysis *analysis, const struct critical_path_sites *sites,
                              int64_t start_ns);

#endif
