/* SPDX-License-Identifier: Apache-2.0
 *
 * Phases that begin when a test says so, by files: what is ordered between two of them is in force for all of the
 * second, and for nothing of the first.
 * Lives here: the phases. Must not live here: orders, what a dump should hold afterwards (test/e2e/test_ctl.py).
 *
 *   ordered DIRECTORY PHASES [blocked|child|threads]
 *
 * Phase K begins when DIRECTORY/go.K is there: CALLS times MPI_Allreduce of K + 1 doubles, in each of THREADS threads
 * on MPI_COMM_SELF (threads), in a forked child as well in phase 1 (child), or, in phase 1, a message from rank 0 to
 * the others that is sent when DIRECTORY/send is there (blocked). Then each rank makes DIRECTORY/done.K.RANK.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "phases.h"

enum { CALLS = 10, THREADS = 4 };

static const char *directory, *mode;
static int me, phase;
static pthread_barrier_t barrier;

static void reduce(MPI_Comm comm) {
    double in[64] = {1}, out[64];
    for (int i = 0; i < CALLS; i++)
        MPI_Allreduce(in, out, phase + 1, MPI_DOUBLE, MPI_SUM, comm);
}

static void send_late(void) {
    int n, value = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (me == 0) {
        phases_await(directory, "send", -1);
        for (int to = 1; to < n; to++)
            MPI_Send(&value, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* It stays until the next phase begins. */
static void fork_child(void) {
    pid_t child = fork();
    if (child == 0) {
        reduce(MPI_COMM_SELF);
        phases_tell(directory, "child", phase, me);
        phases_await(directory, "go", phase + 1);
        _exit(0);
    }
    int status = 0;
    char path[PHASES_PATH];
    phases_path(path, directory, "child", phase, me);
    while (access(path, F_OK) != 0)
        usleep(PHASES_REST_US);
    phases_tell(directory, "done", phase, me);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        exit(9);
}

static void *thread(void *argument) {
    (void)argument;
    for (int i = 0; i < CALLS; i++) {
        pthread_barrier_wait(&barrier);
        reduce(MPI_COMM_SELF);
    }
    return NULL;
}

static void in_threads(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, thread, NULL) != 0)
            exit(9);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    int provided, phases = argc > 2 ? atoi(argv[2]) : 0;
    directory = argc > 1 ? argv[1] : "";
    mode = argc > 3 ? argv[3] : "";
    bool threads = strcmp(mode, "threads") == 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    for (; phase < phases; phase++) {
        phases_await(directory, "go", phase);
        if (threads)
            in_threads();
        else if (phase == 1 && strcmp(mode, "blocked") == 0)
            send_late();
        else
            reduce(MPI_COMM_WORLD);
        if (phase == 1 && strcmp(mode, "child") == 0)
            fork_child();
        else
            phases_tell(directory, "done", phase, me);
    }
    MPI_Finalize();
    return 0;
}
