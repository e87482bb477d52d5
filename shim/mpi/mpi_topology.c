/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/mpi_topology.h"

#include <errno.h>

#include "shim/base/os.h"
#include "shim/mpi/mpi_library.h"

/* A mesh may be cut anew for ever, under one index: so often is it said with whom, then that it is not known. */
enum { DEFINITIONS_MOST = 64 };

/* ---- entries --------------------------------------------------------------------------------- */

/* A grid's array entries come in pairs per dimension: the neighbour below, the neighbour above (MPI 4.0, 8.6). */
static void count_grid(struct mpi_communicator *c) {
    int dimensions = 0, below, above;
    if (!mpi_library.Cartdim_get || !mpi_library.Cart_shift || mpi_library.Cartdim_get(c->handle, &dimensions))
        return;
    c->neighbours = 2 * (uint32_t)dimensions;
    for (int d = 0; d < dimensions && d < 32; d++) {
        if (mpi_library.Cart_shift(c->handle, d, 1, &below, &above))
            return;
        c->missing |= (uint64_t)(below == mpi_abi.proc_null) << 2 * d;
        c->missing |= (uint64_t)(above == mpi_abi.proc_null) << (2 * d + 1);
    }
}

void mpi_topology_count(struct mpi_communicator *c) {
    int degree = 0, in = 0, weighted = 0;
    if (c->outdegree >= 0)
        return;
    if (c->topology == TOPOLOGY_CART)
        count_grid(c);
    else if (c->topology == TOPOLOGY_GRAPH && mpi_library.Graph_neighbors_count)
        mpi_library.Graph_neighbors_count(c->handle, c->base.rank, &degree);
    else if (c->topology == TOPOLOGY_DIST_GRAPH && mpi_library.Dist_graph_neighbors_count)
        mpi_library.Dist_graph_neighbors_count(c->handle, &in, &degree, &weighted);
    if (c->topology != TOPOLOGY_CART)
        c->neighbours = (uint32_t)degree;
    c->outdegree = (int32_t)c->neighbours - __builtin_popcountll(c->missing);
}

/* ---- whom it takes from ---------------------------------------------------------------------- */

/* What the library lists goes here; few neighbours cost no mapping. */
struct lists {
    int few[4 * MEMBERS_FEW];
    int *ints;
    void *memory; /* NULL: `few` is enough */
    size_t bytes;
};

static bool room_for(struct lists *lists, size_t count) {
    lists->ints = lists->few;
    if (count <= sizeof lists->few / sizeof *lists->few)
        return true;
    lists->bytes = count * sizeof(int);
    lists->ints = lists->memory = os_memory(lists->bytes);
    return lists->memory != NULL;
}

static bool are_few(int count) {
    return count >= 0 && count <= (int)NEIGHBOURS_MOST;
}

static uint32_t grid_sources(const struct mpi_communicator *c, struct lists *lists) {
    int dimensions = 0, sides[2];
    uint32_t count = 0;
    if (!mpi_library.Cartdim_get || !mpi_library.Cart_shift || mpi_library.Cartdim_get(c->handle, &dimensions) ||
        !are_few(dimensions) || !are_few(2 * dimensions) || !room_for(lists, 2 * (size_t)dimensions))
        return NEIGHBOURS_UNKNOWN;
    for (int d = 0; d < dimensions; d++) {
        if (mpi_library.Cart_shift(c->handle, d, 1, &sides[0], &sides[1]))
            return NEIGHBOURS_UNKNOWN;
        for (int side = 0; side < 2; side++)
            if (sides[side] != mpi_abi.proc_null)
                lists->ints[count++] = sides[side];
    }
    return count;
}

/* Sources and destinations are the same in one. */
static uint32_t graph_sources(const struct mpi_communicator *c, struct lists *lists) {
    int count = 0, rank = c->base.rank;
    if (!mpi_library.Graph_neighbors_count || !mpi_library.Graph_neighbors ||
        mpi_library.Graph_neighbors_count(c->handle, rank, &count) || !are_few(count) ||
        !room_for(lists, (size_t)count) || mpi_library.Graph_neighbors(c->handle, rank, count, lists->ints))
        return NEIGHBOURS_UNKNOWN;
    return (uint32_t)count;
}

/* The library writes all four lists, however long it is told that they are. */
static uint32_t dist_graph_sources(const struct mpi_communicator *c, struct lists *lists) {
    int in = 0, out = 0, weighted = 0;
    if (!mpi_library.Dist_graph_neighbors_count || !mpi_library.Dist_graph_neighbors ||
        mpi_library.Dist_graph_neighbors_count(c->handle, &in, &out, &weighted) || !are_few(in) || !are_few(out) ||
        !room_for(lists, 2 * ((size_t)in + (size_t)out)))
        return NEIGHBOURS_UNKNOWN;
    int *destinations = lists->ints + 2 * (size_t)in;
    if (mpi_library.Dist_graph_neighbors(c->handle, in, lists->ints, lists->ints + in, out, destinations,
                                         destinations + out))
        return NEIGHBOURS_UNKNOWN;
    return (uint32_t)in;
}

static uint32_t ask_sources(const struct mpi_communicator *c, struct lists *lists) {
    switch (c->topology) {
    case TOPOLOGY_CART:
        return grid_sources(c, lists);
    case TOPOLOGY_GRAPH:
        return graph_sources(c, lists);
    default:
        return dist_graph_sources(c, lists);
    }
}

/* Where there is no room to say it, what was said before does not hold any more. */
static void define(struct mpi_communicator *c, const struct members *sources) {
    bool known = sources->count != NEIGHBOURS_UNKNOWN;
    uint32_t runs = known ? members_count_runs(sources, NULL) : 0;
    struct neighbours_definition *d =
        definitions_reserve(&recorder.definitions, sizeof *d + runs * sizeof(struct member_run));
    if (!d && c->defined)
        __atomic_store_n(&c->defined->head.commit, 0, __ATOMIC_RELEASE);
    c->defined = d;
    if (!d)
        return;
    d->index = c->base.index;
    d->first = c->base.sequence;
    d->count = sources->count;
    d->run_count = runs;
    if (runs)
        members_count_runs(sources, (struct member_run *)(d + 1));
    definitions_commit(d, DEFINITION_NEIGHBOURS);
}

void mpi_topology_define(struct communicator *made) {
    struct mpi_communicator *c = made ? mpi_communicator(made) : NULL;
    if (!c || c->topology == TOPOLOGY_NONE || c->definitions == DEFINITIONS_MOST)
        return;
    int saved = errno;
    struct lists lists = {.memory = NULL};
    uint32_t count = ask_sources(c, &lists);
    if (c->definitions + 1 == DEFINITIONS_MOST)
        count = NEIGHBOURS_UNKNOWN;
    const struct members sources = {.ranks = lists.ints, .count = count};
    uint64_t hash = hash_bytes(count, lists.ints, count == NEIGHBOURS_UNKNOWN ? 0 : count * sizeof(int));
    if (!c->defined || c->sources != hash) {
        c->definitions++;
        c->sources = hash;
        define(c, &sources);
    }
    if (lists.memory)
        os_unmap(lists.memory, lists.bytes);
    errno = saved;
}
