// SPDX-License-Identifier: Apache-2.0
#include "test/campaign/kinds.h"

#include <mpi.h>

enum { TAG = 9, STOP = -1 };

static void send_task(int task, int rank) {
    MPI_Send(&task, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD);
}

static void send_result(struct job *job) {
    MPI_Send(job->sent, job->plan.message_bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
}

static int next_task(void) {
    int task = STOP;
    MPI_Recv(&task, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return task;
}

static int take_result(struct job *job, int from) {
    MPI_Status status;
    MPI_Recv(job->received, job->plan.message_bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &status);
    return status.MPI_SOURCE;
}

void rounds(struct job *job) {
    const struct plan *plan = &job->plan;
    for (int step = 0; step < plan->steps; step++) {
        if (plan->rank > 0) {
            do_work(job, step, next_task());
            send_result(job);
            continue;
        }
        do_work(job, step, step);
        for (int rank = 1; rank < plan->ranks; rank++)
            send_task(step, rank);
        for (int rank = 1; rank < plan->ranks; rank++)
            take_result(job, rank);
    }
}

// The master's own computations are nothing but checkpoints: one look per round of tasks.
static void hand_out(struct job *job) {
    const struct plan *plan = &job->plan;
    int workers = plan->ranks - 1, given = 0;
    for (; given < workers; given++)
        send_task(given, given + 1);
    for (int taken = 0; taken < plan->base_count; taken++) {
        int idle = take_result(job, MPI_ANY_SOURCE);
        if (taken % workers == 0)
            do_work(job, taken / workers, taken);
        send_task(given < plan->base_count ? given++ : STOP, idle);
    }
}

void on_demand(struct job *job) {
    int workers = job->plan.ranks - 1;
    if (job->plan.rank == 0) {
        hand_out(job);
        return;
    }
    for (int task = next_task(); task != STOP; task = next_task()) {
        do_work(job, task / workers, task);
        send_result(job);
    }
}
