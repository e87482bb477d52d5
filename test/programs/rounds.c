/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that meet in one kind of collective alone, and one of them late for each.
 * Lives here: the kinds. Must not live here: what is said of them (test/e2e/test_rounds.py).
 *
 *   rounds KIND ROUNDS LATE_RANK LATE_MS
 *
 * KIND: copy (communicators are made), between (groups, over an intercommunicator), neighbours (a ring), started (a
 * persistent collective; where MPI has none the program ends with 77).
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORK_MS = 2, MISSING = 77 };

static int rank, ranks, rounds, late;
static double late_ms;

static void work(void) {
    double ms = WORK_MS + (rank == late ? late_ms : 0);
    nanosleep(&(struct timespec){0, (long)(ms * 1e6)}, NULL);
}

static void copy(void) {
    for (int i = 0; i < rounds; i++) {
        MPI_Comm made;
        work();
        MPI_Comm_dup(MPI_COMM_WORLD, &made);
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
        MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, other);
    }
    MPI_Comm_free(&other);
    MPI_Comm_free(&half);
}

static void neighbours(void) {
    MPI_Comm ring;
    int round = 1, size[1] = {ranks}, in[2], out[2] = {0};
    MPI_Cart_create(MPI_COMM_WORLD, 1, size, &round, 0, &ring);
    for (int i = 0; i < rounds; i++) {
        work();
        MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring);
    }
    MPI_Comm_free(&ring);
}

static void started(void) {
#if MPI_VERSION >= 4
    double in = 1, out;
    MPI_Request request;
    MPI_Allreduce_init(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < rounds; i++) {
        work();
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
#else
    exit(MISSING);
#endif
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {{"copy", copy}, {"between", between}, {"neighbours", neighbours}, {"started", started}};

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
    return MPI_Finalize();
}
