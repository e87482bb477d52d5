/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path of a part of the job, call by call and rank by rank: the block "path".
 * Lives here: which parts of the path a page holds, their columns.
 * Must not live here: walking the path (waits/delay_costs.h).
 */
#ifndef COMMTAP_PAGE_PATH_PARTS_H
#define COMMTAP_PAGE_PATH_PARTS_H

#include <jansson.h>

#include "analyzer/match/directory.h"
#include "analyzer/symbols/site_labels.h"
#include "analyzer/waits/delay_costs.h"

enum {
    PATH_PARTS_KEPT = 1 << 20, /* while the job is judged, 32 bytes each: which part is shown is chosen later */
    PATH_PARTS_MOST = 100000,  /* that a page holds, about 25 bytes each */
};

/* What is held of the job's time, since its start, as of struct operations. */
struct path_window {
    int64_t origin_ns; /* the job's start, common clock */
    int64_t from_ns, to_ns;
};

/* NULL when memory is short. */
json_t *path_parts_to_json(const struct delay_costs *costs, const struct match_directory *directory,
                           struct site_labels *labels, const struct path_window *window);

#endif
