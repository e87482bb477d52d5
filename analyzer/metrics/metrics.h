/* SPDX-License-Identifier: Apache-2.0
 *
 * A judged job as Prometheus metrics.
 * Lives here: the families, which labels tell their samples apart, in what order they come.
 * Must not live here: the format (exposition.h), opening files, when they are written.
 *
 * Names follow Prometheus' conventions: base units (seconds, bytes), _total on what only grows while the job runs. What
 * rests on the events that are still there is a gauge: rings forget.
 */
#ifndef COMMTAP_METRICS_METRICS_H
#define COMMTAP_METRICS_METRICS_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzer/cli/session.h"
#include "analyzer/metrics/operation_classes.h"

/* All families; `running`: ranks whose process is alive. Returns false when memory is short. */
bool metrics_print(FILE *stream, const struct session *session, size_t running, bool per_rank);

/* Those of operations: calls, bytes, times and bandwidths, of each class. */
void metrics_print_operations(FILE *stream, const struct session *session, const struct operation_classes *classes);

#endif
