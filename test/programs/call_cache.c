/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that look like earlier ones and are not: handles that come back as other objects, one call site with changing
 * arguments, failures in between, threads that do all of this at once.
 * Lives here: these calls and their ledger. Must not live here: calls worth a test by themselves.
 *
 * The ledger's rows are "FUNCTION@COMMUNICATOR/EPOCH BYTES COUNT" and, for messages, "FUNCTION>PEER@COMMUNICATOR BYTES
 * COUNT". Prints how often a handle came back.
 *
 *   call_cache [THREADS [ROUNDS]]    on 3 ranks or more; on one there are threads only
 */
#include <mpi.h>
#include <pthread.h>

#include "expect.h"

#define ROUNDS      18
#define VARIETY     60 /* many combinations of what varies with 3, 4, 5 and 6 */
#define THREADS_MAX 16

static int me, n, epoch;
static int types_back, comms_back;
static char out[4096], in[4096 * 4];

/* ---- the ledger ------------------------------------------------------------------------------ */

static void called(const char *op, const char *name, long long bytes) {
    char key[sizeof expect_rows[0].op];
    snprintf(key, sizeof key, "%s@%s/%d", op, name, epoch);
    expect(key, bytes, 1);
}

static void message(const char *op, int peer, const char *name, long long bytes) {
    char key[sizeof expect_rows[0].op];
    called(op, name, bytes);
    snprintf(key, sizeof key, "%s>%d@%s", op, peer, name);
    expect(key, bytes, 1);
}

static void must(int code, const char *what) {
    if (code == MPI_SUCCESS)
        return;
    fprintf(stderr, "%s: %d\n", what, code);
    exit(9);
}
#define MUST(call) must(call, #call)

static void made(const char *op, const char *parent, int code, const MPI_Comm *comm, const char *name) {
    must(code, op);
    called(op, parent, 0);
    MUST(MPI_Comm_set_name(*comm, name));
}

static void release(MPI_Comm *comm, const char *name) {
    MUST(MPI_Comm_free(comm));
    called("MPI_Comm_free", name, 0);
}

/* ---- call sites: one each, whatever is passed ------------------------------------------------ */

static __attribute__((noinline)) void bcast(int count, MPI_Datatype type, int size, int root, MPI_Comm comm,
                                            const char *name) {
    MUST(MPI_Bcast(out, count, type, root, comm));
    called("MPI_Bcast", name, (long long)count * size);
}

static __attribute__((noinline)) void allgather(int count, int in_place, MPI_Comm comm, int ranks, const char *name) {
    if (in_place)
        MUST(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, count, MPI_INT, comm));
    else
        MUST(MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, comm));
    called("MPI_Allgather", name, 4LL * count * ranks);
}

/* One call instruction for both: what is passed is all that differs. */
static __attribute__((noinline)) void allreduce(const void *from, int count, MPI_Op op, MPI_Comm comm,
                                                const char *name) {
    MUST(MPI_Allreduce(from, in, count, MPI_INT, op, comm));
    called("MPI_Allreduce", name, 4LL * count);
}

