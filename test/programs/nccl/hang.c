/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways for ranks that use NCCL to hang, after some collectives that went well. Ranks that reach the hang say so.
 * Lives here: the hangs. Must not live here: what a diagnosis should say (test/e2e).
 *
 *   hang MODE    rank, size and the id's file from RANK, WORLD_SIZE, TRAIN_ID_FILE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/programs/nccl/unique_id.h"
#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

enum {
    GOOD = 800, /* more than the smallest ring and its windows hold */
    VALUES = 1024,
    MESSAGE = 1 << 20, /* values: more than the library holds on the way */
    GOOD_MESSAGES = 20,
    GOOD_REPLAYS = 20
};

#define NEED(call)                                                                                                     \
    do {                                                                                                               \
        int code = (int)(call);                                                                                        \
        if (code != 0) {                                                                                               \
            fprintf(stderr, "hang: %s: error %d\n", #call, code);                                                      \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static int rank, size;
static ncclComm_t comm;
static cudaStream_t stream;
static float *values, *message;

static void reduce(size_t count) {
    NEED(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, comm, stream));
}

static void sleep_long(void *nothing) {
    (void)nothing;
    sleep(600);
}

/* Rank 1 never calls it. */
static void absent(void) {
    if (rank == 1)
        sleep(600);
    reduce(VALUES);
}

/* Rank 1 calls it, but what it has on its stream before does not end. */
static void stream_blocked(void) {
    if (rank == 1)
        NEED(cudaLaunchHostFunc(stream, sleep_long, NULL));
    reduce(VALUES);
}

/* The same before a broadcast, which is over for the others: they wait in what rank 1 has not called. */
static void broadcast_blocked(void) {
    if (rank == 1)
        NEED(cudaLaunchHostFunc(stream, sleep_long, NULL));
    NEED(ncclBroadcast(values, values, VALUES, ncclFloat32, 0, comm, stream));
    NEED(cudaStreamSynchronize(stream));
    reduce(VALUES);
}

static void work_a_while(void *nothing) {
    (void)nothing;
    usleep(2000);
}

/* No hang: at any moment the others' GPUs are likely to wait for that of rank 1. */
static void working(void) {
    for (;;) {
        if (rank == 1)
            NEED(cudaLaunchHostFunc(stream, work_a_while, NULL));
        reduce(VALUES);
        NEED(cudaStreamSynchronize(stream));
    }
}

static void reduce_all(void) {
    reduce(VALUES);
}

/* Everybody has values for everybody. */
static void exchange_all(void) {
    NEED(ncclGroupStart());
    for (int other = 0; other < size; other++) {
        NEED(ncclSend(values + other, 1, ncclFloat32, other, comm, stream));
        NEED(ncclRecv(message + other, 1, ncclFloat32, other, comm, stream));
    }
    NEED(ncclGroupEnd());
}

/* From rank to rank and back. */
static void pass_through(void) {
    for (int way = 1; way >= -1; way -= 2) {
        int from = rank - way, to = rank + way;
        if (from >= 0 && from < size)
            NEED(ncclRecv(message, 1, ncclFloat32, from, comm, stream));
        if (to >= 0 && to < size)
            NEED(ncclSend(values, 1, ncclFloat32, to, comm, stream));
    }
}

/* A step is captured, and replayed after each pause. */
static cudaGraphExec_t capture(void (*step)(void)) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    NEED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    step();
    NEED(cudaStreamEndCapture(stream, &graph));
    NEED(cudaGraphInstantiate(&executable, graph, 0));
    return executable;
}

/* Rank 1 stops launching replays. */
static void stop_replaying(void (*captured)(void)) {
    cudaGraphExec_t step = capture(captured);
    for (int i = 0; i < GOOD_REPLAYS || rank != 1; i++) {
        NEED(cudaGraphLaunch(step, stream));
        NEED(cudaStreamSynchronize(stream));
    }
    sleep(600);
}

static void replayed(void) {
    stop_replaying(reduce_all);
}

static void replayed_exchange(void) {
    stop_replaying(exchange_all);
}

static void replayed_messages(void) {
    stop_replaying(pass_through);
}

/* All are in the same replay, in which rank 1 computes for long. */
static void compute_long(void) {
    if (rank == 1)
        NEED(cudaLaunchHostFunc(stream, sleep_long, NULL));
    reduce(VALUES);
}

static void replayed_computing(void) {
    NEED(cudaGraphLaunch(capture(compute_long), stream));
}

/* Nothing is wrong. */
static void replaying(void) {
    cudaGraphExec_t step = capture(reduce_all);
    for (;;) {
        NEED(cudaGraphLaunch(step, stream));
        NEED(cudaStreamSynchronize(stream));
        usleep(20000);
    }
}

/* Rank 2 reduces fewer values. */
static void count(void) {
    reduce(rank == 2 ? VALUES / 2 : VALUES);
}

/* Rank 2 leaves one out: its next one is another one than everybody else's. */
static void skipped(void) {
    if (rank != 2)
        reduce(VALUES);
    NEED(ncclBroadcast(values, values, VALUES, ncclFloat32, 0, comm, stream));
}

/* Rank 1 stays away from a group of two. */
static void group(void) {
    if (rank == 1)
        sleep(600);
    NEED(ncclGroupStart());
    reduce(VALUES);
    reduce(VALUES / 2);
    NEED(ncclGroupEnd());
}

/* ---- messages -------------------------------------------------------------------------------- */

static void send_to(int peer, ncclComm_t on) {
    NEED(ncclSend(message, MESSAGE, ncclFloat32, peer, on, stream));
}

static void receive_from(int peer, ncclComm_t on) {
    NEED(ncclRecv(message, MESSAGE, ncclFloat32, peer, on, stream));
}

static int next(void) {
    return (rank + 1) % size;
}

static int previous(void) {
    return (rank + size - 1) % size;
}

/* In one group a send and a receive never wait for each other. */
static void pass_on(void) {
    for (int i = 0; i < GOOD_MESSAGES; i++) {
        NEED(ncclGroupStart());
        send_to(next(), comm);
        receive_from(previous(), comm);
        NEED(ncclGroupEnd());
        NEED(cudaStreamSynchronize(stream));
    }
}

/* Everybody receives before he sends, in one stream. */
static void ring(void) {
    pass_on();
    receive_from(previous(), comm);
    send_to(next(), comm);
}

/* The same, waiting in between. */
static void ring_waiting(void) {
    pass_on();
    receive_from(previous(), comm);
    NEED(cudaStreamSynchronize(stream));
    send_to(next(), comm);
}

/* Rank 0 sends what rank 1 never receives; all others come to the next collective. */
static void unreceived(void) {
    pass_on();
    if (rank == 0)
        send_to(1, comm);
    if (rank == 1)
        sleep(600);
    reduce(VALUES);
}

/* Ranks 0 and 1 exchange on two communicators, one after the other, in different orders. */
static void crossed(void) {
    ncclComm_t other;
    NEED(ncclCommSplit(comm, 0, rank, &other, NULL));
    pass_on();
    if (rank == 0) {
        send_to(1, comm);
        receive_from(1, other);
    }
    if (rank == 1) {
        send_to(0, other);
        receive_from(0, comm);
    }
    reduce(VALUES);
}

/* Nothing is wrong: two ranks pass something to and fro on two communicators and two streams, for ever. */
static void to_and_fro(void) {
    ncclComm_t other;
    cudaStream_t second;
    NEED(ncclCommSplit(comm, 0, rank, &other, NULL));
    NEED(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    for (;;) {
        NEED(ncclGroupStart());
        send_to(next(), comm);
        receive_from(previous(), comm);
        NEED(ncclGroupEnd());
        if (rank % 2 == 0)
            NEED(ncclSend(values, VALUES, ncclFloat32, rank ^ 1, other, second));
        else
            NEED(ncclRecv(values, VALUES, ncclFloat32, rank ^ 1, other, second));
        NEED(cudaStreamSynchronize(stream));
        if (rank == 1)
            usleep(20000);
        NEED(cudaStreamSynchronize(second));
    }
}

static const struct {
    const char *name;
    void (*hang)(void);
} modes[] = {{"absent", absent},
             {"stream", stream_blocked},
             {"broadcast", broadcast_blocked},
             {"working", working},
             {"replayed", replayed},
             {"replaying", replaying},
             {"replayed_exchange", replayed_exchange},
             {"replayed_messages", replayed_messages},
             {"replayed_computing", replayed_computing},
             {"count", count},
             {"skipped", skipped},
             {"group", group},
             {"ring", ring},
             {"ring_waiting", ring_waiting},
             {"unreceived", unreceived},
             {"crossed", crossed},
             {"to_and_fro", to_and_fro}};

int main(int argc, char **argv) {
    rank = atoi(getenv("RANK"));
    size = atoi(getenv("WORLD_SIZE"));
    NEED(cudaSetDevice(rank));
    NEED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    NEED(cudaMalloc((void **)&values, VALUES * sizeof *values));
    NEED(cudaMalloc((void **)&message, MESSAGE * sizeof *message));
    NEED(ncclCommInitRank(&comm, size, unique_id_exchange(getenv("TRAIN_ID_FILE"), rank), rank));
    for (int i = 0; i < GOOD; i++) {
        reduce(VALUES - (size_t)i);
        NEED(cudaStreamSynchronize(stream));
    }
    if (write(1, "ready\n", 6) != 6)
        return 1;
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            modes[i].hang();
    NEED(cudaStreamSynchronize(stream));
    return 0;
}
