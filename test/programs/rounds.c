/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that meet in one kind of collective alone, and one of them late for each.
 * Lives here: the kinds. Must not live here: what is said of them (test/e2e/test_rounds.py).
 *
 *   rounds KIND ROUNDS LATE_RANK LATE_MS
 *
 * KIND: copy (communicators are made), between (groups, over an intercommunicator), started (a persistent collective;
 * where MPI has none the program ends with 77), and neighbourhood collectives: neighbours (a ring, as a grid), line (a
 * grid with ends), posted (a ring, non-blocking), graph (a ring), chain (a distributed graph: each takes from the rank
 * before it, 0 from nobody), anew (the same, made for each round; neighbours change), prepared (a ring, persistent).
 * Each rank prints what it spent in the rounds' calls by its own clock: "rank SECONDS".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WORK_MS = 2, MISSING = 77 };

static int rank, ranks, rounds, late;
static double late_ms, since, spent;

static void work(void) {
    double ms = WORK_MS + (rank == late ? late_ms : 0);
    nanosleep(&(struct timespec){0, (long)(ms * 1e6)}, NULL);
}

static void begin(void) {
    since = MPI_Wtime();
}

static void end(void) {
    spent += MPI_Wtime() - since;
}

static void copy(void) {
    for (int i = 0; i < rounds; i++) {
        MPI_Comm made;
        work();
        begin();
        MPI_Comm_dup(MPI_COMM_WORLD, &made);
        end();
        MPI_Comm_free(&made);
    }
}

static void between(void) {
    MPI_Comm half, other;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &other);
    for (int i = 0; i < rounds; i++) {
        double in = 1, out;
        work();
        begin();
        MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, other);
        end();
    }
    MPI_Comm_free(&other);
    MPI_Comm_free(&half);
}

/* ---- among neighbours ------------------------------------------------------------------------ */

static MPI_Comm grid(int closed) {
    MPI_Comm made;
    int size[1] = {ranks};
    MPI_Cart_create(MPI_COMM_WORLD, 1, size, &closed, 0, &made);
    return made;
}

static void exchange(MPI_Comm comm) {
    int in[2], out[2] = {0};
    begin();
    MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm);
    end();
}

static void go_round(MPI_Comm comm, void (*one)(MPI_Comm comm)) {
    for (int i = 0; i < rounds; i++) {
        work();
        one(comm);
    }
    MPI_Comm_free(&comm);
}

static void neighbours(void) {
    go_round(grid(1), exchange);
}

static void gather(MPI_Comm comm) {
    int in[2], out = 0;
    begin();
    MPI_Neighbor_allgather(&out, 1, MPI_INT, in, 1, MPI_INT, comm);
    end();
}

static void line(void) {
    go_round(grid(0), gather);
}

static void post(MPI_Comm comm) {
    int in[2], out[2] = {0}, counts[2] = {1, 1}, places[2] = {0, 1};
    MPI_Request request;
    begin();
    MPI_Ineighbor_alltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    end();
}

static void posted(void) {
    go_round(grid(1), post);
}

static void graph(void) {
    MPI_Comm made;
    int *index = calloc((size_t)ranks, sizeof *index), *edges = calloc(2 * (size_t)ranks, sizeof *edges);
    for (int r = 0; r < ranks; r++) {
        index[r] = 2 * (r + 1);
        edges[2 * r] = (r + ranks - 1) % ranks;
        edges[2 * r + 1] = (r + 1) % ranks;
    }
    MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 0, &made);
    go_round(made, exchange);
    free(index);
    free(edges);
}

/* Each takes from the rank `back` before it, if there is one. */
static MPI_Comm chain_of(int back) {
    MPI_Comm made;
    int source = rank - back, destination = rank + back, weight = 1;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, source >= 0, &source, &weight, destination < ranks, &destination,
                                   &weight, MPI_INFO_NULL, 0, &made);
    return made;
}

static void chain(void) {
    go_round(chain_of(1), exchange);
}

static void anew(void) {
    for (int i = 0; i < rounds; i++) {
        MPI_Comm made = chain_of(1 + i / 10 % 2);
        work();
        exchange(made);
        MPI_Comm_free(&made);
    }
}

static void prepared(void) {
#if MPI_VERSION >= 4
    MPI_Comm ring = grid(1);
    int in[2], out[2] = {0};
    MPI_Request request;
    MPI_Neighbor_alltoall_init(out, 1, MPI_INT, in, 1, MPI_INT, ring, MPI_INFO_NULL, &request);
    for (int i = 0; i < rounds; i++) {
        work();
        begin();
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        end();
    }
    MPI_Request_free(&request);
    MPI_Comm_free(&ring);
#else
    exit(MISSING);
#endif
}

/* ---------------------------------------------------------------------------------------------- */

static void started(void) {
#if MPI_VERSION >= 4
    double in = 1, out;
    MPI_Request request;
    MPI_Allreduce_init(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < rounds; i++) {
        work();
        begin();
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        end();
    }
    MPI_Request_free(&request);
#else
    exit(MISSING);
#endif
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {{"copy", copy},         {"between", between}, {"neighbours", neighbours}, {"line", line},
             {"posted", posted},     {"graph", graph},     {"chain", chain},           {"anew", anew},
             {"prepared", prepared}, {"started", started}};

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    rounds = atoi(argv[2]);
    late = atoi(argv[3]);
    late_ms = atof(argv[4]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            kinds[i].run();
    char text[64];
    int length = snprintf(text, sizeof text, "%d %.6f\n", rank, spent);
    if (write(1, text, (size_t)length) != length)
        return 1;
    return MPI_Finalize();
}
