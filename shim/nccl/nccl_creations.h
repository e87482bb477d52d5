/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of the calls that make and end communicators of NCCL's, named in wrap_nccl.c's table of kinds.
 * Must not live here: who a communicator is, and registering it (nccl_communicators.h).
 */
#ifndef COMMTAP_NCCL_CREATIONS_H
#define COMMTAP_NCCL_CREATIONS_H

#include "shim/nccl/nccl_frame.h"

void nccl_init_rank_after(struct call_frame *f);
void nccl_init_all_after(struct call_frame *f);
void nccl_child_before(struct call_frame *f);
void nccl_split_after(struct call_frame *f);
void nccl_shrink_after(struct call_frame *f);
void nccl_grow_after(struct call_frame *f);
void nccl_destroy_before(struct call_frame *f);
void nccl_abort_before(struct call_frame *f);
void nccl_revoke_before(struct call_frame *f);

#endif
