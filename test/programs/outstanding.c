/* SPDX-License-Identifier: Apache-2.0
 *
 * More operations under way at once than any table of a tool holds, completed in one call, with their ledger.
 * Lives here: receives of known and of any source without statuses. Must not live here: other communicators than SELF.
 *
 *   outstanding [OPERATIONS]
 */
#include <mpi.h>

#include "expect.h"

/* MPI_STATUSES_IGNORE is a sentinel that the compiler takes for an array. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* `count` receives of up to 64 bytes, then as many sends of 8; all of them complete in one Waitall. */
static void exchange(int count, int source) {
    MPI_Request *requests = malloc(2 * sizeof *requests * (size_t)count);
    char(*room)[64] = calloc((size_t)count, 64);
    long long *values = malloc(sizeof *values * (size_t)count);
    if (!requests || !room || !values)
        exit(9);
    for (int i = 0; i < count; i++)
        MPI_Irecv(room[i], 64, MPI_BYTE, source, i % 30000, MPI_COMM_SELF, &requests[i]);
    for (int i = 0; i < count; i++) {
        values[i] = i;
        MPI_Isend(&values[i], 8, MPI_BYTE, 0, i % 30000, MPI_COMM_SELF, &requests[count + i]);
    }
    CALLED(MPI_Waitall, 0, MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE));
    expect_digest(room, 64 * (size_t)count);
    free(values);
    free(room);
    free(requests);
}

int main(int argc, char **argv) {
    int me, count = argc > 1 ? atoi(argv[1]) : 20000;
    CALLED(MPI_Init, 0, MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    exchange(count, MPI_ANY_SOURCE);
    exchange(count, 0);
    expect("MPI_Irecv", 8, count);  /* of any source: the size that came */
    expect("MPI_Irecv", 64, count); /* nobody can know better than the posted size */
    expect("MPI_Isend", 8, 2LL * count);
    CALLED(MPI_Finalize, 0, MPI_Finalize());
    expect_write(me);
    return 0;
}
