/* SPDX-License-Identifier: Apache-2.0
 *
 * The message rate as OSU's osu_mbw_mr measures it: of two processes one posts a window of 64 sends of 8 bytes and
 * waits for them, the other as many receives, and answers with one message. Prints "message NS init NS", nanoseconds
 * per message, median of short runs. Must not live here: comparison, repetition over processes (bench.py).
 */
#include <mpi.h>
#include <stdio.h>

#include "test/bench/median.h"

enum { WINDOW = 64, TAG = 7 };

static int rank;

static void send_window(void) {
    MPI_Request requests[WINDOW];
    double sent = 1, answer;
    for (int i = 0; i < WINDOW; i++)
        MPI_Isend(&sent, 1, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    MPI_Recv(&answer, 1, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void receive_window(void) {
    MPI_Request requests[WINDOW];
    double received[WINDOW], answer = 1;
    for (int i = 0; i < WINDOW; i++)
        MPI_Irecv(&received[i], 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    MPI_Send(&answer, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD);
}

__attribute__((noinline)) static double message(int windows) {
    double start = now_ns();
    for (int i = 0; i < windows; i++)
        rank == 0 ? send_window() : receive_window();
    return (now_ns() - start) / windows / WINDOW;
}

int main(int argc, char **argv) {
    double start = now_ns();
    MPI_Init(&argc, &argv);
    double init = now_ns() - start;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double one = median_of(message, 50);
    if (rank == 0)
        printf("message %.2f init %.0f\n", one, init);
    MPI_Finalize();
    return 0;
}
