/* SPDX-License-Identifier: Apache-2.0
 *
 * Every way for a job to end, the proper one included, after 50 Allreduces of 8 bytes.
 * Lives here: the endings. Must not live here: what a dump should hold afterwards (test/e2e).
 *
 *   ending MODE [RANK]    RANK (default 1) is the rank that does it
 *
 * In every mode but `proper` the other ranks wait for the guilty one in a barrier it never enters.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void by_kill(void) {
    kill(getpid(), SIGKILL);
}

static void by_terminate(void) {
    kill(getpid(), SIGTERM);
}

static void by_segv(void) {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void by_exit_now(void) {
    _exit(3);
}

static void by_exit(void) {
    exit(3);
}

static void by_abort(void) {
    MPI_Abort(MPI_COMM_WORLD, 4);
}

static void by_sleep(void) {
    sleep(600);
}

static const struct ending {
    const char *name;
    void (*end)(void);
} endings[] = {
    {"kill", by_kill}, {"terminate", by_terminate}, {"segv", by_segv},  {"exit-now", by_exit_now},
    {"exit", by_exit}, {"abort", by_abort},         {"hang", by_sleep},
};

static void work(void) {
    double in = 1.0, out;
    for (int i = 0; i < 50; i++)
        MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "proper";
    const char *launcher_rank = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
    int me, guilty = argc > 2 ? atoi(argv[2]) : 1;
    if (strcmp(mode, "hang-in-init") == 0 && launcher_rank && atoi(launcher_rank) == guilty)
        sleep(600);
    if (strcmp(mode, "no-init") == 0) {
        puts("usage: ending MODE [RANK]");
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    work();
    if (strcmp(mode, "proper") == 0) {
        MPI_Finalize();
        return 0;
    }
    printf("ready\n");
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(mode, "no-finalize") == 0) /* on all ranks */
        _exit(0);
    if (strcmp(mode, "return") == 0) /* likewise */
        return 0;
    if (me == guilty) {
        usleep(300000); /* who watches has found the processes, on a busy machine, too */
        for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
            if (strcmp(mode, endings[i].name) == 0)
                endings[i].end();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
