/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of ncclGroupStart, ncclGroupEnd and their like, named in wrap_nccl.c's table of kinds: the end launches what
 * was gathered, and records it.
 * Must not live here: gathering (nccl_groups.h).
 */
#ifndef COMMTAP_NCCL_GROUP_CALLS_H
#define COMMTAP_NCCL_GROUP_CALLS_H

#include "shim/nccl/nccl_frame.h"

void group_start_after(struct call_frame *f);
void group_end_before(struct call_frame *f);
void group_end_after(struct call_frame *f);
void group_simulate_after(struct call_frame *f);

#endif
