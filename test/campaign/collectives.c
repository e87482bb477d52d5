// SPDX-License-Identifier: Apache-2.0
#include "test/campaign/kinds.h"

#include <mpi.h>

static void reduce(struct job *job, int bytes, MPI_Comm comm) {
    MPI_Allreduce(job->sent, job->received, bytes / 8, MPI_DOUBLE, MPI_SUM, comm);
}

void train(struct job *job) {
    for (int step = 0; step < job->plan.steps; step++) {
        do_work(job, step, step);
        reduce(job, job->plan.message_bytes, MPI_COMM_WORLD);
    }
}

void gradients(struct job *job) {
    for (int step = 0; step < job->plan.steps; step++) {
        do_work(job, step, 2 * step);
        reduce(job, 8, MPI_COMM_WORLD);
        do_work(job, step, 2 * step + 1);
        reduce(job, 16, MPI_COMM_WORLD);
    }
}

void transpose(struct job *job) {
    int each = job->plan.message_bytes;
    for (int step = 0; step < job->plan.steps; step++) {
        do_work(job, step, step);
        MPI_Alltoall(job->sent, each, MPI_BYTE, job->received, each, MPI_BYTE, MPI_COMM_WORLD);
    }
}

void mix(struct job *job) {
    MPI_Comm pair, all;
    MPI_Comm_split(MPI_COMM_WORLD, job->plan.rank / 2, job->plan.rank, &pair);
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    for (int step = 0; step < job->plan.steps; step++) {
        do_work(job, step, 2 * step);
        reduce(job, job->plan.message_bytes, pair);
        do_work(job, step, 2 * step + 1);
        reduce(job, 8, all);
    }
    MPI_Comm_free(&pair);
    MPI_Comm_free(&all);
}
