/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways for a job to hang, after a few collectives and messages that went well. Ranks that reach the hang say so.
 * Lives here: the hangs. Must not live here: what a diagnosis should say (test/e2e).
 *
 *   hang MODE
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GOOD = 40, ALONE = 30, LARGE = 1 << 20 };

static int rank, size;
static char *block;

static void ready(void) {
    if (write(1, "ready\n", 6) != 6)
        exit(1);
}

static void allreduce(MPI_Comm comm) {
    double in = 1, out;
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, comm);
}

/* Everybody receives before it sends. */
static void ring(void) {
    char c = 0;
    ready();
    MPI_Recv(&c, 1, MPI_CHAR, (rank + size - 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&c, 1, MPI_CHAR, (rank + 1) % size, 7, MPI_COMM_WORLD);
}

/* Everybody sends what no library buffers before it receives. */
static void sends(void) {
    ready();
    MPI_Send(block, LARGE, MPI_CHAR, (rank + 1) % size, 8, MPI_COMM_WORLD);
    MPI_Recv(block, LARGE, MPI_CHAR, (rank + size - 1) % size, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Posted receives of a tag that nobody sends; the sends are buffered. */
static void waitall(void) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    char in = 0, out = 0;
    MPI_Irecv(&in, 1, MPI_CHAR, (rank + size - 1) % size, 9, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&out, 1, MPI_CHAR, (rank + 1) % size, 10, MPI_COMM_WORLD, &requests[1]);
    ready();
    MPI_Waitall(2, requests, statuses);
}

#if MPI_VERSION >= 4
/* Rank 1 has prepared a persistent collective like everybody, and starts it once less often. */
static void start(void) {
    enum { STARTS = 6 };
    double in = 1, out;
    MPI_Request request;
    MPI_Allreduce_init(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < STARTS; i++) {
        if (i == STARTS - 1)
            ready();
        if (i == STARTS - 1 && rank == 1)
            sleep(600);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}
#endif

/* On a ring rank 1 goes its own way: its neighbours wait for it, and who is opposite, one round further, for these. */
static void neighbours(void) {
    MPI_Comm ring;
    int round = 1, in[2], out[2] = {0};
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &round, 0, &ring);
    for (int i = 0; i < GOOD; i++)
        MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring);
    ready();
    if (rank == 1)
        sleep(600);
    for (int i = 0; i < 2; i++)
        MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring);
}

/* Rank 1 goes its own way. */
static void skip(void) {
    ready();
    if (rank == 1)
        sleep(600);
    allreduce(MPI_COMM_WORLD);
}

/* Rank 1 does not come to the end. */
static void finalize(void) {
    ready();
    if (rank == 1)
        sleep(600);
}

