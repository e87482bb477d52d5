/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps whose ranks meet in nothing but one-sided synchronisation. A slow rank may be planted.
 * Lives here: the jobs, and by their own clocks how long they took.
 * Must not live here: anything that knows of commtap.
 *
 *   onesided KIND STEPS WORK_US [SLOW_RANK SLOW_US [EVERY]]     in every EVERYth step [1] one rank works SLOW_US longer
 *
 *   fence   work, Put to both neighbours, Fence
 *   pair    work, Fence without what it could end, Put, Fence without what could follow
 *   open    work, Fence without what it could end, and nothing else
 *   groups  work, Post and Start with both neighbours, Put, Complete, Wait
 *   asks    the same, but for Wait, Test until the epoch is over
 *
 * Rank 0 prints "took S", seconds of all steps.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 256 };

static int rank, ranks, left, right;
static double out[COUNT], *in;
static MPI_Win window;
static MPI_Group neighbours;

static void work(int us) {
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000L}, NULL);
}

static void put(void) {
    MPI_Put(out, COUNT, MPI_DOUBLE, left, COUNT, COUNT, MPI_DOUBLE, window);
    MPI_Put(out, COUNT, MPI_DOUBLE, right, 0, COUNT, MPI_DOUBLE, window);
}

static void fence(int us) {
    work(us);
    put();
    MPI_Win_fence(0, window);
}

static void pair(int us) {
    work(us);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    put();
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
}

static void opening(int us) {
    work(us);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
}

static void exchange(void) {
    MPI_Win_post(neighbours, 0, window);
    MPI_Win_start(neighbours, 0, window);
    put();
    MPI_Win_complete(window);
}

static void groups(int us) {
    work(us);
    exchange();
    MPI_Win_wait(window);
}

static void asks(int us) {
    int over = 0;
    work(us);
    exchange();
    while (!over)
        MPI_Win_test(window, &over);
}

static const struct {
    const char *name;
    void (*step)(int us);
} kinds[] = {{"fence", fence}, {"pair", pair}, {"open", opening}, {"groups", groups}, {"asks", asks}};

static void find_neighbours(void) {
    MPI_Group world;
    int list[2];
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    list[0] = left;
    list[1] = right;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, left == right ? 1 : 2, list, &neighbours);
    MPI_Group_free(&world);
}

int main(int argc, char **argv) {
    void (*step)(int us) = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; argc > 3 && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(argv[1], kinds[i].name))
            step = kinds[i].step;
    if (!step)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int steps = atoi(argv[2]), us = atoi(argv[3]), slow = argc > 5 && atoi(argv[4]) == rank ? atoi(argv[5]) : 0;
    int every = argc > 6 ? atoi(argv[6]) : 1;
    find_neighbours();
    MPI_Win_allocate(2 * sizeof out, sizeof *out, MPI_INFO_NULL, MPI_COMM_WORLD, &in, &window);
    if (step == fence)
        MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    double began = MPI_Wtime();
    for (int i = 0; i < steps; i++)
        step(us + (i % every == every - 1 ? slow : 0));
    if (rank == 0)
        printf("took %.6f\n", MPI_Wtime() - began);
    MPI_Win_free(&window);
    MPI_Group_free(&neighbours);
    MPI_Finalize();
    return 0;
}
