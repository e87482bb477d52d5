/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI_Pcontrol as tools understand it: 0 pauses, 1 resumes, 2 starts an epoch, 100 and above mark steps.
 * Lives here: calls between the levels, with the ledger of those that must be seen. Must not live here: other calls.
 */
#include <mpi.h>

#include "expect.h"

static void reduce(int count) {
    double in[8] = {1}, out[8];
    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    expect_digest(out, sizeof(double) * (size_t)count);
}

int main(int argc, char **argv) {
    int me;
    CALLED(MPI_Init, 0, MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    reduce(1);
    MPI_Pcontrol(0);
    for (int i = 0; i < 5; i++)
        reduce(2); /* unseen */
    MPI_Pcontrol(1, "words", 3.5, &me);
    reduce(3);
    MPI_Pcontrol(2, 7);
    reduce(1);
    for (int step = 0; step < 4; step++) {
        MPI_Pcontrol(100 + step, "step", step, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5);
        reduce(4);
    }
    expect("MPI_Allreduce", 8, 2);
    expect("MPI_Allreduce", 24, 1);
    expect("MPI_Allreduce", 32, 4);
    CALLED(MPI_Finalize, 0, MPI_Finalize());
    expect_write(me);
    return 0;
}
