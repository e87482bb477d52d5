/* SPDX-License-Identifier: Apache-2.0
 *
 * Two groups that talk over an intercommunicator: the lower two ranks, and all others.
 * Lives here: rounds of every kind of collective and of messages between the groups, with one late rank; ways to hang.
 * Must not live here: what should be found (test/e2e/test_intercommunicators.py).
 *
 *   groups work LATE MILLISECONDS   LATE sleeps before every barrier
 *   groups barrier                  the last rank never enters it
 *   groups root                     the root of a broadcast never comes
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 20, LOWER = 2, ROOM = 64 };

static int me, n, upper, mine;

static MPI_Comm between(MPI_Comm half, int tag) {
    MPI_Comm inter;
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : LOWER, tag, &inter);
    return inter;
}

/* What a rank passes where `root` of the group `from_upper` is the root. */
static int root_argument(int from_upper, int root) {
    if (upper != from_upper)
        return root;
    return mine == root ? MPI_ROOT : MPI_PROC_NULL;
}

static void collectives(MPI_Comm inter) {
    int in[ROOM] = {0}, out[ROOM];
    MPI_Request request;
    MPI_Allreduce(in, out, 3, MPI_INT, MPI_SUM, inter);
    MPI_Allgather(in, 1, MPI_INT, out, 1, MPI_INT, inter);
    MPI_Alltoall(in, 1, MPI_INT, out, 1, MPI_INT, inter);
    MPI_Bcast(in, 4, MPI_INT, root_argument(0, 1), inter);
    MPI_Reduce(in, out, 5, MPI_INT, MPI_SUM, root_argument(1, 0), inter);
    MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, root_argument(0, 0), inter);
    MPI_Scatter(in, 1, MPI_INT, out, 1, MPI_INT, root_argument(1, 1), inter);
    MPI_Ibarrier(inter, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Rank i of the lower group sends to rank i of the upper one, which answers. */
static void messages(MPI_Comm inter) {
    int value = me;
    if (mine >= LOWER)
        return;
    if (upper) {
        MPI_Recv(&value, 1, MPI_INT, mine, 7, inter, MPI_STATUS_IGNORE);
        MPI_Send(&value, 1, MPI_INT, mine, 8, inter);
    } else {
        MPI_Send(&value, 1, MPI_INT, mine, 7, inter);
        MPI_Recv(&value, 1, MPI_INT, mine, 8, inter, MPI_STATUS_IGNORE);
    }
}

static void work(MPI_Comm half, MPI_Comm inter, int late, int milliseconds) {
    MPI_Comm copy, part, again = between(half, 5), merged; /* the same groups and tag once more */
    for (int i = 0; i < ROUNDS; i++) {
        if (me == late)
            usleep(1000u * (unsigned)milliseconds);
        MPI_Barrier(inter);
        collectives(inter);
        messages(inter);
    }
    MPI_Comm_dup(inter, &copy);
    MPI_Comm_split(inter, mine > 0, me, &part);
    MPI_Intercomm_merge(copy, upper, &merged);
    MPI_Barrier(copy);
    MPI_Barrier(again);
    MPI_Barrier(merged);
    if (part != MPI_COMM_NULL) {
        MPI_Barrier(part);
        MPI_Comm_free(&part);
    }
    MPI_Comm_free(&merged);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&again);
}

static void ready(void) {
    if (write(1, "ready\n", 6) != 6)
        exit(1);
}

static void hang(MPI_Comm inter, int absent, int root) {
    int value = me, argument = root ? root_argument(0, 1) : 0;
    for (int i = 0; i < ROUNDS; i++)
        MPI_Barrier(inter);
    ready();
    if (me == absent)
        for (;;)
            pause();
    if (root)
        MPI_Bcast(&value, 1, MPI_INT, argument, inter);
    else
        MPI_Barrier(inter);
    for (;;) /* who stands by beside a root is through */
        pause();
}

int main(int argc, char **argv) {
    MPI_Comm half, inter;
    const char *mode = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    upper = me >= LOWER;
    mine = upper ? me - LOWER : me;
    MPI_Comm_split(MPI_COMM_WORLD, upper, me, &half);
    inter = between(half, 5);
    MPI_Comm_set_name(inter, "between");
    if (!strcmp(mode, "work"))
        work(half, inter, atoi(argv[2]), atoi(argv[3]));
    else if (!strcmp(mode, "barrier"))
        hang(inter, n - 1, 0);
    else if (!strcmp(mode, "root"))
        hang(inter, 1, 1);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
