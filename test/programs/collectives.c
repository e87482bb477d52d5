/* SPDX-License-Identifier: Apache-2.0
 *
 * Every collective of MPI 3.1, blocking and non-blocking, with its ledger of calls and bytes.
 * Lives here: calls with arguments that differ per rank where the standard allows it. Must not live here:
 * point-to-point calls, communicator management beyond what a topology needs.
 *
 * Bytes are the message size as commtap defines it, worked out by hand from the arguments of each call.
 */
#include <mpi.h>

#include "expect.h"

#define RANKS_MAX 16

static int me, n;
static int in[4096], out[4096];
static int counts[RANKS_MAX], places[RANKS_MAX], byte_places[RANKS_MAX];
static MPI_Datatype types[RANKS_MAX];

static int sum_of_counts(void) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += counts[i];
    return sum;
}

static void checkpoint(void) {
    expect_digest(out, sizeof out);
    memset(out, 0, sizeof out);
}

static void fill(void) {
    for (int i = 0; i < 4096; i++)
        in[i] = 10000 * me + i;
    for (int i = 0, at = 0; i < n; at += counts[i++]) {
        counts[i] = i + 1;
        places[i] = at;
        byte_places[i] = at * (int)sizeof(int);
        types[i] = MPI_INT;
    }
}

static void rooted(void) {
    const MPI_Comm world = MPI_COMM_WORLD;
    const int last = n - 1, whole = 4 * sum_of_counts();
    CALLED(MPI_Bcast, 400, MPI_Bcast(me == 0 ? in : out, 100, MPI_INT, 0, world));
    checkpoint();
    CALLED(MPI_Reduce, 8 * 7, MPI_Reduce(in, out, 7, MPI_LONG, MPI_SUM, last, world));
    checkpoint();
    CALLED(MPI_Gather, 4 * 3 * n, MPI_Gather(in, 3, MPI_INT, out, 3, MPI_INT, last, world));
    checkpoint();
    CALLED(MPI_Scatter, 4 * 5 * n, MPI_Scatter(in, 5, MPI_INT, out, 5, MPI_INT, 0, world));
    checkpoint();
    CALLED(MPI_Gatherv, me == last ? whole : 4 * counts[me],
           MPI_Gatherv(in, counts[me], MPI_INT, out, counts, places, MPI_INT, last, world));
    checkpoint();
    CALLED(MPI_Scatterv, me == 0 ? whole : 4 * counts[me],
           MPI_Scatterv(in, counts, places, MPI_INT, out, counts[me], MPI_INT, 0, world));
    checkpoint();
}

static void unrooted(void) {
    const MPI_Comm world = MPI_COMM_WORLD;
    const int whole = 4 * sum_of_counts();
    CALLED(MPI_Barrier, 0, MPI_Barrier(world));
    CALLED(MPI_Allreduce, 4 * 11, MPI_Allreduce(in, out, 11, MPI_INT, MPI_MAX, world));
    memcpy(out, in, 52);
    CALLED(MPI_Allreduce, 4 * 13, MPI_Allreduce(MPI_IN_PLACE, out, 13, MPI_INT, MPI_BXOR, world));
    checkpoint();
    CALLED(MPI_Allgather, 4 * 6 * n, MPI_Allgather(in, 6, MPI_INT, out, 6, MPI_INT, world));
    CALLED(MPI_Allgather, 4 * 6 * n, MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, 6, MPI_INT, world));
    checkpoint();
    CALLED(MPI_Allgatherv, whole, MPI_Allgatherv(in, counts[me], MPI_INT, out, counts, places, MPI_INT, world));
    checkpoint();
    CALLED(MPI_Alltoall, 4 * 9 * n, MPI_Alltoall(in, 9, MPI_INT, out, 9, MPI_INT, world));
    CALLED(MPI_Alltoall, 4 * 9 * n, MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, 9, MPI_INT, world));
    checkpoint();
    CALLED(MPI_Reduce_scatter_block, 4 * 2 * n, MPI_Reduce_scatter_block(in, out, 2, MPI_INT, MPI_SUM, world));
    CALLED(MPI_Reduce_scatter, whole, MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, world));
    checkpoint();
    CALLED(MPI_Scan, 4 * 17, MPI_Scan(in, out, 17, MPI_INT, MPI_SUM, world));
    CALLED(MPI_Exscan, 4 * 19, MPI_Exscan(in, out, 19, MPI_INT, MPI_SUM, world));
    if (me != 0)
        checkpoint();
    memset(out, 0, sizeof out);
}

/* Rank i sends i + 1 integers to everybody, so receives j + 1 from rank j. */
static void varying(void) {
    int equal[RANKS_MAX], equal_places[RANKS_MAX], equal_bytes[RANKS_MAX];
    for (int i = 0; i < n; i++) {
        equal[i] = me + 1;
        equal_places[i] = i * (me + 1);
        equal_bytes[i] = equal_places[i] * (int)sizeof(int);
    }
    CALLED(MPI_Alltoallv, 4 * (me + 1) * n,
           MPI_Alltoallv(in, equal, equal_places, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD));
    checkpoint();
    CALLED(MPI_Alltoallw, 4 * (me + 1) * n,
           MPI_Alltoallw(in, equal, equal_bytes, types, out, counts, byte_places, types, MPI_COMM_WORLD));
    checkpoint();
}

