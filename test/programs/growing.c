/* SPDX-License-Identifier: Apache-2.0
 *
 * A job whose dump grows all the time: new sizes, communicators, call stacks and threads in every round.
 * Lives here: these calls, their results and their ledger. Must not live here: what happens to the file system.
 *
 *   growing FILE [ROUNDS]
 *
 * Says "recording", goes on until FILE exists (a minute at most), then ROUNDS rounds (40) more, which start over with
 * other sizes. Prints a digest of the results of those. On 2 ranks or more.
 */
#include <mpi.h>
#include <pthread.h>
#include <time.h>

#include "expect.h"

#define SIZES    24   /* per round */
#define TOGETHER 1    /* of these, with the other ranks: ranks that wait for each other make little of a busy machine */
#define DEPTHS   64   /* call stacks per round */
#define COMMS    100  /* and as many of this rank alone */
#define THREADS  6    /* that live on, each with a ring of its own */
#define BYTES    4096 /* the largest message */
#define PAUSE_NS 2000000

static int me, n;
static long long calls;
static MPI_Comm comms[COMMS], alone[COMMS];
static int comm_count;
static pthread_barrier_t end_of_threads;
static unsigned char out[BYTES], in[BYTES], got[BYTES];

/* A call that is recorded. */
static void must(int code) {
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    if (code != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 9);
}

static __attribute__((noinline)) int reduce_at(int depth, int bytes, MPI_Comm comm) {
    if (depth > 0)
        return reduce_at(depth - 1, bytes, comm) + 1;
    must(MPI_Allreduce(out, in, bytes, MPI_UNSIGNED_CHAR, MPI_BXOR, comm));
    return 0;
}

static void exchange(int bytes, int to, int from, MPI_Comm comm) {
    must(MPI_Sendrecv(out, bytes, MPI_UNSIGNED_CHAR, to, bytes, got, bytes, MPI_UNSIGNED_CHAR, from, bytes, comm,
                      MPI_STATUS_IGNORE));
}

static unsigned char value_of(int rank, int round) {
    return (unsigned char)(rank * 7 + round);
}

/* Every result is looked at, those before the file came, too. */
static void check(unsigned char sum, unsigned char message, int bytes) {
    if (in[0] != sum || in[bytes - 1] != sum || got[0] != message || got[bytes - 1] != message)
        MPI_Abort(MPI_COMM_WORLD, 8);
}

static void together(int round, int bytes) {
    unsigned char sum = 0;
    MPI_Comm comm = comms[comm_count - 1];
    for (int rank = 0; rank < n; rank++)
        sum ^= value_of(rank, round);
    reduce_at(0, bytes, comm);
    exchange(bytes, (me + 1) % n, (me + n - 1) % n, comm);
    check(sum, value_of((me + n - 1) % n, round), bytes);
}

static void by_itself(int round, int bytes) {
    reduce_at(0, bytes, alone[comm_count - 1]);
    exchange(bytes, 0, 0, alone[comm_count - 1]);
    check(value_of(me, round), value_of(me, round), bytes);
}

static void *thread(void *argument) {
    int mine = me, copy;
    (void)argument;
    for (int i = 0; i < 20; i++) {
        must(MPI_Allreduce(&mine, &copy, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    }
    pthread_barrier_wait(&end_of_threads);
    return NULL;
}

/* Up to `most` of them, communicators likewise. */
static void one_more_thread(int most) {
    static int started;
    pthread_t id;
    if (started >= most)
        return;
    if (pthread_create(&id, NULL, thread, NULL) != 0)
        MPI_Abort(MPI_COMM_WORLD, 7);
    pthread_detach(id);
    started++;
}

static void one_more_communicator(int most) {
    if (comm_count >= most)
        return;
    must(MPI_Comm_dup(MPI_COMM_WORLD, &comms[comm_count]));
    must(MPI_Comm_dup(MPI_COMM_SELF, &alone[comm_count++]));
}

/* `share` of what may grow is there to be used up, in halves. */
static void do_round(int round, int first_bytes, int share) {
    one_more_communicator(COMMS / 2 * share);
    memset(out, value_of(me, round), sizeof out);
    for (int i = 0; i < SIZES; i++) {
        int bytes = 1 + (first_bytes + round * SIZES + i) % BYTES;
        (i < TOGETHER ? together : by_itself)(round, bytes);
    }
    for (int depth = 0; depth < DEPTHS; depth++)
        reduce_at(depth, 1 + round % 64, alone[comm_count - 1]);
    if (round % 4 == 0)
        one_more_thread(THREADS / 2 * share);
}

static int may_end(const char *path, time_t began) {
    int found = me == 0 && (access(path, F_OK) == 0 || time(NULL) > began + 60);
    must(MPI_Bcast(&found, 1, MPI_INT, 0, MPI_COMM_WORLD));
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    return found;
}

int main(int argc, char **argv) {
    int provided, rounds = argc > 2 ? atoi(argv[2]) : 40;
    time_t began = time(NULL);
    if (argc < 2)
        return 2;
    must(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    pthread_barrier_init(&end_of_threads, NULL, THREADS + 1);
    one_more_communicator(1);
    reduce_at(0, 1, MPI_COMM_WORLD);
    if (me == 0) {
        puts("recording");
        fflush(stdout);
    }
    for (int round = 0; !may_end(argv[1], began); round++)
        do_round(round, 0, 1);
    memset(in, 0, sizeof in); /* how many rounds there were before differs from run to run */
    memset(got, 0, sizeof got);
    for (int round = 0; round < rounds; round++) {
        do_round(round, BYTES / 2, 2);
        expect_digest(in, sizeof in);
        expect_digest(got, sizeof got);
    }
    for (int i = 0; i < THREADS; i++)
        one_more_thread(THREADS);
    pthread_barrier_wait(&end_of_threads);
    unsigned long long digest = expect_digest_value, all;
    must(MPI_Reduce(&digest, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_BXOR, 0, MPI_COMM_WORLD));
    if (me == 0)
        printf("result %016llx\n", all);
    must(MPI_Finalize());
    expect("calls", 0, calls);
    expect_write(me);
    return 0;
}
