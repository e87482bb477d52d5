/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bounds for jobs that are always recorded leave of one: whether it is recorded, what its dumps may take, and
 * whether they stay.
 * Must not live here: where bounds come from (knobs.h), keeping a file within them (dump_file.h).
 */
#ifndef COMMTAP_SHIM_RECORD_BOUNDS_H
#define COMMTAP_SHIM_RECORD_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/format.h"
#include "shim/record/knobs.h"

/* COMMTAP_SHARE: the same answer in all processes of a job, by its id as the batch system tells it, else by the run's.
 */
bool bounds_choose_job(const struct dump_header *identity, uint64_t share);

/* Bytes that this process's dump may take by COMMTAP_QUOTA and COMMTAP_NODE_QUOTA; 0: as many as it needs. */
uint64_t bounds_quota(const struct dump_header *identity, const struct knobs *knobs);

/* COMMTAP_MIN_SECONDS, at activation: from now on the status is noted with which the process ends. */
void bounds_watch_exit(const struct knobs *knobs);

/* At exit: the job, which began at `started_ns` (CLOCK_REALTIME), was shorter than COMMTAP_MIN_SECONDS and ended well.
 */
bool bounds_leave_nothing(const struct dump_header *header, const struct knobs *knobs, uint64_t started_ns);

#endif
