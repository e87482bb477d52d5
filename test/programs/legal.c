/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives that are legal though the ranks call them differently: other counts and datatypes that describe the same
 * data, sizes of their own where each rank has one, large count functions here and plain ones there, operations made by
 * each rank. In the end one rank stays away from one of them.
 * Lives here: what the standard allows. Must not live here: what a diagnosis should say (test/e2e).
 *
 *   legal LAST    LAST: name of the collective that the last rank never comes to
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(MPICH_NUMVERSION) && MPI_VERSION >= 4
#define HAVE_LARGE_COUNTS 1
#else
#define HAVE_LARGE_COUNTS 0
#endif

enum { RANKS_MOST = 8, EACH = 4 };

static int rank, size;
static int in[RANKS_MOST * EACH], out[RANKS_MOST * EACH];
static MPI_Datatype four; /* EACH ints in one */

/* Even ranks count in ints, odd ones in blocks of four. */
static int count_of(int blocks) {
    return rank % 2 ? blocks : EACH * blocks;
}

static MPI_Datatype type_of(void) {
    return rank % 2 ? four : MPI_INT;
}

static void bcast(MPI_Comm comm) {
    MPI_Bcast(in, count_of(1), type_of(), 0, comm);
}

static void gather(MPI_Comm comm) {
    void *from = rank == 0 ? MPI_IN_PLACE : (void *)in;
    MPI_Gather(from, count_of(1), type_of(), out, EACH, MPI_INT, 0, comm);
}

static void scatter(MPI_Comm comm) {
    MPI_Scatter(in, 1, four, rank == 0 ? MPI_IN_PLACE : (void *)out, count_of(1), type_of(), 0, comm);
}

static void allgather(MPI_Comm comm) {
    MPI_Allgather(in, count_of(1), type_of(), out, rank % 2 ? EACH : 1, rank % 2 ? MPI_INT : four, comm);
}

static void allgatherv(MPI_Comm comm) {
    int counts[RANKS_MOST], displacements[RANKS_MOST] = {0};
    for (int r = 0; r < size; r++)
        counts[r] = count_of(1);
    MPI_Allgatherv(in, EACH, MPI_INT, out, counts, displacements, type_of(), comm);
}

static void gatherv(MPI_Comm comm) {
    int counts[RANKS_MOST], displacements[RANKS_MOST] = {0};
    for (int r = 0; r < size; r++)
        counts[r] = r;
    MPI_Gatherv(in, rank, MPI_INT, out, counts, displacements, MPI_INT, 0, comm);
}

static void alltoall(MPI_Comm comm) {
    MPI_Alltoall(in, count_of(1), type_of(), out, EACH, MPI_INT, comm);
}

static void alltoallv(MPI_Comm comm) { /* to rank r goes r: everybody receives what it is */
    int sends[RANKS_MOST], receives[RANKS_MOST], displacements[RANKS_MOST] = {0};
    for (int r = 0; r < size; r++) {
        sends[r] = r;
        receives[r] = rank;
    }
    MPI_Alltoallv(in, sends, displacements, MPI_INT, out, receives, displacements, MPI_INT, comm);
}

static void add(void *from, void *to, int *length, MPI_Datatype *type) {
    for (int i = 0; i < *length; i++)
        ((int *)to)[i] += ((int *)from)[i];
    (void)type;
}

static void allreduce(MPI_Comm comm) { /* each rank makes operation and type, some of them twice */
    MPI_Op op, other;
    MPI_Datatype copy;
    MPI_Op_create(add, 1, &other);
    MPI_Op_create(add, 1, &op);
    MPI_Type_dup(MPI_INT, &copy);
    MPI_Allreduce(in, out, EACH, rank % 2 ? copy : MPI_INT, rank % 2 ? other : op, comm);
    MPI_Type_free(&copy);
    MPI_Op_free(&op);
    MPI_Op_free(&other);
}

