/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs whose ranks exchange messages and never meet in a collective, with a slow rank on request.
 * Lives here: one step of each kind. Must not live here: anything that knows of commtap.
 *
 *   exchange KIND STEPS [SLOW_RANK SLOW_MS EVERY]
 *
 * Kinds: halo (neighbours on a ring, non-blocking), overlap (the same, with the work while messages are under way),
 * ring (synchronous sends around), tree (a reduction by hand and the answer back), sweep (a wavefront forth and back),
 * farm (rank 0 hands out tasks; slow is what it does itself for each). Work is 5 ms of sleep, a fifth more or less by
 * chance; the slow rank sleeps SLOW_MS more in every EVERY-th step.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 2048, TAG = 3, BACK = 4, STOP = 5 };

struct job {
    int me, ranks, steps, step;
    int slow_rank, every;
    double slow_ms;
    unsigned long long random;
    char out[BYTES], in[2][BYTES];
};

static void pause_ms(double ms) {
    struct timespec pause = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
    nanosleep(&pause, NULL);
}

/* Uniform in [0, 1). */
static double uniform(struct job *job) {
    job->random ^= job->random << 13;
    job->random ^= job->random >> 7;
    job->random ^= job->random << 17;
    return (double)(job->random >> 11) / 9007199254740992.0;
}

static double slowness(const struct job *job) {
    return job->me == job->slow_rank && job->step % job->every == job->every - 1 ? job->slow_ms : 0;
}

static void work(struct job *job, double share) {
    pause_ms(share * (4 + 2 * uniform(job) + slowness(job)));
}

static void send_to(struct job *job, int rank, int tag) {
    MPI_Send(job->out, BYTES, MPI_CHAR, rank, tag, MPI_COMM_WORLD);
}

static void receive_from(struct job *job, int rank, int tag) {
    MPI_Recv(job->in[0], BYTES, MPI_CHAR, rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void exchange(struct job *job, double inside) {
    int left = (job->me + job->ranks - 1) % job->ranks, right = (job->me + 1) % job->ranks;
    MPI_Request requests[4];
    MPI_Status statuses[4];
    work(job, 1 - inside);
    MPI_Irecv(job->in[0], BYTES, MPI_CHAR, left, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(job->in[1], BYTES, MPI_CHAR, right, BACK, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(job->out, BYTES, MPI_CHAR, right, TAG, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(job->out, BYTES, MPI_CHAR, left, BACK, MPI_COMM_WORLD, &requests[3]);
    work(job, inside);
    MPI_Waitall(4, requests, statuses);
}

static void halo(struct job *job) {
    exchange(job, 0);
}

static void overlap(struct job *job) {
    exchange(job, 0.5);
}

static void ring(struct job *job) {
    int left = (job->me + job->ranks - 1) % job->ranks, right = (job->me + 1) % job->ranks;
    work(job, 1);
    if (job->me % 2)
        receive_from(job, left, TAG);
    MPI_Ssend(job->out, BYTES, MPI_CHAR, right, TAG, MPI_COMM_WORLD);
    if (job->me % 2 == 0)
        receive_from(job, left, TAG);
}

static void tree(struct job *job) {
    int distance = 1;
    work(job, 1);
    for (; job->me % (2 * distance) == 0 && distance < job->ranks; distance *= 2)
        if (job->me + distance < job->ranks)
            receive_from(job, job->me + distance, TAG);
    if (job->me > 0) {
        send_to(job, job->me - distance, TAG);
        receive_from(job, job->me - distance, BACK);
    }
    while ((distance /= 2) > 0)
        if (job->me + distance < job->ranks)
            send_to(job, job->me + distance, BACK);
}

static void sweep(struct job *job) {
    if (job->me > 0)
        receive_from(job, job->me - 1, TAG);
    work(job, 0.5);
    if (job->me + 1 < job->ranks) {
        send_to(job, job->me + 1, TAG);
        receive_from(job, job->me + 1, BACK);
    }
    work(job, 0.5);
    if (job->me > 0)
        send_to(job, job->me - 1, BACK);
}

static void hand_out(struct job *job) {
    for (int left = job->steps * (job->ranks - 1), workers = job->ranks - 1; workers > 0; left--) {
        MPI_Status status;
        MPI_Recv(job->in[0], BYTES, MPI_CHAR, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
        if (job->slow_rank == 0)
            pause_ms(job->slow_ms);
        workers -= left <= 0;
        send_to(job, status.MPI_SOURCE, left > 0 ? BACK : STOP);
    }
}

static void farm(struct job *job) {
    if (job->me == 0) {
        hand_out(job);
        return;
    }
    for (;;) {
        MPI_Status status;
        send_to(job, 0, TAG);
        MPI_Recv(job->in[0], BYTES, MPI_CHAR, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == STOP)
            return;
        work(job, 1);
    }
}

static const struct {
    const char *name;
    void (*step)(struct job *job);
} kinds[] = {{"halo", halo}, {"overlap", overlap}, {"ring", ring}, {"tree", tree}, {"sweep", sweep}};

int main(int argc, char **argv) {
    static struct job job;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.me);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    if (argc < 3) {
        fprintf(stderr, "usage: exchange KIND STEPS [SLOW_RANK SLOW_MS EVERY]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    job.steps = atoi(argv[2]);
    job.slow_rank = argc > 3 ? atoi(argv[3]) : -1;
    job.slow_ms = argc > 4 ? atof(argv[4]) : 0;
    job.every = argc > 5 ? atoi(argv[5]) : 1;
    job.random = 88172645463325252ull + 7919ull * (unsigned long long)job.me;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (job.step = 0; strcmp(argv[1], kinds[k].name) == 0 && job.step < job.steps; job.step++)
            kinds[k].step(&job);
    if (strcmp(argv[1], "farm") == 0)
        farm(&job);
    MPI_Finalize();
    return 0;
}
