/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls nearly every function of the table once or a few times on two ranks and keeps the ledger of it.
 * Lives here: the calls, and their message sizes by the definition of bytes, computed from what each call sends.
 * Must not live here: what the other programs show (many ranks, threads, real large counts, colliding names).
 *
 * usage: coverage [SCRATCH]     (on two ranks; without SCRATCH a file in EXPECT_DIR or here)
 *
 * Starting a persistent operation is the operation: its size is in the ledger under Start and Startall.
 * Left out: what needs a second job (spawn, accept, connect, join), Init_thread, Abort, and what MPI 4.1 added.
 */
#include <mpi.h>

#include "expect.h"

/* MPI_STATUSES_IGNORE, MPI_UNWEIGHTED and their like are sentinels that the compiler takes for objects. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"
#endif

enum { N = 2, ITEMS = 6, ROOM = 1024, TAG = 7 };
#define INTS(n) ((uint64_t)(n) * sizeof(int))
#define LARGE   (MPI_VERSION >= 4)

static int rank, other;
static int out[ROOM], in[ROOM];
static MPI_Info hints; /* empty: set_info wants an object */

static void must(int result, const char *name) {
    if (result == MPI_SUCCESS)
        return;
    fprintf(stderr, "coverage: rank %d: %s returned %d\n", rank, name, result);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

#define DO(name, size, ...)                                                                                            \
    do {                                                                                                               \
        must(name(__VA_ARGS__), #name);                                                                                \
        expect(#name, size, 1);                                                                                        \
    } while (0)

static void wait_one(MPI_Request *request) {
    DO(MPI_Wait, 0, request, MPI_STATUS_IGNORE);
}

/* Starts a persistent operation in both ways and frees it. */
static void start_twice(uint64_t size, MPI_Request *request) {
    DO(MPI_Start, size, request);
    wait_one(request);
    DO(MPI_Startall, size, 1, request);
    wait_one(request);
    DO(MPI_Request_free, 0, request);
}

/* ---- collectives ------------------------------------------------------------------------------------------------ */

#if LARGE
#define PERSISTENT(init, size, ...)                                                                                    \
    do {                                                                                                               \
        DO(init, 0, __VA_ARGS__, MPI_INFO_NULL, &request);                                                             \
        start_twice(size, &request);                                                                                   \
    } while (0)
#else
#define PERSISTENT(init, size, ...) ((void)0)
#endif

/* One collective blocking, non-blocking and persistent. */
#define FORMS(name, iname, size, ...)                                                                                  \
    do {                                                                                                               \
        MPI_Request request;                                                                                           \
        DO(MPI_##name, size, __VA_ARGS__);                                                                             \
        DO(MPI_##iname, size, __VA_ARGS__, &request);                                                                  \
        wait_one(&request);                                                                                            \
        PERSISTENT(MPI_##name##_init, size, __VA_ARGS__);                                                              \
    } while (0)

#if LARGE
#define FORMS_C(name, iname, size, ...)                                                                                \
    do {                                                                                                               \
        MPI_Request request;                                                                                           \
        DO(MPI_##name##_c, size, __VA_ARGS__);                                                                         \
        DO(MPI_##iname##_c, size, __VA_ARGS__, &request);                                                              \
        wait_one(&request);                                                                                            \
        PERSISTENT(MPI_##name##_init_c, size, __VA_ARGS__);                                                            \
    } while (0)
#else
#define FORMS_C(name, iname, size, ...) ((void)0)
#endif

/* Where all counts are scalars both functions take the same arguments. */
#define FORMS_AND_C(name, iname, size, ...)                                                                            \
    do {                                                                                                               \
        FORMS(name, iname, size, __VA_ARGS__);                                                                         \
        FORMS_C(name, iname, size, __VA_ARGS__);                                                                       \
    } while (0)

static void collectives(MPI_Comm comm) {
    MPI_Datatype at_root = rank == 0 ? MPI_INT : MPI_DATATYPE_NULL;
    FORMS(Barrier, Ibarrier, 0, comm);
    FORMS_AND_C(Bcast, Ibcast, INTS(ITEMS), out, ITEMS, MPI_INT, 1, comm);
    FORMS_AND_C(Gather, Igather, INTS(ITEMS * N), out, ITEMS, MPI_INT, in, rank == 0 ? ITEMS : 0, at_root, 0, comm);
    FORMS_AND_C(Scatter, Iscatter, INTS(ITEMS * N), out, rank == 0 ? ITEMS : 0, at_root, in, ITEMS, MPI_INT, 0, comm);
    FORMS_AND_C(Allgather, Iallgather, INTS(ITEMS * N), out, ITEMS, MPI_INT, in, ITEMS, MPI_INT, comm);
    FORMS_AND_C(Alltoall, Ialltoall, INTS(ITEMS * N), out, ITEMS, MPI_INT, in, ITEMS, MPI_INT, comm);
}

static void reductions(MPI_Comm comm) {
    int shares[N] = {3, 4};
    FORMS_AND_C(Allreduce, Iallreduce, INTS(ITEMS), out, in, ITEMS, MPI_INT, MPI_SUM, comm);
    FORMS_AND_C(Reduce, Ireduce, INTS(ITEMS), out, in, ITEMS, MPI_INT, MPI_MAX, 1, comm);
    FORMS_AND_C(Reduce_scatter_block, Ireduce_scatter_block, INTS(ITEMS * N), out, in, ITEMS, MPI_INT, MPI_SUM, comm);
    FORMS_AND_C(Scan, Iscan, INTS(ITEMS), out, in, ITEMS, MPI_INT, MPI_SUM, comm);
    FORMS_AND_C(Exscan, Iexscan, INTS(ITEMS), out, in, ITEMS, MPI_INT, MPI_SUM, comm);
    FORMS(Reduce_scatter, Ireduce_scatter, INTS(7), out, in, shares, MPI_INT, MPI_SUM, comm);
#if LARGE
    MPI_Count large_shares[N] = {3, 4};
    FORMS_C(Reduce_scatter, Ireduce_scatter, INTS(7), out, in, large_shares, MPI_INT, MPI_SUM, comm);
#endif
}

/* Arguments that the standard leaves insignificant in place are given so that nobody can use them. */
static void in_place(MPI_Comm comm) {
    const int counts[N] = {2, 5}, displacements[N] = {0, 8};
    const int square[N] = {4, 4};
    DO(MPI_Allreduce, INTS(9), MPI_IN_PLACE, in, 9, MPI_INT, MPI_SUM, comm);
    DO(MPI_Allgather, INTS(3 * N), MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 3, MPI_INT, comm);
    DO(MPI_Allgatherv, INTS(7), MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, counts, displacements, MPI_INT, comm);
    DO(MPI_Alltoall, INTS(3 * N), MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 3, MPI_INT, comm);
    DO(MPI_Alltoallv, INTS(8), MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in, square, displacements, MPI_INT, comm);
    if (rank == 0) {
        DO(MPI_Gather, INTS(3 * N), MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 3, MPI_INT, 0, comm);
        DO(MPI_Scatter, INTS(3 * N), out, 3, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 0, comm);
    } else {
        DO(MPI_Gather, INTS(3 * N), out, 3, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, 0, comm);
        DO(MPI_Scatter, INTS(3 * N), NULL, 0, MPI_DATATYPE_NULL, in, 3, MPI_INT, 0, comm);
    }
}

/* Rank 0 sends {2, 3} items, rank 1 {4, 5}. */
static void vectors(MPI_Comm comm) {
    const int sent[N] = {2 + 2 * rank, 3 + 2 * rank}, received[N] = {2 + rank, 4 + rank}, displacements[N] = {0, 16};
    const int byte_displacements[N] = {0, 64}, counts[N] = {2, 5};
    const MPI_Datatype types[N] = {MPI_INT, MPI_FLOAT};
    const MPI_Datatype types_in[N] = {rank == 0 ? MPI_INT : MPI_FLOAT, rank == 0 ? MPI_INT : MPI_FLOAT};
    uint64_t rooted = INTS(rank == 0 ? 7 : counts[rank]), mine = INTS(sent[0] + sent[1]);
    MPI_Datatype at_root = rank == 0 ? MPI_INT : MPI_DATATYPE_NULL;
    FORMS(Gatherv, Igatherv, rooted, out, counts[rank], MPI_INT, in, counts, displacements, at_root, 0, comm);
    FORMS(Scatterv, Iscatterv, rooted, out, counts, displacements, at_root, in, counts[rank], MPI_INT, 0, comm);
    FORMS(Allgatherv, Iallgatherv, INTS(7), out, counts[rank], MPI_INT, in, counts, displacements, MPI_INT, comm);
    FORMS(Alltoallv, Ialltoallv, mine, out, sent, displacements, MPI_INT, in, received, displacements, MPI_INT, comm);
    FORMS(Alltoallw, Ialltoallw, mine, out, sent, byte_displacements, types, in, received, byte_displacements, types_in,
          comm);
}

#if LARGE
static void large_vectors(MPI_Comm comm) {
    const MPI_Count sent[N] = {2 + 2 * rank, 3 + 2 * rank}, received[N] = {2 + rank, 4 + rank}, counts[N] = {2, 5};
    const MPI_Aint displacements[N] = {0, 16}, byte_displacements[N] = {0, 64};
    const MPI_Datatype types[N] = {MPI_INT, MPI_INT};
    uint64_t rooted = INTS(rank == 0 ? 7 : counts[rank]), mine = INTS(sent[0] + sent[1]);
    FORMS_C(Gatherv, Igatherv, rooted, out, counts[rank], MPI_INT, in, counts, displacements, MPI_INT, 0, comm);
    FORMS_C(Scatterv, Iscatterv, rooted, out, counts, displacements, MPI_INT, in, counts[rank], MPI_INT, 0, comm);
    FORMS_C(Allgatherv, Iallgatherv, INTS(7), out, counts[rank], MPI_INT, in, counts, displacements, MPI_INT, comm);
    FORMS_C(Alltoallv, Ialltoallv, mine, out, sent, displacements, MPI_INT, in, received, displacements, MPI_INT, comm);
    FORMS_C(Alltoallw, Ialltoallw, mine, out, sent, byte_displacements, types, in, received, byte_displacements, types,
            comm);
}
#endif

/* `comm` has the other rank `degree` times as a neighbour in both directions; 3 items to the first, 4 to others. */
static void neighbours(MPI_Comm comm, int degree) {
    const int counts[N] = {3, 3}, displacements[N] = {0, 16};
    const MPI_Aint byte_displacements[N] = {0, 64};
    const MPI_Datatype types[N] = {MPI_INT, MPI_INT};
    uint64_t equal = INTS(ITEMS * degree), varied = INTS(3 * degree);
    FORMS_AND_C(Neighbor_allgather, Ineighbor_allgather, equal, out, ITEMS, MPI_INT, in, ITEMS, MPI_INT, comm);
    FORMS_AND_C(Neighbor_alltoall, Ineighbor_alltoall, equal, out, ITEMS, MPI_INT, in, ITEMS, MPI_INT, comm);
    FORMS(Neighbor_allgatherv, Ineighbor_allgatherv, varied, out, 3, MPI_INT, in, counts, displacements, MPI_INT, comm);
    FORMS(Neighbor_alltoallv, Ineighbor_alltoallv, varied, out, counts, displacements, MPI_INT, in, counts,
          displacements, MPI_INT, comm);
    FORMS(Neighbor_alltoallw, Ineighbor_alltoallw, varied, out, counts, byte_displacements, types, in, counts,
          byte_displacements, types, comm);
#if LARGE
    const MPI_Count large[N] = {3, 3};
    const MPI_Aint items[N] = {0, 16};
    FORMS_C(Neighbor_allgatherv, Ineighbor_allgatherv, varied, out, 3, MPI_INT, in, large, items, MPI_INT, comm);
    FORMS_C(Neighbor_alltoallv, Ineighbor_alltoallv, varied, out, large, items, MPI_INT, in, large, items, MPI_INT,
            comm);
    FORMS_C(Neighbor_alltoallw, Ineighbor_alltoallw, varied, out, large, byte_displacements, types, in, large,
            byte_displacements, types, comm);
#endif
}

/* ---- point-to-point --------------------------------------------------------------------------------------------- */

/* Rank 0 sends with one function what rank 1 receives with MPI_Recv into more room than is needed. */
#define SEND(name)                                                                                                     \
    do {                                                                                                               \
        if (rank == 0)                                                                                                 \
            DO(name, INTS(ITEMS), out, ITEMS, MPI_INT, 1, TAG, MPI_COMM_WORLD);                                        \
        else                                                                                                           \
            receive(ITEMS);                                                                                            \
    } while (0)

#define ISEND(name)                                                                                                    \
    do {                                                                                                               \
        if (rank == 0) {                                                                                               \
            MPI_Request request;                                                                                       \
            DO(name, INTS(ITEMS), out, ITEMS, MPI_INT, 1, TAG, MPI_COMM_WORLD, &request);                              \
            wait_one(&request);                                                                                        \
        } else                                                                                                         \
            receive(ITEMS);                                                                                            \
    } while (0)

#define SEND_INIT(name)                                                                                                \
    do {                                                                                                               \
        if (rank == 0) {                                                                                               \
            MPI_Request request;                                                                                       \
            DO(name, 0, out, ITEMS, MPI_INT, 1, TAG, MPI_COMM_WORLD, &request);                                        \
            start_twice(INTS(ITEMS), &request);                                                                        \
        } else {                                                                                                       \
            receive(ITEMS);                                                                                            \
            receive(ITEMS);                                                                                            \
        }                                                                                                              \
    } while (0)

/* A ready send of rank 0 to a receive that rank 1 has posted before the barrier; `send` is one of the macros above. */
#define READY(statement, receives)                                                                                     \
    do {                                                                                                               \
        MPI_Request posted[2];                                                                                         \
        if (rank == 1)                                                                                                 \
            for (int i = 0; i < (receives); i++)                                                                       \
                DO(MPI_Irecv, INTS(ITEMS), in, ITEMS, MPI_INT, 0, TAG, MPI_COMM_WORLD, &posted[i]);                    \
        DO(MPI_Barrier, 0, MPI_COMM_WORLD);                                                                            \
        if (rank == 0) {                                                                                               \
            statement;                                                                                                 \
        } else                                                                                                         \
            DO(MPI_Waitall, 0, receives, posted, MPI_STATUSES_IGNORE);                                                 \
    } while (0)

static void receive(int items) {
    MPI_Status status;
    DO(MPI_Recv, INTS(items), in, items + 10, MPI_INT, 0, TAG, MPI_COMM_WORLD, &status);
}

static void sends(void) {
    static char buffer[65536];
    void *detached;
    int size;
    DO(MPI_Buffer_attach, 0, buffer, sizeof buffer);
    SEND(MPI_Send);
    SEND(MPI_Bsend);
    SEND(MPI_Ssend);
    ISEND(MPI_Isend);
    ISEND(MPI_Ibsend);
    ISEND(MPI_Issend);
    SEND_INIT(MPI_Send_init);
    SEND_INIT(MPI_Bsend_init);
    SEND_INIT(MPI_Ssend_init);
    DO(MPI_Buffer_detach, 0, &detached, &size);
}

static void ready_sends(void) {
    MPI_Request request;
    READY(DO(MPI_Rsend, INTS(ITEMS), out, ITEMS, MPI_INT, 1, TAG, MPI_COMM_WORLD), 1);
    READY(
        {
            DO(MPI_Irsend, INTS(ITEMS), out, ITEMS, MPI_INT, 1, TAG, MPI_COMM_WORLD, &request);
            wait_one(&request);
        },
        1);
    READY(
        {
            DO(MPI_Rsend_init, 0, out, ITEMS, MPI_INT, 1, TAG, MPI_COMM_WORLD, &request);
            start_twice(INTS(ITEMS), &request);
        },
        2);
}

#if LARGE
static void large_sends(void) {
    static char buffer[65536];
    void *detached;
    MPI_Count size;
    MPI_Request request;
    DO(MPI_Buffer_attach_c, 0, buffer, sizeof buffer);
    SEND(MPI_Send_c);
    SEND(MPI_Bsend_c);
    SEND(MPI_Ssend_c);
    ISEND(MPI_Isend_c);
    ISEND(MPI_Ibsend_c);
    ISEND(MPI_Issend_c);
    SEND_INIT(MPI_Send_init_c);
    SEND_INIT(MPI_Bsend_init_c);
    SEND_INIT(MPI_Ssend_init_c);
    READY(DO(MPI_Rsend_c, INTS(ITEMS), out, ITEMS, MPI_INT, 1, TAG, MPI_COMM_WORLD), 1);
    READY(
        {
            DO(MPI_Irsend_c, INTS(ITEMS), out, ITEMS, MPI_INT, 1, TAG, MPI_COMM_WORLD, &request);
            wait_one(&request);
        },
        1);
    READY(
        {
            DO(MPI_Rsend_init_c, 0, out, ITEMS, MPI_INT, 1, TAG, MPI_COMM_WORLD, &request);
            start_twice(INTS(ITEMS), &request);
        },
        2);
    DO(MPI_Buffer_detach_c, 0, &detached, &size);
}
#endif

static void send_items(int items) {
    DO(MPI_Send, INTS(items), out, items, MPI_INT, 1, TAG, MPI_COMM_WORLD);
}

/* Every way to receive; rank 1 receives less than it posts wherever it looks at the status. */
static void receives(void) {
    MPI_Request request;
    MPI_Status status;
    MPI_Message message;
    int flag = 0;
    if (rank == 0) {
        for (int items = 1; items <= 7; items++)
            send_items(items);
        return;
    }
    DO(MPI_Irecv, INTS(1), in, 20, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request);
    DO(MPI_Wait, 0, &request, &status);
    DO(MPI_Recv_init, 0, in, 20, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request);
    DO(MPI_Start, INTS(2), &request);
    DO(MPI_Wait, 0, &request, &status);
    DO(MPI_Request_free, 0, &request);
    DO(MPI_Probe, 0, 0, TAG, MPI_COMM_WORLD, &status);
    receive(3);
    while (!flag)
        DO(MPI_Iprobe, 0, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
    DO(MPI_Recv, INTS(4), in, 20, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    DO(MPI_Mprobe, 0, 0, TAG, MPI_COMM_WORLD, &message, &status);
    DO(MPI_Mrecv, INTS(5), in, 20, MPI_INT, &message, &status);
    for (flag = 0; !flag;)
        DO(MPI_Improbe, 0, 0, TAG, MPI_COMM_WORLD, &flag, &message, &status);
    DO(MPI_Imrecv, INTS(6), in, 20, MPI_INT, &message, &request);
    DO(MPI_Wait, 0, &request, &status);
    receive(7);
}

#if LARGE
static void large_receives(void) {
    MPI_Request request;
    MPI_Status status;
    MPI_Message message;
    if (rank == 0) {
        for (int items = 1; items <= 6; items++)
            send_items(items);
        return;
    }
    DO(MPI_Recv_c, INTS(1), in, 20, MPI_INT, 0, TAG, MPI_COMM_WORLD, &status);
    DO(MPI_Irecv_c, INTS(2), in, 20, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request);
    DO(MPI_Wait, 0, &request, &status);
    DO(MPI_Mprobe, 0, 0, TAG, MPI_COMM_WORLD, &message, &status);
    DO(MPI_Mrecv_c, INTS(3), in, 20, MPI_INT, &message, &status);
    DO(MPI_Mprobe, 0, 0, TAG, MPI_COMM_WORLD, &message, &status);
    DO(MPI_Imrecv_c, INTS(4), in, 20, MPI_INT, &message, &request);
    DO(MPI_Wait, 0, &request, &status);
    DO(MPI_Recv_init_c, 0, in, 20, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request);
    for (int items = 5; items <= 6; items++) {
        DO(MPI_Start, INTS(items), &request);
        DO(MPI_Wait, 0, &request, &status);
    }
    DO(MPI_Request_free, 0, &request);
}
#endif

/* Rank 0 sends 3 items and gets 5, rank 1 the other way round; what is replaced has 4. */
static void exchanges(void) {
    MPI_Status status;
    const int sent = rank == 0 ? 3 : 5;
#define BOTH    out, sent, MPI_INT, other, TAG, in, 20, MPI_INT, other, TAG, MPI_COMM_WORLD
#define REPLACE in, 4, MPI_INT, other, TAG, other, TAG, MPI_COMM_WORLD
    DO(MPI_Sendrecv, INTS(sent), BOTH, &status);
    DO(MPI_Sendrecv_replace, INTS(4), REPLACE, &status);
#if LARGE
    MPI_Request request;
    DO(MPI_Sendrecv_c, INTS(sent), BOTH, &status);
    DO(MPI_Sendrecv_replace_c, INTS(4), REPLACE, &status);
    DO(MPI_Isendrecv, INTS(sent), BOTH, &request);
    DO(MPI_Wait, 0, &request, &status);
    DO(MPI_Isendrecv_c, INTS(sent), BOTH, &request);
    DO(MPI_Wait, 0, &request, &status);
    DO(MPI_Isendrecv_replace, INTS(4), REPLACE, &request);
    DO(MPI_Wait, 0, &request, &status);
    DO(MPI_Isendrecv_replace_c, INTS(4), REPLACE, &request);
    DO(MPI_Wait, 0, &request, &status);
#endif
}

/* Posts two sends and two receives to the other rank. */
static void post_four(MPI_Request requests[4]) {
    for (int i = 0; i < 2; i++) {
        DO(MPI_Irecv, INTS(ITEMS), in + 100 * i, ITEMS, MPI_INT, other, TAG + i, MPI_COMM_WORLD, &requests[i]);
        DO(MPI_Isend, INTS(ITEMS), out + 100 * i, ITEMS, MPI_INT, other, TAG + i, MPI_COMM_WORLD, &requests[2 + i]);
    }
}

static void waits(void) {
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int indices[4], outcount = 0, index;
    post_four(requests);
    DO(MPI_Waitall, 0, 4, requests, statuses);
    post_four(requests);
    for (int i = 0; i < 4; i++)
        DO(MPI_Waitany, 0, 4, requests, &index, MPI_STATUS_IGNORE);
    post_four(requests);
    for (int left = 4; left > 0; left -= outcount)
        DO(MPI_Waitsome, 0, 4, requests, &outcount, indices, MPI_STATUSES_IGNORE);
}

static void tests(void) {
    MPI_Request requests[4];
    MPI_Status status, statuses[4];
    int indices[4], outcount = 0, index, flag = 0;
    post_four(requests);
    for (int i = 0; i < 4; i++)
        for (flag = 0; !flag;)
            DO(MPI_Test, 0, &requests[i], &flag, &status);
    post_four(requests);
    for (flag = 0; !flag;)
        DO(MPI_Testall, 0, 4, requests, &flag, statuses);
    post_four(requests);
    for (int i = 0; i < 4; i += flag)
        DO(MPI_Testany, 0, 4, requests, &index, &flag, &status);
    post_four(requests);
    for (int left = 4; left > 0; left -= outcount)
        DO(MPI_Testsome, 0, 4, requests, &outcount, indices, MPI_STATUSES_IGNORE);
    post_four(requests);
    for (flag = 0; !flag;)
        DO(MPI_Request_get_status, 0, requests[0], &flag, &status);
    DO(MPI_Waitall, 0, 4, requests, MPI_STATUSES_IGNORE);
}

/* A cancelled receive, a request that is given away, a derived datatype. */
static void loose_ends(void) {
    MPI_Request request;
    MPI_Datatype pair;
    DO(MPI_Irecv, 0, in, 0, MPI_INT, other, TAG + 1000, MPI_COMM_WORLD, &request);
    DO(MPI_Cancel, 0, &request);
    wait_one(&request);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    if (rank == 0) {
        DO(MPI_Isend, INTS(2 * 3), out, 3, pair, 1, TAG, MPI_COMM_WORLD, &request);
        DO(MPI_Request_free, 0, &request);
    } else
        DO(MPI_Recv, INTS(2 * 3), in, 3, pair, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    must(MPI_Type_free(&pair), "MPI_Type_free");
}

#if LARGE
static void partitioned(void) {
    enum { PARTITIONS = 4 };
    MPI_Request request;
    int listed[2] = {2, 3}, flag = 0;
    if (rank == 0) {
        DO(MPI_Psend_init, 0, out, PARTITIONS, 3, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        DO(MPI_Start, INTS(PARTITIONS * 3), &request);
        DO(MPI_Pready, 0, 0, request);
        DO(MPI_Pready_range, 0, 1, 1, request);
        DO(MPI_Pready_list, 0, 2, listed, request);
    } else {
        DO(MPI_Precv_init, 0, in, PARTITIONS, 3, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        DO(MPI_Start, INTS(PARTITIONS * 3), &request);
        while (!flag)
            DO(MPI_Parrived, 0, request, 1, &flag);
    }
    wait_one(&request);
    DO(MPI_Request_free, 0, &request);
}
#endif

/* ---- communicators ---------------------------------------------------------------------------------------------- */

static void free_comm(MPI_Comm *comm) {
    DO(MPI_Comm_free, 0, comm);
}

static void copies_and_parts(void) {
    MPI_Comm comm, self;
    MPI_Group group;
    MPI_Request request;
    DO(MPI_Comm_dup, 0, MPI_COMM_WORLD, &comm);
    must(MPI_Comm_set_name(comm, "copy"), "MPI_Comm_set_name");
    DO(MPI_Comm_set_info, 0, comm, hints);
    DO(MPI_Barrier, 0, comm);
    DO(MPI_Comm_disconnect, 0, &comm);
    DO(MPI_Comm_dup_with_info, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &comm);
    free_comm(&comm);
    DO(MPI_Comm_idup, 0, MPI_COMM_WORLD, &comm, &request);
    wait_one(&request);
    free_comm(&comm);
    DO(MPI_Comm_split, 0, MPI_COMM_WORLD, rank, 0, &self);
    DO(MPI_Allreduce, INTS(1), out, in, 1, MPI_INT, MPI_SUM, self);
    free_comm(&self);
    DO(MPI_Comm_split_type, 0, MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &comm);
    DO(MPI_Barrier, 0, comm);
    free_comm(&comm);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    DO(MPI_Comm_create, 0, MPI_COMM_WORLD, group, &comm);
    free_comm(&comm);
    DO(MPI_Comm_create_group, 0, MPI_COMM_WORLD, group, TAG, &comm);
    DO(MPI_Barrier, 0, comm);
    free_comm(&comm);
    MPI_Group_free(&group);
    DO(MPI_Comm_get_parent, 0, &comm);
}

static void topologies(void) {
    const int dimension = N, periodic = 1, keep = 1, degree = 1, edge_ends[N] = {1, 2}, edges[N] = {1, 0};
    MPI_Comm comm, sub;
    DO(MPI_Cart_create, 0, MPI_COMM_WORLD, 1, &dimension, &periodic, 0, &comm);
    neighbours(comm, 2);
    DO(MPI_Cart_sub, 0, comm, &keep, &sub);
    free_comm(&sub);
    free_comm(&comm);
    DO(MPI_Graph_create, 0, MPI_COMM_WORLD, N, edge_ends, edges, 0, &comm);
    neighbours(comm, 1);
    free_comm(&comm);
    DO(MPI_Dist_graph_create, 0, MPI_COMM_WORLD, 1, &rank, &degree, &other, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    neighbours(comm, 1);
    free_comm(&comm);
    DO(MPI_Dist_graph_create_adjacent, 0, MPI_COMM_WORLD, 1, &other, MPI_UNWEIGHTED, 1, &other, MPI_UNWEIGHTED,
       MPI_INFO_NULL, 0, &comm);
    neighbours(comm, 1);
    free_comm(&comm);
}

static void intercommunicators(void) {
    MPI_Comm between, merged;
    DO(MPI_Intercomm_create, 0, MPI_COMM_SELF, 0, MPI_COMM_WORLD, other, TAG, &between);
    DO(MPI_Barrier, 0, between);
    DO(MPI_Bcast, INTS(ITEMS), out, ITEMS, MPI_INT, rank == 0 ? MPI_ROOT : 0, between);
    DO(MPI_Allreduce, INTS(ITEMS), out, in, ITEMS, MPI_INT, MPI_SUM, between);
    DO(MPI_Intercomm_merge, 0, between, rank, &merged);
    DO(MPI_Barrier, 0, merged);
    free_comm(&merged);
    free_comm(&between);
}

#if LARGE
static void sessions(void) {
    MPI_Session session;
    MPI_Group group, mine, theirs;
    MPI_Comm comm;
    MPI_Request request;
    DO(MPI_Comm_idup_with_info, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &comm, &request);
    wait_one(&request);
    free_comm(&comm);
    DO(MPI_Session_init, 0, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    must(MPI_Group_from_session_pset(session, "mpi://WORLD", &group), "MPI_Group_from_session_pset");
    DO(MPI_Comm_create_from_group, 0, group, "coverage", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    DO(MPI_Barrier, 0, comm);
    free_comm(&comm);
    MPI_Group_incl(group, 1, &rank, &mine);
    MPI_Group_incl(group, 1, &other, &theirs);
    DO(MPI_Intercomm_create_from_groups, 0, mine, 0, theirs, 0, "between", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    DO(MPI_Barrier, 0, comm);
    free_comm(&comm);
    MPI_Group_free(&mine);
    MPI_Group_free(&theirs);
    MPI_Group_free(&group);
    DO(MPI_Session_finalize, 0, &session);
}
#endif

/* ---- one-sided -------------------------------------------------------------------------------------------------- */

static void accesses(MPI_Win win) {
    int compare = 0;
    DO(MPI_Put, INTS(2), out, 2, MPI_INT, other, 0, 2, MPI_INT, win);
    DO(MPI_Get, INTS(3), in, 3, MPI_INT, other, 10, 3, MPI_INT, win);
    DO(MPI_Accumulate, INTS(4), out, 4, MPI_INT, other, 20, 4, MPI_INT, MPI_SUM, win);
    DO(MPI_Get_accumulate, INTS(5), out, 5, MPI_INT, in + 50, 5, MPI_INT, other, 30, 5, MPI_INT, MPI_SUM, win);
    DO(MPI_Fetch_and_op, INTS(1), out, in + 60, MPI_INT, other, 40, MPI_SUM, win);
    DO(MPI_Compare_and_swap, INTS(1), out, &compare, in + 70, MPI_INT, other, 41, win);
#if LARGE
    DO(MPI_Put_c, INTS(2), out, 2, MPI_INT, other, 50, 2, MPI_INT, win);
    DO(MPI_Get_c, INTS(3), in + 80, 3, MPI_INT, other, 60, 3, MPI_INT, win);
    DO(MPI_Accumulate_c, INTS(4), out, 4, MPI_INT, other, 70, 4, MPI_INT, MPI_SUM, win);
    DO(MPI_Get_accumulate_c, INTS(5), out, 5, MPI_INT, in + 90, 5, MPI_INT, other, 80, 5, MPI_INT, MPI_SUM, win);
#endif
}

#define RMA_WAIT(name, size, ...)                                                                                      \
    do {                                                                                                               \
        MPI_Request request;                                                                                           \
        DO(name, size, __VA_ARGS__, &request);                                                                         \
        wait_one(&request);                                                                                            \
    } while (0)

static void requested_accesses(MPI_Win win) {
    RMA_WAIT(MPI_Rput, INTS(2), out, 2, MPI_INT, other, 0, 2, MPI_INT, win);
    RMA_WAIT(MPI_Rget, INTS(3), in, 3, MPI_INT, other, 10, 3, MPI_INT, win);
    RMA_WAIT(MPI_Raccumulate, INTS(4), out, 4, MPI_INT, other, 20, 4, MPI_INT, MPI_SUM, win);
    RMA_WAIT(MPI_Rget_accumulate, INTS(5), out, 5, MPI_INT, in + 50, 5, MPI_INT, other, 30, 5, MPI_INT, MPI_SUM, win);
#if LARGE
    RMA_WAIT(MPI_Rput_c, INTS(2), out, 2, MPI_INT, other, 0, 2, MPI_INT, win);
    RMA_WAIT(MPI_Rget_c, INTS(3), in, 3, MPI_INT, other, 10, 3, MPI_INT, win);
    RMA_WAIT(MPI_Raccumulate_c, INTS(4), out, 4, MPI_INT, other, 20, 4, MPI_INT, MPI_SUM, win);
    RMA_WAIT(MPI_Rget_accumulate_c, INTS(5), out, 5, MPI_INT, in + 50, 5, MPI_INT, other, 30, 5, MPI_INT, MPI_SUM, win);
#endif
}

static void passive_target(MPI_Win win) {
    DO(MPI_Win_lock, 0, MPI_LOCK_EXCLUSIVE, other, 0, win);
    DO(MPI_Put, INTS(2), out, 2, MPI_INT, other, 0, 2, MPI_INT, win);
    DO(MPI_Win_unlock, 0, other, win);
    DO(MPI_Win_lock_all, 0, 0, win);
    requested_accesses(win);
    DO(MPI_Win_flush, 0, other, win);
    DO(MPI_Win_flush_all, 0, win);
    DO(MPI_Win_flush_local, 0, other, win);
    DO(MPI_Win_flush_local_all, 0, win);
    DO(MPI_Win_sync, 0, win);
    DO(MPI_Win_unlock_all, 0, win);
}

static void active_target(MPI_Win win) {
    MPI_Group all, partner;
    int flag = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &other, &partner);
    for (int tested = 0; tested < 2; tested++) {
        DO(MPI_Win_post, 0, partner, 0, win);
        DO(MPI_Win_start, 0, partner, 0, win);
        DO(MPI_Put, INTS(2), out, 2, MPI_INT, other, 0, 2, MPI_INT, win);
        DO(MPI_Win_complete, 0, win);
        if (!tested)
            DO(MPI_Win_wait, 0, win);
        while (tested && !flag)
            DO(MPI_Win_test, 0, win, &flag);
    }
    MPI_Group_free(&partner);
    MPI_Group_free(&all);
}

static void windows(void) {
    static int exposed[ROOM];
    void *memory;
    MPI_Win win;
    DO(MPI_Win_create, 0, exposed, sizeof exposed, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    DO(MPI_Win_set_info, 0, win, hints);
    DO(MPI_Win_fence, 0, 0, win);
    accesses(win);
    DO(MPI_Win_fence, 0, 0, win);
    active_target(win);
    DO(MPI_Win_free, 0, &win);
    DO(MPI_Win_allocate, 0, sizeof exposed, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, sizeof exposed);
    DO(MPI_Barrier, 0, MPI_COMM_WORLD);
    passive_target(win);
    DO(MPI_Win_free, 0, &win);
    DO(MPI_Win_allocate_shared, 0, sizeof exposed, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    DO(MPI_Win_free, 0, &win);
    DO(MPI_Win_create_dynamic, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    DO(MPI_Win_free, 0, &win);
#if LARGE
    DO(MPI_Win_create_c, 0, exposed, sizeof exposed, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    DO(MPI_Win_free, 0, &win);
    DO(MPI_Win_allocate_c, 0, sizeof exposed, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    DO(MPI_Win_free, 0, &win);
    DO(MPI_Win_allocate_shared_c, 0, sizeof exposed, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    DO(MPI_Win_free, 0, &win);
#endif
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

#define DATA(buffer) buffer, ITEMS, MPI_INT
#define MOVED        INTS(ITEMS)

/* One way to access a file, in both directions and with both widths of the count. `at` is an offset or empty. */
#if LARGE
#define TWINS(name, ...)                                                                                               \
    do {                                                                                                               \
        DO(MPI_File_##name, MOVED, __VA_ARGS__);                                                                       \
        DO(MPI_File_##name##_c, MOVED, __VA_ARGS__);                                                                   \
    } while (0)
#define WAIT_TWINS(name, ...)                                                                                          \
    do {                                                                                                               \
        RMA_WAIT(MPI_File_##name, MOVED, __VA_ARGS__);                                                                 \
        RMA_WAIT(MPI_File_##name##_c, MOVED, __VA_ARGS__);                                                             \
    } while (0)
#define SPLIT(name, handle, buffer, ...)                                                                               \
    do {                                                                                                               \
        DO(MPI_File_##name##_begin, MOVED, handle, __VA_ARGS__);                                                       \
        DO(MPI_File_##name##_end, 0, handle, buffer, &status);                                                         \
        DO(MPI_File_##name##_begin_c, MOVED, handle, __VA_ARGS__);                                                     \
        DO(MPI_File_##name##_end, 0, handle, buffer, &status);                                                         \
    } while (0)
#else
#define TWINS(name, ...)      DO(MPI_File_##name, MOVED, __VA_ARGS__)
#define WAIT_TWINS(name, ...) RMA_WAIT(MPI_File_##name, MOVED, __VA_ARGS__)
#define SPLIT(name, handle, buffer, ...)                                                                               \
    do {                                                                                                               \
        DO(MPI_File_##name##_begin, MOVED, handle, __VA_ARGS__);                                                       \
        DO(MPI_File_##name##_end, 0, handle, buffer, &status);                                                         \
    } while (0)
#endif

static void rewind_file(MPI_File file) {
    DO(MPI_File_seek, 0, file, 100 * rank, MPI_SEEK_SET);
    DO(MPI_File_seek_shared, 0, file, 0, MPI_SEEK_SET);
}

static void blocking_access(MPI_File file) {
    MPI_Status status;
    rewind_file(file);
    TWINS(write, file, DATA(out), &status);
    TWINS(write_at, file, 100 * rank, DATA(out), &status);
    TWINS(write_shared, file, DATA(out), &status);
    TWINS(write_all, file, DATA(out), &status);
    TWINS(write_at_all, file, 100 * rank, DATA(out), &status);
    TWINS(write_ordered, file, DATA(out), &status);
    rewind_file(file);
    TWINS(read, file, DATA(in), &status);
    TWINS(read_at, file, 100 * rank, DATA(in), &status);
    TWINS(read_shared, file, DATA(in), &status);
    TWINS(read_all, file, DATA(in), &status);
    TWINS(read_at_all, file, 100 * rank, DATA(in), &status);
    TWINS(read_ordered, file, DATA(in), &status);
}

static void split_access(MPI_File file) {
    MPI_Status status;
    rewind_file(file);
    SPLIT(write_all, file, out, DATA(out));
    SPLIT(write_at_all, file, out, 100 * rank, DATA(out));
    SPLIT(write_ordered, file, out, DATA(out));
    rewind_file(file);
    SPLIT(read_all, file, in, DATA(in));
    SPLIT(read_at_all, file, in, 100 * rank, DATA(in));
    SPLIT(read_ordered, file, in, DATA(in));
}

static void non_blocking_access(MPI_File file) {
    rewind_file(file);
    WAIT_TWINS(iwrite, file, DATA(out));
    WAIT_TWINS(iwrite_at, file, 100 * rank, DATA(out));
    WAIT_TWINS(iwrite_shared, file, DATA(out));
    WAIT_TWINS(iwrite_all, file, DATA(out));
    WAIT_TWINS(iwrite_at_all, file, 100 * rank, DATA(out));
    rewind_file(file);
    WAIT_TWINS(iread, file, DATA(in));
    WAIT_TWINS(iread_at, file, 100 * rank, DATA(in));
    WAIT_TWINS(iread_shared, file, DATA(in));
    WAIT_TWINS(iread_all, file, DATA(in));
    WAIT_TWINS(iread_at_all, file, 100 * rank, DATA(in));
}

static void files(const char *path) {
    MPI_File file;
    DO(MPI_File_open, 0, MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    DO(MPI_File_set_size, 0, file, 65536);
    DO(MPI_File_preallocate, 0, file, 65536);
    DO(MPI_File_set_info, 0, file, hints);
    DO(MPI_File_set_atomicity, 0, file, 0);
    DO(MPI_File_set_view, 0, file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    blocking_access(file);
    split_access(file);
    non_blocking_access(file);
    DO(MPI_File_sync, 0, file);
    DO(MPI_File_close, 0, &file);
    DO(MPI_Barrier, 0, MPI_COMM_WORLD);
    if (rank == 0)
        DO(MPI_File_delete, 0, path, MPI_INFO_NULL);
}

/* What a part left in the receive buffer; not for files: the order of shared pointers is open. */
static void take_results(void) {
    expect_digest(in, sizeof in);
    memset(in, 0, sizeof in);
}

static void common_calls(void) {
    void (*const world[])(MPI_Comm) = {collectives, reductions, in_place, vectors};
    void (*const parts[])(void) = {sends,      ready_sends,      receives,   exchanges,          waits,  tests,
                                   loose_ends, copies_and_parts, topologies, intercommunicators, windows};
    for (size_t i = 0; i < sizeof world / sizeof world[0]; i++) {
        world[i](MPI_COMM_WORLD);
        take_results();
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        parts[i]();
        take_results();
    }
}

#if LARGE
static void mpi4_calls(void) {
    void (*const parts[])(void) = {large_sends, large_receives, partitioned, sessions};
    large_vectors(MPI_COMM_WORLD);
    take_results();
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        parts[i]();
        take_results();
    }
}
#endif

int main(int argc, char **argv) {
    char scratch[4096];
    int size;
    const char *directory = getenv("EXPECT_DIR");
    DO(MPI_Init, 0, &argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 2 || size != N) {
        fputs("usage: coverage [SCRATCH], on two ranks\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    other = 1 - rank;
    MPI_Info_create(&hints);
    snprintf(scratch, sizeof scratch, "%s/coverage.scratch", directory ? directory : ".");
    for (int i = 0; i < ROOM; i++)
        out[i] = 1000 * rank + i;
    common_calls();
#if LARGE
    mpi4_calls();
#endif
    files(argc == 2 ? argv[1] : scratch);
    MPI_Info_free(&hints);
    DO(MPI_Finalize, 0);
    expect_write(rank);
    return 0;
}
