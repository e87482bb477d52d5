/* SPDX-License-Identifier: Apache-2.0
 *
 * A thousand non-blocking sends at once: threads post 1024 buffered ones each, and one call of each thread sees them
 * all complete. More threads than a dump has rings write their completions among each other's calls.
 * Lives here: the sends, their receives, and their ledger. Must not live here: anything that needs an order between
 * threads.
 *
 *   ibsends [THREADS]
 */
#include <mpi.h>
#include <pthread.h>

#include "expect.h"

enum { THREADS_MAX = 16, SENDS = 1024 };

static int me, n;
static int values[THREADS_MAX][SENDS];

static void *send_all(void *argument) {
    int thread = (int)(intptr_t)argument;
    MPI_Request requests[SENDS];
    MPI_Status statuses[SENDS];
    for (int i = 0; i < SENDS; i++) {
        values[thread][i] = i;
        MPI_Ibsend(&values[thread][i], 1, MPI_INT, (me + 1) % n, thread, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(SENDS, requests, statuses);
    for (int i = 0; i < SENDS; i++) {
        int got = -1;
        MPI_Recv(&got, 1, MPI_INT, (me + n - 1) % n, thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (got != i)
            exit(8);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided, count = argc > 1 ? atoi(argv[1]) : 4;
    /* Twice what the standard asks for: MPICH rounds each message up, and a neighbour that starts late has taken none.
     */
    int bytes = 2 * count * SENDS * ((int)sizeof(int) + MPI_BSEND_OVERHEAD);
    pthread_t threads[THREADS_MAX];
    CALLED(MPI_Init_thread, 0, MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    if (provided != MPI_THREAD_MULTIPLE || count < 1 || count > THREADS_MAX)
        return 9;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    void *buffer = malloc((size_t)bytes);
    CALLED(MPI_Buffer_attach, 0, MPI_Buffer_attach(buffer, bytes));
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, send_all, (void *)(intptr_t)i) != 0)
            return 9;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    expect("MPI_Ibsend", sizeof(int), count * SENDS);
    expect("MPI_Waitall", 0, count);
    expect("MPI_Recv", sizeof(int), count * SENDS);
    CALLED(MPI_Buffer_detach, 0, MPI_Buffer_detach(&buffer, &bytes));
    free(buffer);
    CALLED(MPI_Finalize, 0, MPI_Finalize());
    expect_write(me);
    return 0;
}
