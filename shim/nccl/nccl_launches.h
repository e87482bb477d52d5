/* SPDX-License-Identifier: Apache-2.0
 *
 * What NCCL launches on a stream, an operation alone or a group of them: handed over to whoever times it.
 * Must not live here: which operations make a launch (nccl_operations.h, nccl_groups.h).
 */
#ifndef COMMTAP_NCCL_LAUNCHES_H
#define COMMTAP_NCCL_LAUNCHES_H

#include "shim/nccl/nccl_communicators.h"
#include "shim/nccl/nccl_frame.h"

/* The process-wide number of the next operation. */
static inline uint32_t nccl_next_op(void) {
    return __atomic_add_fetch(&recorder.next_op, 1, __ATOMIC_RELAXED);
}

static inline void nccl_fill_launch(struct gpu_launch *launch, const struct call_frame *f) {
    *launch = (struct gpu_launch){.bytes = f->bytes,
                                  .seq = f->seq,
                                  .op = f->op,
                                  .comm = f->comm_index,
                                  .peer = f->peer,
                                  .stack = f->stack,
                                  .ranks = f->comm->size,
                                  .call = f->id,
                                  .flags = f->flags,
                                  .dtype = f->dtype,
                                  .redop = f->redop,
                                  .quiet = f->quiet,
                                  .overlaps = nccl_tail(f)->overlaps,
                                  .progress = f->comm->progress,
                                  .collectives = (f->flags & FLAG_COLLECTIVE) != 0};
}

/* The start of a launch's times by events. `overlaps`: an event in front of it would take its overlap away. */
static inline struct gpu_span *nccl_span_begin(const struct communicator *c, void *stream, uint32_t streams,
                                               bool overlaps) {
    int32_t device = nccl_communicator(c)->device;
    return unlikely(overlaps) ? gpu_span_begin_overlapping(device, stream, streams)
                              : gpu_span_begin(device, stream, streams);
}

/* The launch was enqueued, or will be by a thread of the library's own (`in_progress`). It is timed by events (`span`),
 * by stamps (`kernel`) or not at all. */
void nccl_launched(struct communicator *c, struct gpu_span *span, struct kernel_span *kernel,
                   const struct gpu_launch *launch, bool in_progress);

/* What a non-blocking communicator was still launching will never be timed: it is destroyed, or took further work
 * without the job having asked whether the last was enqueued. */
void nccl_drop_launching(struct communicator *c);

/* Where nothing is timed, a collective counts as done once it is enqueued: there is no better witness. */
static inline void nccl_progress_untimed(struct progress *progress) {
    uint64_t enqueued = __atomic_load_n(&progress->enqueued, __ATOMIC_RELAXED);
    __atomic_store_n(&progress->started, enqueued, __ATOMIC_RELAXED);
    __atomic_store_n(&progress->completed, enqueued, __ATOMIC_RELAXED);
}

#endif
