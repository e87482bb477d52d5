/* SPDX-License-Identifier: Apache-2.0
 *
 * A single process that treats the shim badly, one way per run. What it did is printed as "NAME NUMBER" lines.
 * Must not live here: what commtap must say about it (test_stress.py).
 *
 *   stress threads | destructors | forks | creations | exit | jump | small-stack | requests
 */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAVE  24 /* threads at a time: more than there are exclusive rings */
#define WAVES 100
#define CALLS 20

static MPI_Comm communicators[WAVE];

static void fail(const char *what) {
    perror(what);
    exit(3);
}

static void reduce(MPI_Comm comm) {
    double sent = 1, received;
    MPI_Allreduce(&sent, &received, 1, MPI_DOUBLE, MPI_SUM, comm);
}

static void exchange(MPI_Comm comm) {
    MPI_Request requests[2];
    double sent = 1, received;
    MPI_Irecv(&received, 1, MPI_DOUBLE, 0, 3, comm, &requests[0]);
    MPI_Isend(&sent, 1, MPI_DOUBLE, 0, 3, comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void *call_a_little(void *comm) {
    for (int i = 0; i < CALLS; i++) {
        reduce(*(MPI_Comm *)comm);
        exchange(*(MPI_Comm *)comm);
    }
    return NULL;
}

static void wave(void *(*body)(void *), const pthread_attr_t *attributes) {
    pthread_t threads[WAVE];
    for (int i = 0; i < WAVE; i++)
        if (pthread_create(&threads[i], attributes, body, &communicators[i]))
            fail("pthread_create");
    for (int i = 0; i < WAVE; i++)
        pthread_join(threads[i], NULL);
}

/* Thousands of threads that come and go, never more than WAVE at once. */
static void threads(void) {
    for (int i = 0; i < WAVES; i++)
        wave(call_a_little, NULL);
    printf("MPI_Allreduce %d\nMPI_Isend %d\n", WAVES * WAVE * CALLS, WAVES * WAVE * CALLS);
}

/* ---- calls from the destructors of thread-specific data --------------------------------------------------------- */

static pthread_key_t last_words;

static void say_last_words(void *comm) {
    reduce(*(MPI_Comm *)comm);
}

static void *call_at_the_end(void *comm) {
    reduce(*(MPI_Comm *)comm);
    pthread_setspecific(last_words, comm);
    return NULL;
}

static void destructors(void) {
    if (pthread_key_create(&last_words, say_last_words))
        fail("pthread_key_create");
    for (int i = 0; i < 10; i++)
        wave(call_at_the_end, NULL);
    printf("MPI_Allreduce %d\n", 10 * WAVE * 2);
}

/* ---- forks ----------------------------------------------------------------------------------- */

static atomic_bool stop;
static atomic_int background_calls;

static void *call_until_stopped(void *comm) {
    while (!stop) {
        reduce(*(MPI_Comm *)comm);
        background_calls++;
    }
    return NULL;
}

static void expect_child(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        fail("fork");
    if (status) {
        fprintf(stderr, "stress: a child ended with status %x\n", (unsigned)status);
        exit(4);
    }
}

/* Children that end at once or become another program while threads communicate; then, with only this thread left,
 * children that communicate on their own. */
static void forks(void) {
    pthread_t caller;
    pid_t child;
    if (pthread_create(&caller, NULL, call_until_stopped, &communicators[1]))
        fail("pthread_create");
    for (int i = 0; i < 40; i++) {
        if ((child = fork()) == 0) {
            if (i % 2)
                _exit(0);
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        expect_child(child);
    }
    stop = true;
    pthread_join(caller, NULL);
    for (int i = 0; i < 5; i++) {
        if ((child = fork()) == 0) {
            call_a_little(&communicators[0]);
            _exit(0);
        }
        expect_child(child);
        reduce(communicators[0]);
    }
    printf("parent %d\nchild %d\nchildren 5\n", background_calls + 5, CALLS);
}

static atomic_int creations;

static void *create_until_stopped(void *nothing) {
    while (!stop) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        reduce(comm);
        MPI_Comm_free(&comm);
        creations++;
    }
    return nothing;
}

/* What a child may do that is no communication: MPI's own locks may be held in it for ever. */
static void live_as_a_child(int way) {
    int flag = 0;
    alarm(30); /* a child that hangs dies of it, and is told from one that ends */
    for (int i = 0; i < 20; i++) {
        void *self = dlopen(NULL, RTLD_NOW);
        MPI_Initialized(&flag);
        MPI_Pcontrol(100);
        if (!self || !dlsym(self, "MPI_Allreduce") || dlclose(self) || !flag)
            _exit(5);
    }
    if (way == 0)
        exit(0);
    if (way == 1)
        execl("/bin/true", "true", (char *)NULL);
    _exit(0);
}

/* Children of a process whose other threads create communicators at that moment. */
static void forks_meanwhile(void) {
    pthread_t makers[2];
    pid_t child;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&makers[i], NULL, create_until_stopped, NULL))
            fail("pthread_create");
    for (int i = 0; i < 60; i++) {
        if ((child = fork()) == 0)
            live_as_a_child(i % 3);
        expect_child(child);
    }
    stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(makers[i], NULL);
    printf("MPI_Comm_dup %d\nMPI_Allreduce %d\n", creations + WAVE, creations);
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* exit() while other threads are inside calls, without MPI_Finalize. */
static void leave(void) {
    for (int i = 1; i < 5; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, call_until_stopped, &communicators[i]))
            fail("pthread_create");
    }
    usleep(50000);
    fflush(stdout);
    exit(0);
}

