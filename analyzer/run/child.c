/* SPDX-License-Identifier: Apache-2.0
 *
 * The command as a child: started, sent the signals meant for it, waited for.
 * Lives here: process and signal handling of `commtap run`.
 * Must not live here: what is in the environment, what happens afterwards.
 */
#include "analyzer/run/run.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/base/output_mode.h"
#include "analyzer/run/witness.h"

extern char **environ;

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static int start(char *const *argv, const sigset_t *mask, pid_t *child) {
    posix_spawnattr_t attributes;
    int error = posix_spawnattr_init(&attributes);
    if (error)
        return error;
    posix_spawnattr_setsigmask(&attributes, mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    error = posix_spawnp(child, argv[0], NULL, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    return error;
}

static bool ends_processes(uint32_t number) {
    return number != SIGUSR1 && number != SIGUSR2;
}

/* Waits for the child while handing on the signals that `descriptor` reads. Returns its wait status. */
static int attend(pid_t child, int descriptor, struct witness *witness) {
    for (;;) {
        int status;
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child)
            return status;
        struct signalfd_siginfo signal;
        witness_until(witness, descriptor, child);
        if (read(descriptor, &signal, sizeof signal) != sizeof signal || signal.ssi_signo == SIGCHLD)
            continue;
        if (ends_processes(signal.ssi_signo))
            witness_told_to_end(witness);
        /* the terminal signals its whole foreground group, the command included: a second ^C means "kill now" to
         * mpirun, so what came from the kernel is not repeated */
        if (signal.ssi_code != SI_KERNEL)
            kill(child, (int)signal.ssi_signo);
    }
}

/* The same where there are no descriptors left: without a witness. */
static int attend_plainly(pid_t child, const sigset_t *signals) {
    for (;;) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        siginfo_t signal;
        if (sigwaitinfo(signals, &signal) >= 0 && signal.si_signo != SIGCHLD && signal.si_code != SI_KERNEL)
            kill(child, signal.si_signo);
    }
}

static struct run_end end_of(int status, int start_errno) {
    if (start_errno)
        return (struct run_end){.status = start_errno == ENOENT ? 127 : 126, .start_errno = start_errno};
    if (WIFSIGNALED(status))
        return (struct run_end){.status = 128 + WTERMSIG(status), .signal = WTERMSIG(status)};
    return (struct run_end){.status = WEXITSTATUS(status)};
}

struct run_end run_child(char *const *argv, const struct run_settings *settings, const char *directory) {
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
        sigaddset(&signals, forwarded[i]);
    /* an inherited "ignore" would let the child's status be lost */
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &signals, &before);
    for (size_t i = 0; i < settings->count; i++)
        setenv(settings->items[i].name, settings->items[i].value, 1);

    pid_t child;
    struct witness witness;
    witness_open(&witness, directory, run_settings_get(settings, "COMMTAP_RUN_ID"),
                 output_file_mode(run_settings_get(settings, "COMMTAP_MODE")));
    int descriptor = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    int start_errno = start(argv, &before, &child);
    int status = start_errno       ? 0
                 : descriptor >= 0 ? attend(child, descriptor, &witness)
                                   : attend_plainly(child, &signals);
    if (!start_errno)
        witness_finish(&witness, status);
    if (descriptor >= 0)
        close(descriptor);
    witness_close(&witness);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return end_of(status, start_errno);
}
