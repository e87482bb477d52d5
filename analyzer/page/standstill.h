/* SPDX-License-Identifier: Apache-2.0
 *
 * What every process does when the dumps were read, or when the job ended, and whom it waits for: the block
 * "standstill".
 * Lives here: processes and waits of the wait-for graph as rows.
 * Must not live here: the verdict and what collectives lack (render/diagnosis.h), judging.
 */
#ifndef COMMTAP_PAGE_STANDSTILL_H
#define COMMTAP_PAGE_STANDSTILL_H

#include <jansson.h>

#include "analyzer/diagnose/diagnose.h"
#include "analyzer/symbols/site_labels.h"

enum {
    STANDSTILL_ROWS_MOST = 20000, /* processes, and waits, that a page holds, about 200 bytes each */
    STANDSTILL_TARGETS_MOST = 64, /* ranks that one wait names, as many as commtap diagnose prints */
};

/* NULL when memory is short. */
json_t *standstill_to_json(const struct diagnosis *diagnosis, struct site_labels *labels);

#endif
