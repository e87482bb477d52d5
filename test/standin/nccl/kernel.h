/* SPDX-License-Identifier: Apache-2.0
 *
 * What a launched plan does when its stream reaches it: the data movement and arithmetic of every operation.
 * Lives here: algorithms over the segment's pipes. Must not live here: streams and groups.
 */
#ifndef STANDIN_NCCL_KERNEL_H
#define STANDIN_NCCL_KERNEL_H

#include "test/standin/nccl/group.h"

/* Work for a stream; `plan` is a struct plan. Runs once per launch: once, or at each replay of a graph. */
void kernel_run(void *plan);
/* Sleeps for ns unless the communicator is aborted meanwhile. */
void kernel_delay(ncclComm_t comm, uint64_t ns);
/* A collective on a communicator of one rank: a copy, scaled where the operator says so. */
void kernel_one_rank(void *task);

#endif
