/* SPDX-License-Identifier: Apache-2.0
 *
 * A small job for memory and thread checkers, and allocators: it allocates, starts threads and communicates, from
 * threads and from deep within, too.
 * Must not live here: faults.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;

static void communicate_from(int depth) {
    volatile char frame[3000];
    int one = 1, all;
    memset((void *)frame, 0, sizeof frame);
    if (depth > 0)
        communicate_from(depth - 1);
    else
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    frame[1] = 1;
}

static void *add(void *number) {
    char *text = malloc(64);
    strcpy(text, "communication");
    pthread_mutex_lock(&lock);
    communicate_from(20);
    sum += *(int *)number + (long)strlen(text);
    pthread_mutex_unlock(&lock);
    free(text);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[4];
    int numbers[4], rank, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 4; i++) {
        numbers[i] = i + rank;
        pthread_create(&threads[i], NULL, add, &numbers[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    communicate_from(20);
    long total = 0;
    double *values = calloc(1000, sizeof *values), *results = calloc(1000, sizeof *results);
    for (int i = 0; i < 50; i++) {
        MPI_Allreduce(values, results, 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Request request;
        MPI_Irecv(results, 1, MPI_DOUBLE, rank, 7, MPI_COMM_WORLD, &request);
        MPI_Send(values, 1, MPI_DOUBLE, rank, 7, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Allreduce(&sum, &total, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d: %ld\n", rank, total);
    free(values);
    free(results);
    MPI_Finalize();
    return 0;
}
