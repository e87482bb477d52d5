/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators of NCCL: who they are without asking anybody. uid = H(unique id) for those made by one; a child's is
 * H(parent's uid, the parent's child counter, color), equal on all members since all of them make the same children.
 * Lives here: uids, registering, the process's rank where only NCCL tells one.
 * Must not live here: operations and groups of them.
 */
#ifndef COMMTAP_NCCL_COMMUNICATORS_H
#define COMMTAP_NCCL_COMMUNICATORS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/comm/communicators.h"
#include "shim/nccl/nccl_frame.h"
#include "shim/nccl/nccl_state.h"

#define NCCL_NO_COLOR (-1)

/* ---- uids (pure) ----------------------------------------------------------------------------- */

/* Of a communicator made by `count` unique ids (one, but for ncclCommInitRankScalable) of 128 bytes. */
uint64_t nccl_uid_of_id(const void *ids, uint32_t count);

enum nccl_child { NCCL_CHILD_SPLIT = 1, NCCL_CHILD_SHRINK = 2, NCCL_CHILD_GROW = 3 };

/* Of the `ordinal`th child of `parent`; `color` counts for splits. */
uint64_t nccl_uid_of_child(uint64_t parent, enum nccl_child how, uint32_t ordinal, int32_t color);

/* Rank after `count` excluded ranks have left. */
int32_t nccl_rank_after_shrink(int32_t rank, const int32_t *excluded, uint32_t count);

/* ---- registering ----------------------------------------------------------------------------- */

/* Once the handle is there; nothing where there is none (NULL). */
void nccl_register(const struct nccl_creation *creation);

/* A communicator that we did not see being made, just used with success: registered with what its library tells. */
struct communicator *nccl_register_unseen(uintptr_t handle, const void *function);

/* Once per activation, before the first communicator. False when there is no memory. */
bool nccl_communicators_begin(void);

/* At the process's normal end: a job that knows no MPI is finalised when it has destroyed its communicators. */
void nccl_communicators_end(void);

/* ---- handlers -------------------------------------------------------------------------------- */

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