static jmp_buf out;

static void jump_out(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    longjmp(out, 1);
}

/* An error handler that never returns to the wrapper: calls afterwards must be seen all the same. */
static void jump(void) {
    MPI_Errhandler handler;
    volatile int jumps = 0;
    double value = 0;
    MPI_Comm_create_errhandler(jump_out, &handler);
    MPI_Comm_set_errhandler(communicators[0], handler);
    for (volatile int i = 0; i < 10; i++) {
        if (setjmp(out) == 0)
            MPI_Send(&value, 1, MPI_DOUBLE, 99, 0, communicators[0]);
        else
            jumps++;
        reduce(communicators[0]);
    }
    printf("jumps %d\nMPI_Allreduce 10\n", jumps);
}

/* Threads with little stack: commtap must not need more than the library itself. */
static void small_stack(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, 64 << 10))
        fail("pthread_attr_setstacksize");
    wave(call_a_little, &attributes);
    printf("MPI_Allreduce %d\n", WAVE * CALLS);
}

/* More operations in flight than the table of pending ones holds, completed in reverse order in one large Waitall. */
static void requests(void) {
    enum { MANY = 6000 };
    static MPI_Request pending[2 * MANY];
    static double values[2 * MANY];
    for (int i = 0; i < MANY; i++)
        MPI_Irecv(&values[i], 1, MPI_DOUBLE, 0, i % 1000, communicators[0], &pending[2 * MANY - 1 - i]);
    for (int i = 0; i < MANY; i++)
        MPI_Isend(&values[MANY + i], 1, MPI_DOUBLE, 0, i % 1000, communicators[0], &pending[i]);
    MPI_Waitall(2 * MANY, pending, MPI_STATUSES_IGNORE);
    for (int i = 0; i < CALLS; i++)
        exchange(communicators[0]);
    printf("MPI_Isend %d\nMPI_Irecv %d\n", MANY + CALLS, MANY + CALLS);
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {
    {"threads", threads},
    {"destructors", destructors},
    {"forks", forks},
    {"creations", forks_meanwhile},
    {"exit", leave},
    {"jump", jump},
    {"small-stack", small_stack},
    {"requests", requests},
};

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    for (int i = 0; i < WAVE; i++)
        MPI_Comm_dup(MPI_COMM_SELF, &communicators[i]);
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(argv[1], ways[i].name))
            ways[i].run();
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
