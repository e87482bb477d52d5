/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI that is not linked: found by dlopen(RTLD_LOCAL) and dlsym, as language runtimes do.
 * Lives here: a job whose every MPI call goes through a looked-up pointer, with its ledger. Must not live here: a
 * direct call of MPI (this is built with MPI's header but not linked to it).
 *
 *   loaded LIBRARY [local|deepbind|dlmopen]     the file name of the MPI library, the way it is opened
 */
#include <dlfcn.h>
#include <mpi.h>

#include "expect.h"

static void *library;

static void *find(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "loaded: %s\n", dlerror());
        exit(9);
    }
    return found;
}

/* The handles: addresses in the library on Open MPI, plain numbers on MPICH. */
#ifdef OPEN_MPI
#define HANDLE(type, symbol, number) ((type)find(symbol))
#else
#define HANDLE(type, symbol, number) (number)
#endif

static void *open_library(const char *name, const char *way) {
    if (!strcmp(way, "dlmopen"))
        return dlmopen(LM_ID_NEWLM, name, RTLD_NOW | RTLD_LOCAL);
    return dlopen(name, RTLD_NOW | RTLD_LOCAL | (strcmp(way, "deepbind") ? 0 : RTLD_DEEPBIND));
}

int main(int argc, char **argv) {
    library = argc > 1 ? open_library(argv[1], argc > 2 ? argv[2] : "local") : NULL;
    if (!library) {
        fprintf(stderr, "loaded: %s\n", dlerror());
        return 9;
    }
    int (*init)(int *, char ***) = find("MPI_Init");
    int (*finalize)(void) = find("MPI_Finalize");
    int (*comm_rank)(MPI_Comm, int *) = find("MPI_Comm_rank");
    int (*barrier)(MPI_Comm) = find("MPI_Barrier");
    int (*allreduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm) = find("MPI_Allreduce");
    MPI_Comm world = HANDLE(MPI_Comm, "ompi_mpi_comm_world", MPI_COMM_WORLD);
    MPI_Datatype integer = HANDLE(MPI_Datatype, "ompi_mpi_int", MPI_INT);
    MPI_Op sum = HANDLE(MPI_Op, "ompi_mpi_op_sum", MPI_SUM);
    int me, in[6] = {1, 2, 3, 4, 5, 6}, out[6];
    CALLED(MPI_Init, 0, init(&argc, &argv));
    comm_rank(world, &me);
    for (int i = 0; i < 25; i++)
        CALLED(MPI_Allreduce, 24, allreduce(in, out, 6, integer, sum, world));
    CALLED(MPI_Barrier, 0, barrier(world));
    expect_digest(out, sizeof out);
    CALLED(MPI_Finalize, 0, finalize());
    expect_write(me);
    return 0;
}
