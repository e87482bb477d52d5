/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that call MPI as fast as they can until somebody kills the process.
 * Must not live here: anything that ends well.
 *
 *   hammer FD [THREADS]    one byte is written to FD by each thread, HAMMER_THREADS at most, after its first iteration
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "test/crash/hammer.h"

static int ready;
static MPI_Comm communicators[HAMMER_THREADS];

static void *hammer(void *argument) {
    MPI_Comm comm = *(MPI_Comm *)argument;
    double sent[HAMMER_SIZES + 1] = {0}, received[HAMMER_SIZES + 1];
    for (unsigned i = 0;; i++) {
        MPI_Request requests[2];
        MPI_Allreduce(sent, received, (int)HAMMER_REDUCE_COUNT(i), MPI_DOUBLE, i % 2 ? MPI_MAX : MPI_SUM, comm);
        MPI_Irecv(received, (int)HAMMER_MESSAGE_COUNT(i), MPI_DOUBLE, 0, (int)HAMMER_TAG(i), comm, &requests[0]);
        MPI_Isend(sent, (int)HAMMER_MESSAGE_COUNT(i), MPI_DOUBLE, 0, (int)HAMMER_TAG(i), comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (i == 0 && write(ready, "r", 1) != 1)
            _exit(3);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided, threads = argc > 2 ? atoi(argv[2]) : HAMMER_THREADS;
    ready = argc > 1 ? atoi(argv[1]) : -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(30);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE)
        return 4;
    for (int i = 0; i < HAMMER_THREADS; i++) {
        char name[32];
        snprintf(name, sizeof name, HAMMER_NAME "%d", i);
        MPI_Comm_dup(MPI_COMM_SELF, &communicators[i]);
        MPI_Comm_set_name(communicators[i], name);
    }
    for (int i = 1; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, hammer, &communicators[i]))
            return 5;
    }
    hammer(&communicators[0]);
}
