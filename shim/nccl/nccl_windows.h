/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory windows that the job registered as symmetric. Collectives on them may run as NCCL's symmetric-memory kernels,
 * which since 2.27 begin before the kernel in front of them on the stream has ended, where the GPU can do that: an
 * event of ours between the two would forbid it. Must not live here: what is done about such a launch (gpu/timing.h).
 */
#ifndef COMMTAP_NCCL_WINDOWS_H
#define COMMTAP_NCCL_WINDOWS_H

#include <stdbool.h>

#include "shim/intercept/call_frame.h"
#include "shim/nccl/nccl_communicators.h"

/* A window was registered; one is about to be deregistered. */
void nccl_window_after(struct call_frame *f);
void nccl_window_gone_before(struct call_frame *f);

/* Forgets the communicator's windows: it is destroyed. */
void nccl_windows_forget(const struct communicator *c);

/* Whether the collective of this frame, on a communicator with windows, may be such a launch. */
bool nccl_windows_overlap(const struct call_frame *f);

#endif
