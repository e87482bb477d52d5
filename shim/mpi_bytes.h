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
#include "shim/communicators.h"

bool mpi_bytes_begin(void);

/* Bytes of the call, or BYTES_UNKNOWN. Without `ask` only sizes already known are used and no library function runs.
 * `root` says whether this rank is the root. */
uint64_t mpi_bytes(const struct call *call, const uintptr_t *arguments, struct communicator *comm, bool root, bool ask);

/* count * size of the second (count2, type2) pair: what a Sendrecv receives at most. */
uint64_t mpi_bytes_second(const struct call *call, const uintptr_t *arguments, bool ask);

/* Actual bytes of a completed receive. */
uint64_t mpi_bytes_received(const void *status);

enum datatype_code mpi_datatype_code(uintptr_t argument);

/* A datatype is freed: its handle may come back with another size. */
void mpi_bytes_forget_type(uintptr_t handle);

#endif
