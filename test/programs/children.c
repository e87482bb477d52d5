/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank whose children are many: forked ones that communicate by themselves, and ones that the kernel was asked for
 * directly, without libc's knowing, which fork and do nothing else; or ones that make their first call when their
 * parent has ended.
 * Must not live here: what a dump should hold afterwards (test/e2e).
 *
 *   children forked|cloned|left HOW_MANY
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void use(void) {
    int mine = 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    if (sum != 1)
        _exit(8);
}

static void expect(pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        exit(9);
}

static void forked(void) {
    pid_t child = fork();
    if (child == 0) {
        use();
        _exit(0);
    }
    expect(child);
}

/* A session of its own: its launcher does not take it along. */
static void left(void) {
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        exit(9);
    if (child > 0)
        return;
    setsid();
    while (getppid() == parent)
        usleep(1000);
    use();
    _exit(0);
}

static void cloned(int round) {
    pid_t child = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    if (child != 0) {
        expect(child);
        return;
    }
    pid_t grandchild = fork();
    if (grandchild == 0 && round % 2)
        exit(0);
    if (grandchild == 0)
        _exit(0);
    expect(grandchild);
    _exit(0);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    MPI_Init(&argc, &argv);
    use();
    for (int round = 0; round < atoi(argv[2]); round++) {
        if (!strcmp(argv[1], "forked"))
            forked();
        else if (!strcmp(argv[1], "left"))
            left();
        else
            cloned(round);
    }
    use();
    MPI_Finalize();
    return 0;
}
