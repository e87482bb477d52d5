/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that starts another one and talks to it over an intercommunicator.
 * Lives here: parent and child, with their ledger. Must not live here: more than one child job.
 */
#include <mpi.h>

#include "expect.h"

int main(int argc, char **argv) {
    MPI_Comm parent, other;
    int me, value = 1, sum = 0;
    CALLED(MPI_Init, 0, MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    CALLED(MPI_Comm_get_parent, 0, MPI_Comm_get_parent(&parent));
    if (parent == MPI_COMM_NULL) {
        int errors[2];
        CALLED(MPI_Comm_spawn, 0,
               MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, errors));
    } else {
        other = parent;
    }
    for (int i = 0; i < 10; i++)
        CALLED(MPI_Allreduce, 4, MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, other));
    for (int i = 0; i < 7; i++)
        CALLED(MPI_Allreduce, 4, MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CALLED(MPI_Comm_disconnect, 0, MPI_Comm_disconnect(&other));
    CALLED(MPI_Finalize, 0, MPI_Finalize());
    expect_write(parent == MPI_COMM_NULL ? me : 100 + me);
    return sum == 2 ? 0 : 8;
}
