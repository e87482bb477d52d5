/* SPDX-License-Identifier: Apache-2.0
 *
 * What the handlers of all MPI calls share beyond the frame of all calls.
 * Lives here: the frame's tail, arguments that mean an MPI object.
 * Must not live here: what a particular kind of call does (mpi_*.c).
 */
#ifndef COMMTAP_MPI_FRAME_H
#define COMMTAP_MPI_FRAME_H

#include "shim/intercept/call_frame.h"
#include "shim/mpi/mpi_abi.h"
#include "shim/mpi/mpi_bytes.h"
#include "shim/mpi/requests.h"

/* A call of MPI's. What only some kinds need is not set at its beginning. */
struct mpi_frame {
    struct call_frame call;
    uint32_t ordinal;   /* creations: of the new object; Sendrecv: of the received message */
    int error;          /* what the real function returned, where it failed */
    uintptr_t handle;   /* object or request named before the call, gone after it */
    uintptr_t *handles; /* arrays of requests, copied: the call clears the job's */
    uint32_t n;
    uint8_t topology;   /* creations: of the new communicator */
    uint64_t status[4]; /* stands in for an ignored status */
};

/* Every frame that a handler of MPI's calls gets begins a struct mpi_frame (wrap_mpi.c). */
static inline struct mpi_frame *mpi_tail(const struct call_frame *f) {
    return (struct mpi_frame *)f;
}

/* The status argument, NULL when the job ignores it. */
static inline const void *status_argument(const struct call_frame *f) {
    uintptr_t status = f->call->status ? argument(f, f->call->status) : mpi_abi.status_ignore;
    return status == mpi_abi.status_ignore ? NULL : (const void *)status;
}

/* Where windows and files are concerned, the object's own sequence; otherwise the communicator. */
static inline struct communicator *frame_find_comm(const struct call_frame *f) {
    const struct call *call = f->call;
    if (likely(call->comm))
        return mpi_communicator_find(argument(f, call->comm));
    if (call->win)
        return mpi_window_find(argument(f, call->win));
    return call->file ? mpi_file_find(argument(f, call->file)) : NULL;
}

/* Calls whose facts follow from single arguments, so that they are worth remembering (call_cache.h): no lists of
 * counts, no two partners, no objects that come and go with the call. */
static inline bool kind_is_cached(enum call_kind kind) {
    switch (kind) {
    case KIND_COLLECTIVE:
    case KIND_ICOLLECTIVE:
    case KIND_SEND:
    case KIND_RECV:
    case KIND_ISEND:
    case KIND_IRECV:
    case KIND_WAIT:
    case KIND_WAITALL:
    case KIND_WAITANY:
    case KIND_WAITSOME:
    case KIND_TEST:
    case KIND_TESTALL:
    case KIND_TESTANY:
    case KIND_TESTSOME:
        return true;
    default:
        return false;
    }
}

static inline bool call_is_cached(const struct call *call) {
    return kind_is_cached((enum call_kind)call->kind) && call->bytes <= BYTES_COUNT_N;
}

/* After success: a communicator we never saw being made is registered now. */
void frame_find_unseen(struct call_frame *f);

/* ---- operations that outlive their call (mpi_requests.c) ------------------------------------- */

/* A non-blocking operation was posted: records it and follows its request. `traits`: enum request_trait. */
void operation_posted(struct call_frame *f, uint16_t traits);

/* A persistent request was made: nothing is in flight yet. */
void operation_prepared(struct call_frame *f, uint16_t traits);

#endif
