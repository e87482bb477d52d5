/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that never calls MPI_Init: its world is the process set mpi://WORLD of a session.
 * Lives here: the job. Must not live here: what should be said of it (test/e2e/test_sessions.py).
 *
 *   sessions slow RANK STEPS    RANK (-1: nobody) works ten times as long in every step
 *   sessions skip RANK STEPS    RANK never comes to the last collective
 *   sessions twice RANK STEPS   as slow, the second half in a session of its own, begun before the first one ends
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WORK_US = 1000, SLOW = 10 };

#ifdef MPI_SESSION_NULL /* Open MPI 5 has sessions and calls itself 3.1 */
struct world {
    MPI_Session session;
    MPI_Comm all, half;
    int rank, size;
};

static void open_world(struct world *world, const char *name) {
    MPI_Group group;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &world->session);
    MPI_Group_from_session_pset(world->session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &world->all);
    MPI_Group_free(&group);
    MPI_Comm_rank(world->all, &world->rank);
    MPI_Comm_size(world->all, &world->size);
    MPI_Comm_split(world->all, world->rank % 2, world->rank, &world->half);
    MPI_Comm_set_name(world->half, "half");
}

static void close_world(struct world *world) {
    MPI_Comm_free(&world->half);
    MPI_Comm_free(&world->all);
    MPI_Session_finalize(&world->session);
}

static void work(unsigned us) {
    struct timespec t = {0, us * 1000l};
    nanosleep(&t, NULL);
}

/* A message around the ring, one collective of the half, one of all. */
static void step(const struct world *world) {
    int next = (world->rank + 1) % world->size, last = (world->rank + world->size - 1) % world->size;
    double in = 1, out = 0;
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, world->all);
    MPI_Sendrecv(&in, 1, MPI_DOUBLE, next, 3, &out, 1, MPI_DOUBLE, last, 3, world->all, MPI_STATUS_IGNORE);
    MPI_Bcast(&in, 1, MPI_DOUBLE, 0, world->half);
}

static void ready(void) {
    if (write(1, "ready\n", 6) != 6)
        exit(1);
}

int main(int argc, char **argv) {
    struct world world, second;
    const char *mode = argc > 1 ? argv[1] : "slow";
    int slow = argc > 2 ? atoi(argv[2]) : 1, steps = argc > 3 ? atoi(argv[3]) : 100;
    open_world(&world, "org.commtap.test");
    for (int i = 0; i < steps; i++) {
        if (i == steps / 2 && strcmp(mode, "twice") == 0) {
            open_world(&second, "org.commtap.second");
            close_world(&world);
            world = second;
        }
        work(WORK_US * (strcmp(mode, "skip") && world.rank == slow ? SLOW : 1));
        step(&world);
    }
    if (strcmp(mode, "skip") == 0) {
        ready();
        if (world.rank == slow)
            sleep(600);
        MPI_Barrier(world.all);
    }
    close_world(&world);
    return 0;
}
#else
int main(void) {
    fputs("this MPI has no sessions\n", stderr);
    return 77;
}
#endif
