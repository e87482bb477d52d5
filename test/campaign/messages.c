// SPDX-License-Identifier: Apache-2.0
#include "test/campaign/kinds.h"

#include <mpi.h>

enum { TAG = 7, BATCH = 8 };

static int neighbour(const struct plan *plan, int rank) {
    return rank >= 0 && rank < plan->ranks ? rank : MPI_PROC_NULL;
}

// Who waits for a late receiver sends synchronously, as large messages are sent.
static void halo_late(struct job *job, int step, const int *sides) {
    int bytes = job->plan.message_bytes;
    MPI_Request requests[4];
    do_base_work(job, step, step);
    for (int i = 0; i < 2; i++)
        MPI_Issend(job->sent, bytes, MPI_BYTE, sides[i], TAG, MPI_COMM_WORLD, &requests[i]);
    do_extra_work(job, step, step);
    for (int i = 0; i < 2; i++)
        MPI_Irecv(job->received + i * bytes, bytes, MPI_BYTE, sides[i], TAG, MPI_COMM_WORLD, &requests[2 + i]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

void halo(struct job *job) {
    int sides[2] = {neighbour(&job->plan, job->plan.rank - 1), neighbour(&job->plan, job->plan.rank + 1)};
    int bytes = job->plan.message_bytes;
    for (int step = 0; step < job->plan.steps; step++) {
        MPI_Request requests[4];
        if (job->plan.fault == FAULT_RECEIVER) {
            halo_late(job, step, sides);
            continue;
        }
        for (int i = 0; i < 2; i++)
            MPI_Irecv(job->received + i * bytes, bytes, MPI_BYTE, sides[i], TAG, MPI_COMM_WORLD, &requests[i]);
        do_work(job, step, step);
        for (int i = 0; i < 2; i++)
            MPI_Isend(job->sent, bytes, MPI_BYTE, sides[i], TAG, MPI_COMM_WORLD, &requests[2 + i]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
}

static void exchange(struct job *job, int peer) {
    int bytes = job->plan.message_bytes;
    MPI_Sendrecv(job->sent, bytes, MPI_BYTE, peer, TAG, job->received, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void exchange_late(struct job *job, int step, int peer) {
    int bytes = job->plan.message_bytes;
    MPI_Request request;
    do_base_work(job, step, step);
    MPI_Issend(job->sent, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &request);
    do_extra_work(job, step, step);
    MPI_Recv(job->received, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void pairs(struct job *job) {
    const struct plan *plan = &job->plan;
    int first = plan->rank ^ 1, second = plan->rank % 2 ? plan->rank + 1 : plan->rank - 1;
    if (plan->ranks % 2 == 0)
        second = (second + plan->ranks) % plan->ranks;
    first = neighbour(plan, first);
    second = neighbour(plan, second);
    for (int step = 0; step < plan->steps; step++) {
        if (plan->fault == FAULT_RECEIVER) {
            exchange_late(job, step, first);
        } else {
            do_work(job, step, step);
            exchange(job, first);
        }
        exchange(job, second);
    }
}

// What comes back from the last stage once a batch has gone through: no stage runs further ahead than that.
static void flush(struct job *job, int from, int to) {
    int bytes = job->plan.message_bytes;
    MPI_Recv(job->received, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(job->sent, bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD);
}

void pipeline(struct job *job) {
    int from = neighbour(&job->plan, job->plan.rank - 1), to = neighbour(&job->plan, job->plan.rank + 1);
    int bytes = job->plan.message_bytes;
    bool late = job->plan.fault == FAULT_RECEIVER;
    for (int step = 0; step < job->plan.steps; step++) {
        MPI_Recv(job->received, bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (late) {
            do_base_work(job, step, step);
            MPI_Ssend(job->sent, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
            do_extra_work(job, step, step);
        } else {
            do_work(job, step, step);
            MPI_Send(job->sent, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
        }
        if (step % BATCH == BATCH - 1)
            flush(job, from, to);
    }
}
