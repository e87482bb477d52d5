/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops of six kinds of programs, timed by their own clock: iterations KIND [STEPS]
 *
 *   solver      a time step with one solve of 4 to 12 iterations (halo exchange, two dot products)
 *   inner       a time step with three such solves
 *   evaluation  training, gradients in two buckets; after every 5th step an evaluation of six batches
 *   checkpoint  halo exchange and norm; after every 10th step rank 0 gathers and writes
 *   sweep       a wave through all ranks and back, without collectives
 *   tasks       rank 0 hands out 24 tasks on demand in each round, and reduces what they gave
 *
 * Rank 0 prints how long each step took, in microseconds, one line each.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CELLS = 512, GRADIENTS = 16384, TASKS = 24, ASK = 1, GIVE = 2, NO_TASK = -1 };

static int rank, ranks;
static double gradients[GRADIENTS], edge[4][CELLS], sums[2];
static uint32_t chance = 12345; /* the same on all ranks: they iterate equally often */

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static void work(unsigned us) {
    nanosleep(&(struct timespec){.tv_nsec = 1000 * (long)us}, NULL);
}

static unsigned draw(unsigned least, unsigned most) {
    chance = chance * 1664525 + 1013904223;
    return least + (chance >> 16) % (most - least + 1);
}

static void exchange_halo(void) {
    MPI_Request requests[4];
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    MPI_Irecv(edge[0], CELLS, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(edge[1], CELLS, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(edge[2], CELLS, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(edge[3], CELLS, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static void reduce_sum(void *values, int count) {
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void solve(void) {
    for (unsigned i = draw(4, 12); i > 0; i--) {
        exchange_halo();
        work(150);
        reduce_sum(&sums[0], 1);
        work(80);
        reduce_sum(&sums[1], 1);
    }
}

static void solver_step(unsigned step) {
    double time_step = step;
    work(400);
    MPI_Allreduce(MPI_IN_PLACE, &time_step, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    solve();
}

static void inner_step(unsigned step) {
    double time_step = step;
    MPI_Allreduce(MPI_IN_PLACE, &time_step, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    for (unsigned component = 0; component < 3; component++) {
        work(200);
        solve();
    }
}

static void evaluation_step(unsigned step) {
    work(1500);
    reduce_sum(gradients, GRADIENTS);
    work(500);
    reduce_sum(gradients, GRADIENTS / 4);
    for (unsigned batch = 0; step % 5 == 4 && batch < 6; batch++) {
        work(400);
        reduce_sum(sums, 2);
    }
}

static void checkpoint_step(unsigned step) {
    static double state[16 * CELLS];
    exchange_halo();
    work(1500);
    reduce_sum(&sums[0], 1);
    if (step % 10 != 9)
        return;
    MPI_Gather(edge[2], CELLS, MPI_DOUBLE, state, CELLS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    work(rank == 0 ? 8000 : 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void sweep_step(unsigned step) {
    (void)step;
    if (rank > 0)
        MPI_Recv(edge[0], CELLS, MPI_DOUBLE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    work(600);
    if (rank + 1 < ranks) {
        MPI_Send(edge[1], CELLS, MPI_DOUBLE, rank + 1, 0, MPI_COMM_WORLD);
        MPI_Recv(edge[0], CELLS, MPI_DOUBLE, rank + 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    work(600);
    if (rank > 0)
        MPI_Send(edge[1], CELLS, MPI_DOUBLE, rank - 1, 1, MPI_COMM_WORLD);
}

static void hand_out_tasks(void) {
    int result, stopped = 0;
    for (int task = 0; stopped < ranks - 1; task++) {
        MPI_Status status;
        MPI_Recv(&result, 1, MPI_INT, MPI_ANY_SOURCE, ASK, MPI_COMM_WORLD, &status);
        int next = task < TASKS ? task : NO_TASK;
        stopped += next == NO_TASK;
        MPI_Send(&next, 1, MPI_INT, status.MPI_SOURCE, GIVE, MPI_COMM_WORLD);
    }
}

static void do_tasks(void) {
    for (int task = 0; task != NO_TASK;) {
        MPI_Sendrecv(&rank, 1, MPI_INT, 0, ASK, &task, 1, MPI_INT, 0, GIVE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        work(task == NO_TASK ? 0 : 200 + 50 * ((unsigned)task * 7 % 11));
    }
}

static void tasks_step(unsigned step) {
    (void)step;
    MPI_Bcast(sums, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0)
        hand_out_tasks();
    else
        do_tasks();
    MPI_Reduce(rank ? edge[0] : MPI_IN_PLACE, edge[0], CELLS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static const struct {
    const char *name;
    void (*step)(unsigned step);
} kinds[] = {{"solver", solver_step},         {"inner", inner_step}, {"evaluation", evaluation_step},
             {"checkpoint", checkpoint_step}, {"sweep", sweep_step}, {"tasks", tasks_step}};

int main(int argc, char **argv) {
    unsigned steps = argc > 2 ? (unsigned)atoi(argv[2]) : 24, kind = 0;
    double *began;
    while (argc < 2 || strcmp(kinds[kind].name, argv[1]) != 0)
        if (++kind == sizeof kinds / sizeof *kinds)
            return 2;
    began = calloc(steps + 1, sizeof *began);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (unsigned step = 0; step < steps; step++) {
        began[step] = now_us();
        kinds[kind].step(step);
    }
    began[steps] = now_us();
    for (unsigned step = 0; rank == 0 && step < steps; step++)
        printf("%.1f\n", began[step + 1] - began[step]);
    free(began);
    MPI_Finalize();
    return 0;
}
