/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators, windows and files of MPI: identity without communication.
 * uid = H(parent uid, per-parent creation ordinal, members as world ranks), so that all members agree.
 * Lives here: asking the library who is in one, registering and finding them by handle.
 * Must not live here: what all communicators have (comm/communicators.h), topologies (mpi_topology.h).
 *
 * Only local functions of the library are called, and only on handles that a successful call has just produced.
 */
#ifndef COMMTAP_MPI_COMMUNICATORS_H
#define COMMTAP_MPI_COMMUNICATORS_H

#include "shim/comm/communicators.h"
#include "shim/mpi/mpi_abi.h"

/* A communicator of MPI's, or the sequence of a window or a file. */
struct mpi_communicator {
    struct communicator base;
    uintptr_t handle;    /* windows, files: of the communicator that they were made from */
    uint64_t members;    /* their hash, on both sides */
    uint32_t wildcards;  /* a receive with a wildcard was posted: later ordinals are the analyzer's to find */
    uint8_t topology;    /* enum topology */
    int32_t outdegree;   /* neighbours sent to, -1 before it was asked for */
    uint32_t neighbours; /* entries of a neighbourhood collective's arrays, missing neighbours of a grid included */
    bool fenced;         /* windows: the last fence may have begun an epoch, which the next one ends */
    uint64_t missing;    /* bit i: entry i has no neighbour (grids of up to 32 dimensions) */

    /* what the dump says of whom it takes from, in all lives; private to mpi_topology.c */
    struct neighbours_definition *defined; /* NULL: nothing */
    uint64_t sources;                      /* hash of what it says */
    uint32_t definitions;                  /* how often it was said */
};
_Static_assert(sizeof(struct mpi_communicator) <= COMMUNICATOR_PLACE, "it has a place in the pool");

/* What stands behind a communicator of MPI's. */
static inline struct mpi_communicator *mpi_communicator(const struct communicator *c) {
    return (struct mpi_communicator *)c;
}

struct mpi_handles {
    struct handle_map communicators, windows, files, messages;
};
extern struct mpi_handles *mpi_handles; /* empty before mpi_communicators_begin */

/* Once per activation, with MPI initialised or a session begun. */
bool mpi_communicators_begin(void);
/* After MPI_Init succeeded: registers MPI_COMM_WORLD and MPI_COMM_SELF and tells the header rank and size. */
bool mpi_world_begun(void);
/* Before MPI_Finalize: gives back what begin took from the library. */
void mpi_communicators_end(void);

/* Without MPI_Init the process set mpi://WORLD of a session that a call has just begun is the world, and tells the
 * header rank and size: that is local (MPI 4.0, 7.3.2). Before a session ends, what was taken from it is given back;
 * the next one that lives has the same world. */
void mpi_session_begun(uintptr_t session);
void mpi_session_ends(uintptr_t session);

static inline struct communicator *mpi_communicator_find(uintptr_t argument) {
    return (struct communicator *)handle_map_get(&mpi_handles->communicators, mpi_handle(argument));
}

static inline struct communicator *mpi_window_find(uintptr_t argument) {
    return (struct communicator *)handle_map_get(&mpi_handles->windows, mpi_handle(argument));
}

static inline struct communicator *mpi_file_find(uintptr_t argument) {
    return (struct communicator *)handle_map_get(&mpi_handles->files, argument);
}

/* How a new communicator came about. */
struct mpi_creation {
    uint16_t call;
    struct communicator *parent; /* NULL: none, or unknown */
    uint64_t name;               /* what tells siblings apart besides the ordinal: a tag, a string; 0 */
    uint8_t topology;
    bool copies; /* the parent: it has the same members */
};

/* Registers a communicator handle that a creation returned (null handles are ignored). `ordinal` is the creation's. */
struct communicator *mpi_communicator_register(uintptr_t handle, const struct mpi_creation *creation, uint32_t ordinal);

/* For creations over a group: the ordinal among creations with the same parent, name and members is found here. */
struct communicator *mpi_communicator_register_group(uintptr_t handle, const struct mpi_creation *creation);

/* A communicator that appeared without our seeing its creation. */
struct communicator *mpi_communicator_register_unseen(uintptr_t handle);

/* A window or file over `parent`. */
struct communicator *mpi_sequence_register(struct handle_map *map, uintptr_t handle, struct communicator *parent,
                                           enum communicator_kind kind, uint16_t call);

/* True when the library itself tells us of freed communicators. */
bool mpi_communicators_are_watched(void);

#endif
