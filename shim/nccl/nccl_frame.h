/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of NCCL's on its way through: what its handlers need beyond the frame of all calls.
 * Must not live here: what a particular kind of call does.
 */
#ifndef COMMTAP_NCCL_FRAME_H
#define COMMTAP_NCCL_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/kernel_times.h"
#include "shim/gpu/timing.h"
#include "shim/intercept/call_frame.h"

/* What only some kinds need is not set at its beginning. */
struct nccl_frame {
    struct call_frame call;
    const void *function; /* the real one */
    void *stream;
    struct gpu_span *span;      /* around the call itself: outside of a group, or on one rank */
    struct kernel_span *kernel; /* the same where stamps from inside kernels tell times */
    uint32_t ordinal;           /* creations: of the new communicator among its parent's children */
    bool overlaps;              /* it may begin before the kernel in front of it has ended (nccl_windows.h) */
    bool in_progress;           /* a non-blocking communicator: the library goes on in a thread of its own */
};

/* Every frame that a handler of NCCL's calls gets begins a struct nccl_frame (wrap_nccl.c). */
static inline struct nccl_frame *nccl_tail(const struct call_frame *f) {
    return (struct nccl_frame *)f;
}

#endif
