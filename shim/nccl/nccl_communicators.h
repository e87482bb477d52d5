/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators of NCCL: who they are without asking anybody. uid = H(unique id) for those made by one; a child's is
 * H(parent's uid, the parent's child counter, color), equal on all members since all of them make the same children.
 * Lives here: what they have beyond those of all libraries, uids, registering, the process's rank where only NCCL tells
 * one.
 * Must not live here: what calls make them (nccl_creations.h), operations and groups of them.
 */
#ifndef COMMTAP_NCCL_COMMUNICATORS_H
#define COMMTAP_NCCL_COMMUNICATORS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/comm/communicators.h"
#include "shim/gpu/timing.h"

#define NCCL_NO_COLOR (-1)

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

/* Symmetric memory that the job registered with a communicator (nccl_windows.h). */
enum nccl_windows {
    NCCL_WINDOWS_NONE = 0,
    NCCL_WINDOWS_SOME,
    NCCL_WINDOWS_ALL /* more than there was room for: any memory may be symmetric */
};

struct nccl_communicator {
    struct communicator base;
    int32_t device;   /* index in the dump, -1 = its operations are not timed */
    int32_t copy;     /* of the library that made it, -1 = unknown */
    uint32_t windows; /* enum nccl_windows */

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

/* A communicator was made, or is seen in use: notes that the library is initialised. */
static inline void nccl_library_is_up(void) {
    if (__atomic_load_n(&recorder.header->state, __ATOMIC_RELAXED) & STATE_INITIALISED)
        return;
    if (recorder.header->initialised_ticks == 0)
        recorder.header->initialised_ticks = ticks();
    __atomic_fetch_or(&recorder.header->state, STATE_INITIALISED, __ATOMIC_RELEASE);
}

/* A call is about to end it: its handle is another's as soon as that has returned. `destroyed`: properly, not by an
 * abort. */
void nccl_communicator_forget(uintptr_t handle, bool destroyed);

/* Once per activation, before the first communicator. False when there is no memory. */
bool nccl_communicators_begin(void);

/* At the process's normal end: a job that knows no MPI is finalised when it has destroyed its communicators. */
void nccl_communicators_end(void);

#endif
