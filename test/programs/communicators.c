/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators of every origin, freed and made again by the thousand, with the ledger of what was called.
 * Lives here: creation calls and one Allreduce of a size of its own on each communicator. Must not live here: other
 * communication.
 */
#include <mpi.h>

#include "expect.h"

static int me, n;

/* One Allreduce of `count` integers and its name, so that a report tells the communicators apart. */
static void use(MPI_Comm comm, int count, const char *name) {
    int in[64] = {0}, out[64];
    in[0] = me;
    if (name)
        MPI_Comm_set_name(comm, name);
    CALLED(MPI_Allreduce, 4 * count, MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm));
    expect_digest(out, sizeof(int) * (size_t)count);
}

static void release(MPI_Comm *comm) {
    CALLED(MPI_Comm_free, 0, MPI_Comm_free(comm));
}

static void from_world(void) {
    MPI_Comm comm, halves;
    MPI_Group world, odd;
    CALLED(MPI_Comm_dup, 0, MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    use(comm, 1, "duplicate");
    release(&comm);
    CALLED(MPI_Comm_split, 0, MPI_Comm_split(MPI_COMM_WORLD, me < n / 2, -me, &halves));
    use(halves, 2, "halves");
    CALLED(MPI_Comm_split, 0, MPI_Comm_split(MPI_COMM_WORLD, me == 0 ? MPI_UNDEFINED : 1, me, &comm));
    if (me != 0) {
        use(comm, 3, "without zero");
        release(&comm);
    }
    CALLED(MPI_Comm_split_type, 0, MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
    use(comm, 4, "node");
    release(&comm);
    int ranks[2] = {1, 0};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, ranks, &odd);
    CALLED(MPI_Comm_create, 0, MPI_Comm_create(MPI_COMM_WORLD, odd, &comm));
    if (comm != MPI_COMM_NULL) {
        use(comm, 5, "created");
        release(&comm);
    }
    if (me < 2) {
        CALLED(MPI_Comm_create_group, 0, MPI_Comm_create_group(MPI_COMM_WORLD, odd, 77, &comm));
        use(comm, 6, "created by its group");
        release(&comm);
    }
    MPI_Group_free(&odd);
    MPI_Group_free(&world);
    MPI_Comm_set_name(halves, "halves, renamed");
    release(&halves);
}

static void asynchronous(void) {
    MPI_Comm comm;
    MPI_Request request;
    CALLED(MPI_Comm_idup, 0, MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request));
    CALLED(MPI_Wait, 0, MPI_Wait(&request, MPI_STATUS_IGNORE));
    use(comm, 7, "idup");
    release(&comm);
}

static void topologies(void) {
    int dims[2] = {2, n / 2}, periods[2] = {0, 1}, remain[2] = {1, 0};
    int index[64], edges[64], next = (me + 1) % n, previous = (me + n - 1) % n, weight = 1;
    MPI_Comm grid, column, comm;
    CALLED(MPI_Cart_create, 0, MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
    use(grid, 8, "grid");
    CALLED(MPI_Cart_sub, 0, MPI_Cart_sub(grid, remain, &column));
    use(column, 9, "column");
    release(&column);
    release(&grid);
    for (int i = 0; i < n; i++) {
        index[i] = i + 1;
        edges[i] = (i + 1) % n;
    }
    CALLED(MPI_Graph_create, 0, MPI_Graph_create(MPI_COMM_WORLD, n, index, edges, 0, &comm));
    use(comm, 10, "graph");
    release(&comm);
    CALLED(MPI_Dist_graph_create_adjacent, 0,
           MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &previous, &weight, 1, &next, &weight, MPI_INFO_NULL, 0,
                                          &comm));
    use(comm, 11, "adjacent");
    release(&comm);
}

static void intercommunicators(void) {
    MPI_Comm half, inter, merged;
    int upper = me >= n / 2;
    CALLED(MPI_Comm_split, 0, MPI_Comm_split(MPI_COMM_WORLD, upper, me, &half));
    CALLED(MPI_Intercomm_create, 0, MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : n / 2, 5, &inter));
    use(inter, 12, "inter");
    int value = me, root = upper ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL;
    CALLED(MPI_Bcast, root == MPI_PROC_NULL ? 0 : 4, MPI_Bcast(&value, 1, MPI_INT, root, inter));
    expect_digest(&value, sizeof value);
    CALLED(MPI_Intercomm_merge, 0, MPI_Intercomm_merge(inter, upper, &merged));
    use(merged, 13, "merged");
    release(&merged);
    release(&inter);
    release(&half);
}

/* Handles come back: each time another communicator. */
static void by_the_thousand(int times) {
    MPI_Comm comm;
    for (int i = 0; i < times; i++) {
        CALLED(MPI_Comm_dup, 0, MPI_Comm_dup(i % 2 ? MPI_COMM_SELF : MPI_COMM_WORLD, &comm));
        use(comm, 14, NULL);
        release(&comm);
    }
}

int main(int argc, char **argv) {
    CALLED(MPI_Init, 0, MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    from_world();
    asynchronous();
    topologies();
    intercommunicators();
    by_the_thousand(argc > 1 ? atoi(argv[1]) : 2000);
    CALLED(MPI_Finalize, 0, MPI_Finalize());
    expect_write(me);
    return 0;
}
