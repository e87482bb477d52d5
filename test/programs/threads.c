/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI_THREAD_MULTIPLE: threads that come and go by the thousand, and more living ones than a dump has rings.
 * Lives here: threads, each with a few calls, and their ledger. Must not live here: anything that needs an order
 * between threads.
 *
 *   threads [COMING_AND_GOING [LIVING]]
 */
#include <mpi.h>
#include <pthread.h>

#include "expect.h"

#define LIVING_MAX 32

static int me, n;
static MPI_Comm comms[LIVING_MAX];
static pthread_barrier_t all_alive;

static void *once(void *argument) {
    int value = me, sum;
    (void)argument;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    return NULL;
}

/* Sends to and receives from the same thread of the next rank, all threads at once. */
static void *ring(void *argument) {
    int thread = (int)(intptr_t)argument, got = -1;
    pthread_barrier_wait(&all_alive);
    for (int i = 0; i < 100; i++) {
        MPI_Request request;
        MPI_Irecv(&got, 1, MPI_INT, (me + n - 1) % n, thread, comms[thread], &request);
        MPI_Send(&thread, 1, MPI_INT, (me + 1) % n, thread, comms[thread]);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (got != thread)
            exit(8);
    }
    pthread_barrier_wait(&all_alive);
    return NULL;
}

static void coming_and_going(int times) {
    pthread_t thread;
    for (int i = 0; i < times; i++) {
        if (pthread_create(&thread, NULL, once, NULL) != 0 || pthread_join(thread, NULL) != 0)
            exit(9);
    }
    expect("MPI_Allreduce", sizeof(int), times);
}

static void living_together(int living) {
    pthread_t threads[LIVING_MAX];
    pthread_barrier_init(&all_alive, NULL, (unsigned)living);
    for (int i = 0; i < living; i++)
        CALLED(MPI_Comm_dup, 0, MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    for (int i = 0; i < living; i++)
        if (pthread_create(&threads[i], NULL, ring, (void *)(intptr_t)i) != 0)
            exit(9);
    for (int i = 0; i < living; i++)
        pthread_join(threads[i], NULL);
    expect("MPI_Irecv", sizeof(int), 100 * living);
    expect("MPI_Send", sizeof(int), 100 * living);
    expect("MPI_Wait", 0, 100 * living);
    for (int i = 0; i < living; i++)
        CALLED(MPI_Comm_free, 0, MPI_Comm_free(&comms[i]));
}

int main(int argc, char **argv) {
    int provided;
    CALLED(MPI_Init_thread, 0, MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    if (provided != MPI_THREAD_MULTIPLE)
        return 9;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    coming_and_going(argc > 1 ? atoi(argv[1]) : 3000);
    living_together(argc > 2 ? atoi(argv[2]) : 12);
    CALLED(MPI_Finalize, 0, MPI_Finalize());
    expect_write(me);
    return 0;
}
