/* SPDX-License-Identifier: Apache-2.0
 *
 * What dlerror() tells after calls that a profiler looks up for the first time: the job's own last error, or nothing.
 * Lives here: errors pending across first calls. Must not live here: other uses of the dynamic linker.
 *
 * Prints what dlerror() said, whether or not a profiler is there the same.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

static void fail(const char *name) {
    if (dlopen(name, RTLD_NOW))
        printf("%s is there\n", name);
}

static void say(const char *when) {
    const char *text = dlerror();
    printf("%s: %s\n", when, text ? text : "nothing");
    text = dlerror();
    if (text)
        printf("%s: said twice: %s\n", when, text);
}

static void *in_a_thread(void *unused) {
    int size;
    fail("libmissing_in_a_thread.so");
    MPI_Comm_size(MPI_COMM_SELF, &size);
    MPI_Reduce(MPI_IN_PLACE, &size, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_SELF);
    say("in a thread");
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    int flag, value = 1, provided;
    fail("libmissing_before.so");
    MPI_Initialized(&flag);
    say("before MPI_Init");
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    dlerror();
    fail("libmissing_one.so");
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    say("after two first calls");
    fail("libmissing_two.so");
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    fail("libmissing_three.so");
    say("after a later error");
    fail("libmissing_four.so");
    MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, &value, 1, MPI_INT, 0, MPI_COMM_SELF);
    say(dlsym(RTLD_DEFAULT, "printf") ? "after a success" : "printf is missing");
    MPI_Scatter(&value, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, 0, MPI_COMM_SELF);
    say("after a first call alone");
    fail("libmissing_five.so");
    pthread_create(&thread, NULL, in_a_thread, NULL);
    pthread_join(thread, NULL);
    MPI_Scan(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    say("beside a thread");
    MPI_Finalize();
    return 0;
}
