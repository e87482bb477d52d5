/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs whose ranks never block: they ask again and again until something has come. A slow rank may be planted.
 * Lives here: the jobs, and by their own clocks how long each rank's work took.
 * Must not live here: anything that knows of commtap.
 *
 *   polling KIND STEPS WORK_US [SLOW_RANK SLOW_US]
 *
 *   test        Irecv and Isend around a ring, Test until both are complete
 *   iprobe      Isend around a ring, Iprobe until a message is there, Recv
 *   iallreduce  Iallreduce, Test with 5 us of work between
 *   testsome    Irecv and Isend with all others, Testsome over all of them, as the runtime of a task graph does
 *   naps        as test, sleeping 300 us between polls
 *   chunks      as test, with its work done in three parts between polls
 *   master      rank 0 finds results by Iprobe from any source and sends the next task; the others work and Test
 *
 * Rank 0 prints "took S", seconds of all steps, and "worked S S ...", seconds of work of each rank.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG = 3, RANKS_MOST = 64, COUNT = 16 };

static int rank, ranks;
static unsigned chance;
static double worked;

/* A tenth more or less by chance. */
static void work(int us) {
    double began = MPI_Wtime();
    us += (int)(us * 0.2 * (rand_r(&chance) / (RAND_MAX + 1.0) - 0.5));
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000L}, NULL);
    worked += MPI_Wtime() - began;
}

static void spin(double seconds) {
    for (double until = MPI_Wtime() + seconds; MPI_Wtime() < until;)
        ;
}

static void poll_both(MPI_Request *requests, int nap_us) {
    for (int i = 0, there = 0; i < 2; i += there) {
        MPI_Test(&requests[i], &there, MPI_STATUS_IGNORE);
        if (!there && nap_us > 0)
            nanosleep(&(struct timespec){.tv_nsec = nap_us * 1000L}, NULL);
    }
}

static void exchange(int parts, int us, int nap_us) {
    static int out[COUNT], in[COUNT];
    MPI_Request requests[2];
    MPI_Irecv(in, COUNT, MPI_INT, (rank + ranks - 1) % ranks, TAG, MPI_COMM_WORLD, &requests[0]);
    for (int i = 0; i < parts; i++) {
        int there;
        work(us / (parts + 1));
        MPI_Test(&requests[0], &there, MPI_STATUS_IGNORE);
    }
    work(us / (parts + 1));
    MPI_Isend(out, COUNT, MPI_INT, (rank + 1) % ranks, TAG, MPI_COMM_WORLD, &requests[1]);
    poll_both(requests, nap_us);
}

static void test(int us) {
    exchange(0, us, 0);
}

static void naps(int us) {
    exchange(0, us, 300);
}

static void chunks(int us) {
    exchange(2, us, 0);
}

static void iprobe(int us) {
    static int out[COUNT], in[COUNT];
    MPI_Request request;
    int there = 0;
    work(us);
    MPI_Isend(out, COUNT, MPI_INT, (rank + 1) % ranks, TAG, MPI_COMM_WORLD, &request);
    while (!there)
        MPI_Iprobe((rank + ranks - 1) % ranks, TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    MPI_Recv(in, COUNT, MPI_INT, (rank + ranks - 1) % ranks, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (there = 0; !there;)
        MPI_Test(&request, &there, MPI_STATUS_IGNORE);
}

static void iallreduce(int us) {
    static double out[COUNT], in[COUNT];
    MPI_Request request;
    work(us);
    MPI_Iallreduce(out, in, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    for (int there = 0; !there; MPI_Test(&request, &there, MPI_STATUS_IGNORE))
        spin(5e-6);
}

static void testsome(int us) {
    static int out[COUNT], in[RANKS_MOST][COUNT];
    MPI_Request requests[2 * RANKS_MOST];
    MPI_Status statuses[2 * RANKS_MOST];
    int count = 0, indices[2 * RANKS_MOST];
    for (int peer = 0; peer < ranks; peer++)
        if (peer != rank)
            MPI_Irecv(in[peer], COUNT, MPI_INT, peer, TAG, MPI_COMM_WORLD, &requests[count++]);
    work(us);
    for (int peer = 0; peer < ranks; peer++)
        if (peer != rank)
            MPI_Isend(out, COUNT, MPI_INT, peer, TAG, MPI_COMM_WORLD, &requests[count++]);
    for (int left = count, some; left > 0; left -= some > 0 ? some : 0)
        MPI_Testsome(count, requests, &some, indices, statuses);
}

static void serve(int us) {
    for (int results = 1; results < ranks; results++) {
        MPI_Status status;
        int there = 0, data[COUNT];
        while (!there)
            MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &there, &status);
        MPI_Recv(data, COUNT, MPI_INT, status.MPI_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        work(us);
        MPI_Send(data, COUNT, MPI_INT, status.MPI_SOURCE, TAG, MPI_COMM_WORLD);
    }
}

/* The master needs a tenth of a worker's time for each result. */
static void master(int us) {
    int data[COUNT] = {0};
    MPI_Request request;
    if (rank == 0) {
        serve(us / 10);
        return;
    }
    work(us);
    MPI_Send(data, COUNT, MPI_INT, 0, TAG, MPI_COMM_WORLD);
    MPI_Irecv(data, COUNT, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request);
    for (int there = 0; !there;)
        MPI_Test(&request, &there, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    void (*step)(int us);
} kinds[] = {{"test", test}, {"iprobe", iprobe}, {"iallreduce", iallreduce}, {"testsome", testsome},
             {"naps", naps}, {"chunks", chunks}, {"master", master}};

int main(int argc, char **argv) {
    double all[RANKS_MOST];
    void (*step)(int) = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; argc >= 4 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, argv[1]) == 0)
            step = kinds[i].step;
    if (!step || ranks > RANKS_MOST)
        return 2;
    chance = (unsigned)rank + 1;
    int us = argc >= 6 && atoi(argv[4]) == rank ? atoi(argv[5]) : atoi(argv[3]);
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (int i = 0; i < atoi(argv[2]); i++)
        step(us);
    double took = MPI_Wtime() - began;
    MPI_Gather(&worked, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("took %.4f\nworked", took);
    for (int i = 0; rank == 0 && i < ranks; i++)
        printf(" %.4f", all[i]);
    if (rank == 0)
        printf("\n");
    return MPI_Finalize();
}