static __attribute__((noinline)) void iallreduce(int count, MPI_Comm comm, const char *name) {
    MPI_Request request;
    MUST(MPI_Iallreduce(out, in, count, MPI_INT, MPI_SUM, comm, &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    called("MPI_Iallreduce", name, 4LL * count);
    called("MPI_Wait", "-", 0);
}

/* To the right, from the left; `source` and `tag` may be wildcards. `room`: at least what comes. */
static __attribute__((noinline)) void pass(int count, int room, MPI_Datatype type, int size, int distance, int source,
                                           int tag_sent, int tag, MPI_Comm comm, int rank, int ranks,
                                           const char *name) {
    int right = (rank + distance) % ranks, left = (rank + ranks - distance) % ranks;
    MPI_Request request;
    MUST(MPI_Irecv(in, room, type, source == MPI_ANY_SOURCE ? source : left, tag, comm, &request));
    MUST(MPI_Send(out, count, type, right, tag_sent, comm));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    int exactly = source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG; /* else only the posted size is known */
    message("MPI_Irecv", left, name, (long long)(exactly ? count : room) * size);
    message("MPI_Send", right, name, (long long)count * size);
    called("MPI_Wait", "-", 0);
}

static __attribute__((noinline)) void pass_blocking(int count, int room, int distance, int source, int tag_sent,
                                                    int tag, int ignore) {
    int right = (me + distance) % n, left = (me + n - distance) % n;
    MPI_Request request;
    MPI_Status status, *wanted = ignore ? MPI_STATUS_IGNORE : &status;
    MPI_Status *volatile ignored = MPI_STATUSES_IGNORE; /* MPICH's is an address that gcc warns of */
    MUST(MPI_Isend(out, count, MPI_INT, right, tag_sent, MPI_COMM_WORLD, &request));
    MUST(MPI_Recv(in, room, MPI_INT, source == MPI_ANY_SOURCE ? source : left, tag, MPI_COMM_WORLD, wanted));
    MUST(MPI_Waitall(1, &request, ignored));
    int exactly = !ignore || source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
    message("MPI_Isend", right, "MPI_COMM_WORLD", 4LL * count);
    message("MPI_Recv", left, "MPI_COMM_WORLD", 4LL * (exactly ? count : room));
    called("MPI_Waitall", "-", 0);
}

/* ---- handles that come back ------------------------------------------------------------------ */

static int seen_before(uintptr_t *list, int used, uintptr_t handle) {
    for (int i = 0; i < used; i++)
        if (list[i] == handle)
            return 1;
    list[used] = handle;
    return 0;
}

static void types_come_back(void) {
    static uintptr_t handles[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Datatype type;
        int size = 4 * (1 + i % 7);
        MUST(MPI_Type_contiguous(1 + i % 7, MPI_INT, &type));
        MUST(MPI_Type_commit(&type));
        types_back += seen_before(handles, i, (uintptr_t)type);
        for (int again = 0; again < 3; again++) {
            bcast(2, type, size, 0, MPI_COMM_WORLD, "MPI_COMM_WORLD");
            pass(3, 3, type, size, 1, 0, 1, 1, MPI_COMM_WORLD, me, n, "MPI_COMM_WORLD");
        }
        MUST(MPI_Type_free(&type));
    }
}

/* Of all, of halves, of one: in turns, so that a handle that comes back has other members. */
static void comms_come_back(void) {
    static const char *const names[] = {"all", "half", "alone"};
    static uintptr_t handles[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm comm;
        int rank, ranks, how = i % 3;
        int code = MPI_Comm_split(MPI_COMM_WORLD, how == 0 ? 0 : how == 1 ? me % 2 : me, -me, &comm);
        made("MPI_Comm_split", "MPI_COMM_WORLD", code, &comm, names[how]);
        comms_back += seen_before(handles, i, (uintptr_t)comm);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &ranks);
        for (int again = 0; again < 3; again++) {
            allgather(2, again % 2, comm, ranks, names[how]);
            bcast(5, MPI_INT, 4, ranks - 1, comm, names[how]);
            iallreduce(3, comm, names[how]);
            pass(1, 1, MPI_INT, 4, ranks > 1, 0, 3, 3, comm, rank, ranks, names[how]);
        }
        if (i < ROUNDS - 3) /* the last ones' histories stay to be compared */
            release(&comm, names[how]);
    }
}

/* ---- one call site, changing arguments ------------------------------------------------------- */

static void collectives_change(void) {
    static const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_BXOR};
    for (int i = 0; i < VARIETY; i++) {
        bcast(i % 5, i % 2 ? MPI_INT : MPI_DOUBLE, i % 2 ? 4 : 8, i % n, MPI_COMM_WORLD, "MPI_COMM_WORLD");
        allgather(i % 3, i / 3 % 2, MPI_COMM_WORLD, n, "MPI_COMM_WORLD");
        allreduce(i % 4 ? (const void *)out : MPI_IN_PLACE, 1 + i % 3, ops[i / 3 % 3], MPI_COMM_WORLD,
                  "MPI_COMM_WORLD");
        iallreduce(i % 30, MPI_COMM_WORLD, "MPI_COMM_WORLD");
    }
}

static void barrier(void) {
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    called("MPI_Barrier", "MPI_COMM_WORLD", 0);
}

static void messages_change(void) {
    for (int i = 0; i < VARIETY; i++) {
        int any_source = i % 3 == 1, any_tag = i % 5 >= 3, count = i % 4;
        pass(count, 4 + i % 2, MPI_INT, 4, 1 + i % (n - 1), any_source ? MPI_ANY_SOURCE : 0, i % 6,
             any_tag ? MPI_ANY_TAG : i % 6, MPI_COMM_WORLD, me, n, "MPI_COMM_WORLD");
        if (any_source) /* a wildcard takes nothing of what comes next */
            barrier();
        pass_blocking(count, 4, 1 + i % (n - 1), any_source ? MPI_ANY_SOURCE : 0, i % 6, any_tag ? MPI_ANY_TAG : i % 6,
                      i / 2 % 2);
        if (any_source)
            barrier();
    }
}

static void nobody(int peer) {
    MUST(MPI_Send(out, 3, MPI_INT, peer, 0, MPI_COMM_SELF));
    called("MPI_Send", "MPI_COMM_SELF", 0);
}

/* To nobody, by the same call sites. */
static void no_partner(void) {
    for (int i = 0; i < 5; i++)
        nobody(MPI_PROC_NULL);
}

/* ---- failures -------------------------------------------------------------------------------- */