/* Rank 0 never sends to rank 1, for which all others wait. */
static void chain(void) {
    char c;
    ready();
    if (rank == 0)
        sleep(600);
    if (rank == 1)
        MPI_Recv(&c, 1, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 2 calls another operation: with messages this small the others wait. */
static void mismatch(void) {
    ready();
    if (rank == 2)
        MPI_Barrier(MPI_COMM_WORLD);
    else
        allreduce(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    sleep(600);
}

/* Two communicators, two orders. */
static void swapped(void) {
    MPI_Comm a, b;
    MPI_Comm_dup(MPI_COMM_WORLD, &a);
    MPI_Comm_dup(MPI_COMM_WORLD, &b);
    MPI_Comm_set_name(a, "first");
    MPI_Comm_set_name(b, "second");
    ready();
    MPI_Barrier(rank == 0 ? b : a);
    MPI_Barrier(rank == 0 ? a : b);
}

/* Rank 1 leaves the fence out, which all others wait in, and is in a collective instead. */
static void fence(void) {
    char memory[8];
    MPI_Win window;
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    ready();
    if (rank != 1)
        MPI_Win_fence(0, window);
    allreduce(MPI_COMM_WORLD);
}

/* Rank 2 leaves the barrier out, which all others wait in, and comes to the exchange that a round begins with. */
static void past(void) {
    char out = 1, in;
    ready();
    if (rank != 2)
        MPI_Barrier(MPI_COMM_WORLD);
    allreduce(MPI_COMM_SELF);
    MPI_Sendrecv(&out, 1, MPI_CHAR, (rank + 1) % size, 7, &in, 1, MPI_CHAR, (rank + size - 1) % size, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* Rank 1 keeps the lock on rank 0's memory until it hears of 3, which hears of 2, which waits for the lock. */
static void lock(void) {
    char memory[8], word = 0;
    MPI_Win window;
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Put(&word, 1, MPI_CHAR, 0, 0, 1, MPI_CHAR, window);
        MPI_Win_flush(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    if (rank == 1)
        MPI_Recv(&word, 1, MPI_CHAR, 3, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 2)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    if (rank == 3)
        MPI_Recv(&word, 1, MPI_CHAR, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    allreduce(MPI_COMM_WORLD);
}

/* All send to rank 0, which receives one more, from whomever. */
static void unsent(void) {
    char word = 0;
    ready();
    for (int i = 0; rank == 0 && i < size; i++)
        MPI_Recv(&word, 1, MPI_CHAR, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0)
        MPI_Send(&word, 1, MPI_CHAR, 0, 6, MPI_COMM_WORLD);
    allreduce(MPI_COMM_WORLD);
}

/* Before which of its calls rank 1 stays at work. */
enum stays { BEFORE_POST, BEFORE_COMPLETE };

/* All let their neighbours in and write to them, but for rank 1; where `good`, they did so before. */
static void epochs(enum stays stays, int good, int asks) {
    static char memory[8];
    MPI_Win window;
    MPI_Group world, neighbours;
    int list[2] = {(rank + 1) % size, (rank + size - 1) % size};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, list[0] == list[1] ? 1 : 2, list, &neighbours);
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int i = 0; i <= good; i++) {
        int last = i == good, over = 0;
        if (last)
            ready();
        if (last && rank == 1 && stays == BEFORE_POST)
            sleep(600);
        MPI_Win_post(neighbours, 0, window);
        MPI_Win_start(neighbours, 0, window);
        if (last && rank == 1 && stays == BEFORE_COMPLETE)
            sleep(600);
        MPI_Win_complete(window);
        while (asks && !over)
            MPI_Win_test(window, &over);
        if (!asks)
            MPI_Win_wait(window);
    }
}

static void epoch(void) {
    epochs(BEFORE_POST, 0, 0);
}

static void completes(void) {
    epochs(BEFORE_COMPLETE, 10, 0);
}

static void asks(void) {
    epochs(BEFORE_COMPLETE, 10, 1);
}

/* Rank 1 sends to rank 0 what that does not wait for: with another tag. */
static void tag(void) {
    char c = 0;
    ready();
    if (rank == 1)
        MPI_Send(&c, 1, MPI_CHAR, 0, 42, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Recv(&c, 1, MPI_CHAR, 1, 24, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    allreduce(MPI_COMM_WORLD);
}

/* The last rank takes from anybody; all others but one wait for it, that one is at work. */
static void wildcard(void) {
    char c = 0;
    ready();
    if (rank == 0)
        sleep(600);
    else if (rank == size - 1)
        MPI_Recv(&c, 1, MPI_CHAR, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Recv(&c, 1, MPI_CHAR, size - 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sleep(600);
}

/* The last rank takes what comes first from the others; all wait for it, but rank 0 in the first case. */
static void take_any(int at_work) {
    MPI_Request requests[2];
    char c[2] = {0};
    int index;
    if (rank == size - 1) {
        MPI_Irecv(&c[0], 1, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&c[1], 1, MPI_CHAR, 0, 5, MPI_COMM_WORLD, &requests[1]);
        ready();
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    }
    ready();
    if (rank == 0 && at_work)
        sleep(600);
    MPI_Recv(c, 1, MPI_CHAR, size - 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void waitany(void) {
    take_any(1);
}

static void anycircle(void) {
    take_any(0);
}

/* Goes on for ever. */
static void moves(void) {
    ready();
    for (;;) {
        allreduce(MPI_COMM_WORLD);
        usleep(1000);
    }
}

/* The first two receive from each other; the others go on for ever. */
static void partial(void) {
    MPI_Comm others;
    char c = 0;
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2, rank, &others);
    ready();
    if (rank < 2)
        MPI_Recv(&c, 1, MPI_CHAR, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (;;) {
        allreduce(others);
        usleep(1000);
    }
}

/* Messages of every kind, as fast as they go: killed anywhere, it is in no deadlock. */
static void busy(void) {
    ready();
    for (;;) {
        int right = (rank + 1) % size, left = (rank + size - 1) % size;
        MPI_Request requests[4];
        MPI_Status statuses[4];
        char out = 1, in[4];
        MPI_Sendrecv(&out, 1, MPI_CHAR, right, 1, in, 1, MPI_CHAR, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(&in[0], 1, MPI_CHAR, left, 2, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&in[1], 1, MPI_CHAR, right, 3, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(&out, 1, MPI_CHAR, right, 2, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(&out, 1, MPI_CHAR, left, 3, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, statuses);
        if (rank == 0) {
            for (int i = 1; i < size; i++) {
                MPI_Recv(&in[2], 1, MPI_CHAR, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &statuses[0]);
                MPI_Send(&out, 1, MPI_CHAR, statuses[0].MPI_SOURCE, 5, MPI_COMM_WORLD);
            }
        } else {
            MPI_Send(&out, 1, MPI_CHAR, 0, 4, MPI_COMM_WORLD);
            MPI_Recv(&in[2], 1, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Bcast(in, 4, MPI_CHAR, 0, MPI_COMM_WORLD);
    }
}

static const struct {
    const char *name;
    void (*hang)(void);
} modes[] = {
    {"ring", ring},
    {"sends", sends},
    {"waitall", waitall},
    {"skip", skip},
    {"finalize", finalize},
    {"chain", chain},
    {"mismatch", mismatch},
    {"swapped", swapped},
    {"wildcard", wildcard},
    {"moves", moves},
    {"busy", busy},
    {"partial", partial},
    {"waitany", waitany},
    {"anycircle", anycircle},
    {"fence", fence},
    {"tag", tag},
    {"past", past},
    {"lock", lock},
    {"unsent", unsent},
    {"epoch", epoch},
    {"completes", completes},
    {"asks", asks},
    {"neighbours", neighbours},
#if MPI_VERSION >= 4
    {"start", start},
#endif
};

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    block = calloc(1, LARGE);
    for (int i = 0; i < GOOD; i++) {
        char out = 1, in;
        for (int k = 0; k < ALONE; k++) /* cheap, and together more than the smallest ring and its windows hold */
            allreduce(MPI_COMM_SELF);
        allreduce(MPI_COMM_WORLD);
        MPI_Sendrecv(&out, 1, MPI_CHAR, (rank + 1) % size, 7, &in, 1, MPI_CHAR, (rank + size - 1) % size, 7,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            modes[i].hang();
    MPI_Finalize();
    free(block);
    return 0;
}
