/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that NCCL enqueues on a stream: collectives, sends, receives, one-sided ones.
 * Lives here: their bytes and numbers, when one of them is a launch of its own, what is recorded.
 * Must not live here: groups (nccl_groups.h), what becomes of a launch (nccl_launches.h), how long it takes (gpu/).
 */
#ifndef COMMTAP_NCCL_OPERATIONS_H
#define COMMTAP_NCCL_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/nccl/nccl_frame.h"

/* Message size in the sense of nccl-tests. `ranks` = size of the communicator, 0 = unknown: BYTES_UNKNOWN where the
 * formula needs it, or where the datatype is not known (pure). */
uint64_t nccl_bytes(const struct call *call, const uintptr_t *a, uint32_t ranks);

/* What all ranks of a communicator must agree on for one collective (pure). */
uint64_t nccl_signature(const struct call_frame *f);

/* Calls whose facts follow from single arguments, so that they are worth remembering (call_cache.h). */
static inline bool nccl_kind_is_cached(enum call_kind kind) {
    return kind == KIND_NCCL_COLLECTIVE || kind == KIND_NCCL_SEND || kind == KIND_NCCL_RECV;
}

void nccl_collective_before(struct call_frame *f);
void nccl_collective_after(struct call_frame *f);
void nccl_p2p_before(struct call_frame *f);
void nccl_p2p_after(struct call_frame *f);
void nccl_rma_before(struct call_frame *f);
void nccl_rma_after(struct call_frame *f);
void nccl_async_error_before(struct call_frame *f);
void nccl_async_error_after(struct call_frame *f);

#endif