static __attribute__((noinline)) void try_send(int count, int peer, int fails) {
    if ((MPI_Send(out, count, MPI_INT, peer, 0, MPI_COMM_SELF) != MPI_SUCCESS) != fails)
        exit(8);
    if (fails)
        called("MPI_Send", "MPI_COMM_SELF", 4LL * count);
    else
        message("MPI_Send", peer, "MPI_COMM_SELF", 4LL * count);
}

static __attribute__((noinline)) void try_bcast(int count, int root, int fails) {
    if ((MPI_Bcast(out, count, MPI_INT, root, MPI_COMM_WORLD) != MPI_SUCCESS) != fails)
        exit(8);
    called("MPI_Bcast", "MPI_COMM_WORLD", 4LL * count);
}

static void failures(void) {
    MPI_Request request;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 5; i++) {
        for (int again = 0; again < 2; again++) {
            MUST(MPI_Irecv(in, 7, MPI_INT, 0, 0, MPI_COMM_SELF, &request));
            try_send(7, 0, 0);
            MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
            message("MPI_Irecv", 0, "MPI_COMM_SELF", 28);
            called("MPI_Wait", "-", 0);
            try_send(7, 999, 1);
            try_bcast(6, 0, 0);
            try_bcast(6, 999, 1);
        }
        MPI_Pcontrol(2);
        epoch++;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* ---- threads --------------------------------------------------------------------------------- */

static struct worker {
    pthread_t thread;
    int number, rounds;
    MPI_Comm alone, all;
} workers[THREADS_MAX];

/* The types' sizes are the thread's and the round's own: a size that another thread's handle had would show. */
static int ints_of(const struct worker *w, int round) {
    return 1 + w->number * 8 + round % 8;
}

static void *work(void *argument) {
    struct worker *w = argument;
    char data[4 * 8 * (THREADS_MAX + 1)] = {0};
    for (int i = 0; i < w->rounds; i++) {
        MPI_Datatype type;
        MUST(MPI_Type_contiguous(ints_of(w, i), MPI_INT, &type));
        MUST(MPI_Type_commit(&type));
        for (int again = 0; again < 3; again++)
            MUST(MPI_Bcast(data, 1, type, 0, w->alone));
        MUST(MPI_Type_free(&type));
        if (i % 100 == 0) {
            MPI_Comm comm;
            MUST(MPI_Comm_dup(w->all, &comm));
            for (int again = 0; again < 3; again++)
                MUST(MPI_Bcast(data, ints_of(w, i), MPI_INT, i % n, comm));
            MUST(MPI_Comm_free(&comm));
        }
    }
    return NULL;
}

static void threads(int count, int rounds) {
    for (int t = 0; t < count; t++) {
        struct worker *w = &workers[t];
        w->number = t;
        w->rounds = rounds;
        made("MPI_Comm_dup", "MPI_COMM_WORLD", MPI_Comm_dup(MPI_COMM_WORLD, &w->all), &w->all, "all of a thread");
        made("MPI_Comm_dup", "MPI_COMM_SELF", MPI_Comm_dup(MPI_COMM_SELF, &w->alone), &w->alone, "alone");
    }
    for (int t = 0; t < count; t++)
        if (pthread_create(&workers[t].thread, NULL, work, &workers[t]) != 0)
            exit(9);
    for (int t = 0; t < count; t++)
        pthread_join(workers[t].thread, NULL);
    for (int t = 0; t < count; t++)
        for (int i = 0; i < rounds; i++) {
            for (int again = 0; again < 3; again++) {
                called("MPI_Bcast", "alone", 4LL * ints_of(&workers[t], i));
                if (i % 100 == 0)
                    called("MPI_Bcast", "-", 4LL * ints_of(&workers[t], i));
            }
            if (i % 100 == 0) {
                called("MPI_Comm_dup", "all of a thread", 0);
                called("MPI_Comm_free", "-", 0);
            }
        }
    for (int t = 0; t < count; t++) {
        release(&workers[t].alone, "alone");
        release(&workers[t].all, "all of a thread");
    }
}

static void one_thread(void) {
    for (int twice = 0; twice < 2; twice++) {
        types_come_back();
        comms_come_back();
        MPI_Pcontrol(2); /* all again in another epoch */
        epoch++;
    }
    collectives_change();
    messages_change();
    no_partner();
    failures();
}

int main(int argc, char **argv) {
    int provided;
    MUST(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    called("MPI_Init_thread", "-", 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (n == 2 || provided != MPI_THREAD_MULTIPLE)
        return 9;
    if (n > 2)
        one_thread();
    threads(argc > 1 ? atoi(argv[1]) : 10, argc > 2 ? atoi(argv[2]) : 300);
    MUST(MPI_Finalize());
    called("MPI_Finalize", "-", 0);
    printf("types %d communicators %d\n", types_back, comms_back);
    expect_write(me);
    return 0;
}
