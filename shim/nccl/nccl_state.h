/* SPDX-License-Identifier: Apache-2.0
 *
 * What a communicator of NCCL has beyond one of MPI.
 * Must not live here: what all communicators have (communicators.h).
 */
#ifndef COMMTAP_NCCL_STATE_H
#define COMMTAP_NCCL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/comm/communicators.h"
#include "shim/gpu/timing.h"

/* A communicator that a call is making: known now, its handle perhaps only later. */
struct nccl_creation {
    const uintptr_t *output; /* where the library puts the handle; the job keeps it until it has it */
    uint64_t uid, parent_uid;
    uint32_t size;  /* 0 = the library must be asked once there is a handle */
    int32_t rank;   /* RANK_UNKNOWN likewise */
    uint32_t local; /* how many of its members this process makes at once, at least 1 */
    int32_t lowest; /* rank of the first of these */
    int32_t device; /* as gpu_attach_device tells it */
    int32_t copy;   /* of the library, -1 = unknown */
    uint32_t flags; /* enum communicator_flag */
    uint16_t call;
    char name[62]; /* the job's, empty = has none */
};

struct nccl_communicator {
    struct communicator base;
    int32_t device; /* index in the dump, -1 = its operations are not timed */
    int32_t copy;   /* of the library that made it, -1 = unknown */

    /* Non-blocking communicators: what the library was still at when a call returned ncclInProgress. The communicator
     * takes no further work until the job was told that this is done. */
    struct gpu_span *launching; /* its stop is not recorded yet */
    struct gpu_launch launch;
    bool creating;
    struct nccl_creation child;
};
_Static_assert(sizeof(struct nccl_communicator) <= COMMUNICATOR_PLACE, "it has a place in the pool");

/* What stands behind a communicator of NCCL's. */
static inline struct nccl_communicator *nccl_communicator(const struct communicator *c) {
    return (struct nccl_communicator *)c;
}

extern struct handle_map *nccl_handles; /* empty before nccl_communicators_begin */

static inline struct communicator *nccl_communicator_find(uintptr_t handle) {
    return (struct communicator *)handle_map_get(nccl_handles, handle);
}

#endif
