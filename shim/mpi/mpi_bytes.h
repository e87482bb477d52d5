/* SPDX-License-Identifier: Apache-2.0
 *
 * How many bytes a call moves, from its row's formula, and how large datatypes are.
 * Lives here: sizes. Must not live here: when it is legal to ask (mpi_bytes only ever touches arguments that are
 * significant at this rank; with `ask` the caller vouches that the real call has succeeded).
 */
#ifndef COMMTAP_MPI_BYTES_H
#define COMMTAP_MPI_BYTES_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/call.h"
#include "shim/mpi/mpi_communicators.h"

bool mpi_bytes_begin(void);

/* Datatype handle -> size + 1 (bits 8 and up) and code of a predefined type (low byte). */
extern struct handle_map *mpi_types;

/* The commonest calls without a detour: one count and one datatype whose size is known. False: mpi_bytes tells. */
static inline bool mpi_bytes_quick(const struct call *call, const uintptr_t *arguments, uint64_t *bytes,
                                   uint8_t *dtype) {
    if (unlikely(call->bytes != BYTES_COUNT))
        return false;
    uintptr_t known = handle_map_get(mpi_types, mpi_handle(arguments[call->type - 1]));
    uintptr_t value = arguments[call->count - 1];
    int64_t count = call->bits & CALL_LARGE ? (int64_t)value : (int32_t)value;
    if (unlikely(!known || count < 0))
        return false;
    *dtype = (uint8_t)known;
    *bytes = (uint64_t)count * ((known >> 8) - 1);
    return true;
}

/* Bytes of the call, or BYTES_UNKNOWN. Without `ask` only sizes already known are used and no library function runs.
 * `root` says whether this rank is the root. */
uint64_t mpi_bytes(const struct call *call, const uintptr_t *arguments, struct communicator *comm, bool root, bool ask);

/* count * size of the second (count2, type2) pair: what a Sendrecv receives at most. */
uint64_t mpi_bytes_second(const struct call *call, const uintptr_t *arguments, bool ask);

/* Actual bytes of a completed receive. */
uint64_t mpi_bytes_received(const void *status);

/* A datatype is freed: its handle may come back with another size. */
void mpi_bytes_forget_type(uintptr_t handle);

#endif
