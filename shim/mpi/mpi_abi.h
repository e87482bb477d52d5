/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between MPI libraries, so that one binary serves them all without their headers.
 * Lives here: handle sizes, special constants, status layout, predefined datatypes and reductions of each family.
 * Must not live here: what is done with them.
 */
#ifndef COMMTAP_MPI_ABI_H
#define COMMTAP_MPI_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/base/os.h"
#include "shim/format.h"

enum mpi_family { MPI_FAMILY_NONE = 0, MPI_FAMILY_OPENMPI = 1, MPI_FAMILY_MPICH = 2, MPI_FAMILY_STANDARD = 3 };

struct mpi_abi {
    enum mpi_family family;
    uint32_t
        handle_bytes; /* of everything but MPI_File, which is a pointer everywhere but in the standard ABI's size */
    uint32_t status_bytes;
    uint32_t status_source, status_tag; /* int index within a status */
    uintptr_t status_ignore;            /* of one and of arrays alike */
    uintptr_t in_place;
    int32_t any_source, any_tag, proc_null, root;
    int32_t undefined;
    int32_t thread_multiple;
    int32_t no_precede, no_succeed; /* assertions of MPI_Win_fence */
    uint64_t refusals; /* bit c: errors of class c are found in a call's arguments, before it communicates */
    uintptr_t comm_world, comm_self, comm_null, request_null, win_null, file_null, group_null, message_no_proc;
    uintptr_t type_byte;
};

extern struct mpi_abi mpi_abi;

/* Detects the family from the library that provides `mpi_function` and fills mpi_abi. False when it is unknown. */
bool mpi_abi_detect(void);

/* Calls `visit` for every predefined datatype and reduction that the library has a handle for. */
void mpi_abi_each_datatype(void (*visit)(uintptr_t handle, enum datatype_code code));
enum redop_code mpi_abi_redop(uintptr_t handle);

/* A handle argument as a key: 4-byte handles passed by value may carry garbage above. */
static inline uintptr_t mpi_handle(uintptr_t argument) {
    return mpi_abi.handle_bytes == 4 ? (uint32_t)argument : argument;
}

/* Handle `i` of an array in the job's memory; 0 where the job passes none and is to get the library's error. */
static inline uintptr_t mpi_handle_at(uintptr_t array, size_t i) {
    if (unlikely(!array))
        return 0;
    return mpi_abi.handle_bytes == 4 ? ((const uint32_t *)array)[i] : ((const uintptr_t *)array)[i];
}

static inline int32_t mpi_status_source(const void *status) {
    return ((const int32_t *)status)[mpi_abi.status_source];
}

static inline int32_t mpi_status_tag(const void *status) {
    return ((const int32_t *)status)[mpi_abi.status_tag];
}

#endif
