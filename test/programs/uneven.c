/* SPDX-License-Identifier: Apache-2.0
 *
 * One slow rank, and ranks that make different numbers of calls: their rings reach back to different moments.
 * Lives here: the job, and by its own clocks what it would gain without the slow rank.
 * Must not live here: anything that knows of commtap.
 *
 *   uneven STEPS WORK_MS SLOW_RANK SLOW_MS
 *
 * Each step is a sleep, 4 * rank barriers of a rank with itself, and an MPI_Allreduce of all. Rank 0 prints
 * "saved X": seconds that the job would be shorter by if in each step the slow rank had taken as long as the longest of
 * the others.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double work(int ms) {
    double began = MPI_Wtime();
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
    return MPI_Wtime() - began;
}

static void step(int rank, double *worked, int ms) {
    int sum = 0;
    *worked = work(ms);
    for (int i = 0; i < 4 * rank; i++)
        MPI_Barrier(MPI_COMM_SELF);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* What all steps would be shorter by. */
static double saved(const double *worked, int steps, int ranks, int slow) {
    double sum = 0;
    for (int s = 0; s < steps; s++) {
        double others = 0, own = worked[slow * steps + s];
        for (int r = 0; r < ranks; r++)
            if (r != slow && worked[r * steps + s] > others)
                others = worked[r * steps + s];
        sum += own > others ? own - others : 0;
    }
    return sum;
}

int main(int argc, char **argv) {
    int rank, ranks;
    if (argc != 5)
        return 2;
    int steps = atoi(argv[1]), work_ms = atoi(argv[2]), slow = atoi(argv[3]), slow_ms = atoi(argv[4]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double *own = calloc((size_t)steps, sizeof *own), *all = calloc((size_t)(steps * ranks), sizeof *all);
    if (!own || !all)
        return 1;
    for (int s = 0; s < steps; s++)
        step(rank, &own[s], rank == slow ? slow_ms : work_ms);
    MPI_Gather(own, steps, MPI_DOUBLE, all, steps, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("saved %.4f\n", saved(all, steps, ranks, slow));
    free(own);
    free(all);
    return MPI_Finalize();
}