static void neighbours(void) {
    int dims[1] = {n}, periods[1] = {1};
    MPI_Comm ring;
    CALLED(MPI_Cart_create, 0, MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring));
    int two[2] = {3, 4}, two_places[2] = {0, 3};
    MPI_Aint two_bytes[2] = {0, 12};
    CALLED(MPI_Neighbor_allgather, 4 * 5 * 2, MPI_Neighbor_allgather(in, 5, MPI_INT, out, 5, MPI_INT, ring));
    CALLED(MPI_Neighbor_alltoall, 4 * 6 * 2, MPI_Neighbor_alltoall(in, 6, MPI_INT, out, 6, MPI_INT, ring));
    checkpoint();
    int same[2] = {5, 5}, same_places[2] = {0, 5};
    CALLED(MPI_Neighbor_allgatherv, 4 * 5 * 2,
           MPI_Neighbor_allgatherv(in, 5, MPI_INT, out, same, same_places, MPI_INT, ring));
    int back[2] = {4, 3}, back_places[2] = {0, 4};
    MPI_Aint back_bytes[2] = {0, 16};
    CALLED(MPI_Neighbor_alltoallv, 4 * 7,
           MPI_Neighbor_alltoallv(in, two, two_places, MPI_INT, out, back, back_places, MPI_INT, ring));
    CALLED(MPI_Neighbor_alltoallw, 4 * 7,
           MPI_Neighbor_alltoallw(in, two, two_bytes, types, out, back, back_bytes, types, ring));
    checkpoint();
    CALLED(MPI_Comm_free, 0, MPI_Comm_free(&ring));
}

static void wait_for(MPI_Request *request) {
    CALLED(MPI_Wait, 0, MPI_Wait(request, MPI_STATUS_IGNORE));
}

static void nonblocking(void) {
    const MPI_Comm world = MPI_COMM_WORLD;
    const int last = n - 1, whole = 4 * sum_of_counts();
    MPI_Request request;
    CALLED(MPI_Ibarrier, 0, MPI_Ibarrier(world, &request));
    wait_for(&request);
    CALLED(MPI_Ibcast, 4 * 21, MPI_Ibcast(me == 0 ? in : out, 21, MPI_INT, 0, world, &request));
    wait_for(&request);
    CALLED(MPI_Iallreduce, 4 * 22, MPI_Iallreduce(in, out, 22, MPI_INT, MPI_SUM, world, &request));
    wait_for(&request);
    checkpoint();
    CALLED(MPI_Ireduce, 4 * 23, MPI_Ireduce(in, out, 23, MPI_INT, MPI_SUM, 0, world, &request));
    wait_for(&request);
    CALLED(MPI_Iallgather, 4 * 2 * n, MPI_Iallgather(in, 2, MPI_INT, out, 2, MPI_INT, world, &request));
    wait_for(&request);
    CALLED(MPI_Iallgatherv, whole,
           MPI_Iallgatherv(in, counts[me], MPI_INT, out, counts, places, MPI_INT, world, &request));
    wait_for(&request);
    checkpoint();
    CALLED(MPI_Ialltoall, 4 * 3 * n, MPI_Ialltoall(in, 3, MPI_INT, out, 3, MPI_INT, world, &request));
    wait_for(&request);
    CALLED(MPI_Igather, 4 * 4 * n, MPI_Igather(in, 4, MPI_INT, out, 4, MPI_INT, 0, world, &request));
    wait_for(&request);
    CALLED(MPI_Iscatter, 4 * 5 * n, MPI_Iscatter(in, 5, MPI_INT, out, 5, MPI_INT, last, world, &request));
    wait_for(&request);
    CALLED(MPI_Igatherv, me == 0 ? whole : 4 * counts[me],
           MPI_Igatherv(in, counts[me], MPI_INT, out, counts, places, MPI_INT, 0, world, &request));
    wait_for(&request);
    checkpoint();
    CALLED(MPI_Ireduce_scatter_block, 4 * 6 * n,
           MPI_Ireduce_scatter_block(in, out, 6, MPI_INT, MPI_SUM, world, &request));
    wait_for(&request);
    CALLED(MPI_Iscan, 4 * 8, MPI_Iscan(in, out, 8, MPI_INT, MPI_SUM, world, &request));
    wait_for(&request);
    checkpoint();
}

int main(int argc, char **argv) {
    CALLED(MPI_Init, 0, MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int i = 0; i < RANKS_MAX; i++)
        types[i] = MPI_INT;
    for (int round = 0; round < 3; round++) {
        fill();
        rooted();
        unrooted();
        varying();
        neighbours();
        nonblocking();
    }
    CALLED(MPI_Finalize, 0, MPI_Finalize());
    expect_write(me);
    return 0;
}
