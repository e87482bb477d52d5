/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that forks and execs between its calls, as jobs do with system() and popen().
 * Lives here: children that do not communicate, and the parent's ledger. Must not live here: MPI calls in a child.
 */
#include <mpi.h>
#include <sys/wait.h>

#include "expect.h"

static int reaped(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A child that only computes, then leaves in one way or the other. */
static int forked(int run_destructors) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (run_destructors)
            exit(0);
        _exit(0);
    }
    return reaped(child);
}

static int executed(char **argv) {
    pid_t child = fork();
    if (child == 0) {
        execv("/bin/true", argv);
        _exit(127);
    }
    return reaped(child);
}

int main(int argc, char **argv) {
    int me, ok = 1;
    double in = 1.0, out;
    CALLED(MPI_Init, 0, MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    for (int i = 0; i < 20; i++) {
        CALLED(MPI_Allreduce, 8, MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        ok = ok && forked(i % 2) && executed(argv);
        if (i == 10)
            ok = ok && system("exit 0") == 0;
    }
    CALLED(MPI_Finalize, 0, MPI_Finalize());
    expect_write(me);
    return ok ? 0 : 8;
}