static void reduce_scatter(MPI_Comm comm) {
    int counts[RANKS_MOST];
    for (int r = 0; r < size; r++)
        counts[r] = r % 3;
    MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm);
}

static void ibcast(MPI_Comm comm) { /* the type is gone before the operation is done */
    MPI_Request request;
    MPI_Datatype mine;
    MPI_Type_contiguous(EACH, MPI_INT, &mine);
    MPI_Type_commit(&mine);
    MPI_Ibcast(in, rank % 2 ? 1 : EACH, rank % 2 ? mine : MPI_INT, 0, comm, &request);
    MPI_Type_free(&mine);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

#if HAVE_LARGE_COUNTS
static void twins(MPI_Comm comm) {
    if (rank % 2)
        MPI_Allreduce_c(in, out, EACH, MPI_INT, MPI_SUM, comm);
    else
        MPI_Allreduce(in, out, EACH, MPI_INT, MPI_SUM, comm);
}
#else
static void twins(MPI_Comm comm) {
    MPI_Allreduce(in, out, EACH, MPI_INT, MPI_SUM, comm);
}
#endif

static void splits(MPI_Comm comm) {
    MPI_Comm part;
    MPI_Comm_split(comm, rank == 0 ? MPI_UNDEFINED : rank % 2, -rank, &part);
    if (part != MPI_COMM_NULL)
        MPI_Comm_free(&part);
}

static void windows(MPI_Comm comm) { /* memory only on some */
    MPI_Win window;
    MPI_Win_create(in, rank % 2 ? sizeof in : 0, 4, MPI_INFO_NULL, comm, &window);
    MPI_Win_fence(rank % 2 ? MPI_MODE_NOPRECEDE : 0, window);
    MPI_Win_free(&window);
}

static void files(MPI_Comm comm) { /* sizes and large counts of each rank's own */
    MPI_File file;
    MPI_Offset at = rank * (MPI_Offset)sizeof in;
    if (MPI_File_open(comm, "/dev/null", MPI_MODE_WRONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS)
        return;
#if HAVE_LARGE_COUNTS
    if (rank % 2)
        MPI_File_write_at_all_c(file, at, in, rank, MPI_INT, MPI_STATUS_IGNORE);
    else
#endif
        MPI_File_write_at_all(file, at, in, rank, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

static void sides(MPI_Comm comm) { /* two groups: one sends, in the other nobody passes the same root or count */
    MPI_Comm half, both;
    int upper = rank >= size / 2;
    MPI_Comm_split(comm, upper, rank, &half);
    MPI_Intercomm_create(half, 0, comm, upper ? 0 : size / 2, 5, &both);
    MPI_Bcast(in, upper ? 1 : EACH, upper ? four : MPI_INT, upper ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, both);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

static const struct {
    const char *name;
    void (*call)(MPI_Comm);
} collectives[] = {{"bcast", bcast},           {"gather", gather},
                   {"scatter", scatter},       {"allgather", allgather},
                   {"allgatherv", allgatherv}, {"gatherv", gatherv},
                   {"alltoall", alltoall},     {"alltoallv", alltoallv},
                   {"allreduce", allreduce},   {"reduce_scatter", reduce_scatter},
                   {"ibcast", ibcast},         {"twins", twins},
                   {"splits", splits},         {"windows", windows},
                   {"files", files},           {"sides", sides}};
enum { COLLECTIVES = sizeof collectives / sizeof *collectives };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > RANKS_MOST || argc != 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Type_contiguous(EACH, MPI_INT, &four);
    MPI_Type_commit(&four);
    for (int i = 0; i < COLLECTIVES; i++)
        collectives[i].call(MPI_COMM_WORLD);
    if (write(1, "ready\n", 6) != 6)
        return 1;
    if (rank == size - 1)
        sleep(600);
    for (int i = 0; i < COLLECTIVES; i++)
        if (strcmp(argv[1], collectives[i].name) == 0)
            collectives[i].call(MPI_COMM_WORLD);
    sleep(600);
    return 0;
}
