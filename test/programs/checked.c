/* SPDX-License-Identifier: Apache-2.0
 *
 * A small job for memory and thread checkers, and allocators: it allocates, starts threads and communicates.
 * Must not live here: faults.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;

static void *add(void *number) {
    char *text = malloc(64);
    strcpy(text, "communication");
    pthread_mutex_lock(&lock);
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
