/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks and stragglers as tables and JSON.
 * Lives here: keys and looks of the ranks' columns, the JSON of stragglers.
 * Must not live here: figures, sentences.
 */
#ifndef COMMTAP_RENDER_STRAGGLER_TABLE_H
#define COMMTAP_RENDER_STRAGGLER_TABLE_H

#include "analyzer/findings/findings.h"
#include "analyzer/waits/hot_sites.h"
#include "analyzer/render/table.h"

/* One rank's row. */
struct rank_row {
    int32_t rank;
    const char *host;
    const struct device_state *gpu; /* NULL: not told, or several */
    const struct rank_times *times;
    const struct rank_delay_costs *costs; /* NULL with `waits`, and where only some waits are shown */
    const struct rank_waits *waits;       /* NULL: nothing was matched, waits are unknown */
    const struct significance *verdict;
    const char *end; /* how it ended */
};

/* Columns over struct rank_row; keys as in DESIGN's report.ranks, further ones after them. */
extern const struct column rank_columns[];

/* Rows of the ranks that the filter lets pass, in their order: *count of them. Waits are those of analysis->shown where
 * only some were asked for. NULL when memory is short; the caller frees. */
struct rank_row *rank_rows(const struct job *job, const struct straggler_analysis *analysis,
                           const struct filter *filter, size_t *count);

/* Columns over struct hot_site. */
extern const struct column hot_site_columns[];

/* Names of the hosts of dumps `which` (NULL: of the first `count`), each once, in the order of the dumps. Each rank
 * goes by the name that it has itself: containers on one host may have names of their own. */
json_t *hosts_to_json(struct dump *const *dumps, const size_t *which, size_t count);

const char *straggler_kind_name(enum straggler_kind kind); /* "rank", "host", "role", "rotating", "link" */

/* report.stragglers, each with its coverage. NULL when memory is short. */
json_t *stragglers_to_json(const struct straggler_analysis *analysis, const struct coverage *coverage,
                           const struct straggler *stragglers, size_t count);

/* Of rows of struct generation_row: the starts of an elastic job. */
extern const struct column generation_columns[];

#endif
