/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that starts MPI, and uses it, in its constructor.
 * Lives here: that. Must not live here: anything that a program may rely on.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Other processes below the same preload are left alone. */
static int is_rank(void) {
    return getenv("PMI_RANK") || getenv("OMPI_COMM_WORLD_RANK");
}

__attribute__((constructor)) static void begin(void) {
    int one = 1, part = 0, sum = 0;
    if (!is_rank())
        return;
    MPI_Init(NULL, NULL);
    for (int i = 0; i < 3; i++) {
        MPI_Allreduce(&one, &part, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
        sum += part;
    }
    printf("early: %d\n", sum);
}

__attribute__((destructor)) static void end(void) {
    if (is_rank())
        MPI_Finalize();
}
