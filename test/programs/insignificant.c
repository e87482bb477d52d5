/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives whose arguments the standard calls insignificant at some ranks, given there as null or rubbish.
 * Lives here: such calls with their ledger. Must not live here: calls that are significant everywhere.
 *
 * A tool that sizes MPI_DATATYPE_NULL, or reads counts through a null pointer, ends this job.
 */
#include <mpi.h>

#include "expect.h"

#define WORLD MPI_COMM_WORLD
#define NONE  MPI_DATATYPE_NULL

static int me, n, sum;
static int in[1024], out[1024], counts[16], places[16];
static int *volatile rubbish = (int *)8;

static void gathers(void) {
    if (me == 0) {
        CALLED(MPI_Gather, 12 * n, MPI_Gather(in, 3, MPI_INT, out, 3, MPI_INT, 0, WORLD));
        CALLED(MPI_Gather, 12 * n, MPI_Gather(MPI_IN_PLACE, -7, NONE, out, 3, MPI_INT, 0, WORLD));
        CALLED(MPI_Gatherv, 4 * sum, MPI_Gatherv(in, counts[0], MPI_INT, out, counts, places, MPI_INT, 0, WORLD));
        CALLED(MPI_Gatherv, 4 * sum, MPI_Gatherv(MPI_IN_PLACE, 0, NONE, out, counts, places, MPI_INT, 0, WORLD));
    } else {
        CALLED(MPI_Gather, 12 * n, MPI_Gather(in, 3, MPI_INT, NULL, -1, NONE, 0, WORLD));
        CALLED(MPI_Gather, 12 * n, MPI_Gather(in, 3, MPI_INT, NULL, 0, NONE, 0, WORLD));
        CALLED(MPI_Gatherv, 4 * counts[me], MPI_Gatherv(in, counts[me], MPI_INT, NULL, NULL, NULL, NONE, 0, WORLD));
        CALLED(MPI_Gatherv, 4 * counts[me],
               MPI_Gatherv(in, counts[me], MPI_INT, NULL, rubbish, rubbish, NONE, 0, WORLD));
    }
}

static void scatters(void) {
    if (me == 0) {
        CALLED(MPI_Scatter, 20 * n, MPI_Scatter(in, 5, MPI_INT, out, 5, MPI_INT, 0, WORLD));
        CALLED(MPI_Scatter, 20 * n, MPI_Scatter(in, 5, MPI_INT, MPI_IN_PLACE, -1, NONE, 0, WORLD));
        CALLED(MPI_Scatterv, 4 * sum, MPI_Scatterv(in, counts, places, MPI_INT, MPI_IN_PLACE, 0, NONE, 0, WORLD));
    } else {
        CALLED(MPI_Scatter, 20 * n, MPI_Scatter(NULL, -1, NONE, out, 5, MPI_INT, 0, WORLD));
        CALLED(MPI_Scatter, 20 * n, MPI_Scatter(NULL, 0, NONE, out, 5, MPI_INT, 0, WORLD));
        CALLED(MPI_Scatterv, 4 * counts[me],
               MPI_Scatterv(NULL, rubbish, rubbish, NONE, out, counts[me], MPI_INT, 0, WORLD));
    }
}

static void reductions(void) {
    if (me == 0)
        CALLED(MPI_Reduce, 28, MPI_Reduce(MPI_IN_PLACE, in, 7, MPI_INT, MPI_SUM, 0, WORLD));
    else
        CALLED(MPI_Reduce, 28, MPI_Reduce(in, NULL, 7, MPI_INT, MPI_SUM, 0, WORLD));
    CALLED(MPI_Alltoall, 8 * n, MPI_Alltoall(MPI_IN_PLACE, -5, NONE, out, 2, MPI_INT, WORLD));
    int each[16];
    for (int i = 0; i < n; i++)
        each[i] = 1;
    CALLED(MPI_Alltoallv, 4 * n, MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, NONE, out, each, places, MPI_INT, WORLD));
}

static void nonblocking(void) {
    MPI_Request request;
    if (me == 0)
        CALLED(MPI_Igather, 12 * n, MPI_Igather(in, 3, MPI_INT, out, 3, MPI_INT, 0, WORLD, &request));
    else
        CALLED(MPI_Igather, 12 * n, MPI_Igather(in, 3, MPI_INT, NULL, 0, NONE, 0, WORLD, &request));
    CALLED(MPI_Wait, 0, MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (me == 0)
        CALLED(MPI_Igatherv, 4 * sum,
               MPI_Igatherv(in, counts[0], MPI_INT, out, counts, places, MPI_INT, 0, WORLD, &request));
    else
        CALLED(MPI_Igatherv, 4 * counts[me],
               MPI_Igatherv(in, counts[me], MPI_INT, NULL, NULL, NULL, NONE, 0, WORLD, &request));
    CALLED(MPI_Wait, 0, MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* On an intercommunicator MPI_PROC_NULL members of the root's group take no part: nothing they pass means anything. */
static void intercommunicator(void) {
    MPI_Comm half, inter;
    int upper = me >= n / 2;
    CALLED(MPI_Comm_split, 0, MPI_Comm_split(WORLD, upper, me, &half));
    CALLED(MPI_Intercomm_create, 0, MPI_Intercomm_create(half, 0, WORLD, upper ? 0 : n / 2, 5, &inter));
    if (upper)
        CALLED(MPI_Bcast, 16, MPI_Bcast(out, 4, MPI_INT, 0, inter));
    else if (me == 0)
        CALLED(MPI_Bcast, 16, MPI_Bcast(in, 4, MPI_INT, MPI_ROOT, inter));
    else
        CALLED(MPI_Bcast, 0, MPI_Bcast(NULL, 0, MPI_INT, MPI_PROC_NULL, inter));
    CALLED(MPI_Comm_free, 0, MPI_Comm_free(&inter));
    CALLED(MPI_Comm_free, 0, MPI_Comm_free(&half));
}

/* A freed datatype stays alive in the receive that uses it. */
static void freed_datatype(void) {
    MPI_Datatype pair;
    MPI_Request request;
    MPI_Status status;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    CALLED(MPI_Irecv, 24, MPI_Irecv(out, 8, pair, MPI_ANY_SOURCE, 1, MPI_COMM_SELF, &request));
    CALLED(MPI_Send, 24, MPI_Send(in, 3, pair, 0, 1, MPI_COMM_SELF));
    MPI_Type_free(&pair);
    CALLED(MPI_Wait, 0, MPI_Wait(&request, &status));
}

int main(int argc, char **argv) {
    CALLED(MPI_Init, 0, MPI_Init(&argc, &argv));
    MPI_Comm_rank(WORLD, &me);
    MPI_Comm_size(WORLD, &n);
    for (int i = 0; i < 1024; i++)
        in[i] = 7 * me + i;
    for (int i = 0; i < n; i++) {
        counts[i] = 2 * i + 1;
        places[i] = sum;
        sum += counts[i];
    }
    gathers();
    scatters();
    reductions();
    nonblocking();
    intercommunicator();
    freed_datatype();
    expect_digest(out, sizeof out);
    CALLED(MPI_Finalize, 0, MPI_Finalize());
    expect_write(me);
    return 0;
}
