/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/doctor/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* An interpreter on a file server under load starts in seconds; more, and who asks thinks that commtap hangs. */
enum { CHILD_MS = 10000 };

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Until everybody has closed the other end, or time is up. False: time is up. */
static bool read_all(int fd, char *text, size_t size) {
    size_t used = 0;
    char rest[512];
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    for (int64_t until = now_ms() + CHILD_MS, left; (left = until - now_ms()) > 0;) {
        if (poll(&ready, 1, (int)left) <= 0)
            continue;
        bool fits = used + 1 < size;
        ssize_t got = read(fd, fits ? text + used : rest, fits ? size - 1 - used : sizeof rest);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        used += fits ? (size_t)got : 0;
        text[used] = '\0';
    }
    return false;
}

/* Its group: what it has started goes with it. */
static bool take_answer(pid_t child, int fd, char *text, size_t size) {
    int status;
    bool in_time = read_all(fd, text, size);
    if (!in_time)
        kill(-child, SIGKILL);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool child_call(void (*work)(const void *, int), const void *argument, char *text, size_t size) {
    int ends[2];
    text[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        int nothing = open("/dev/null", O_RDWR);
        setpgid(0, 0);
        dup2(nothing, 0);
        dup2(nothing, 1);
        dup2(nothing, 2);
        work(argument, ends[1]);
        _exit(0);
    }
    if (child > 0)
        setpgid(child, child);
    close(ends[1]);
    bool fine = child > 0 && take_answer(child, ends[0], text, size);
    close(ends[0]);
    return fine;
}

struct command_line {
    char *const *argv;
    const char *name, *value;
};

static void start_program(const void *argument, int fd) {
    const struct command_line *line = argument;
    dup2(fd, 1);
    dup2(fd, 2);
    if (!line->name || setenv(line->name, line->value, 1) == 0)
        execv(line->argv[0], line->argv);
    _exit(127);
}

bool child_run(char *const *argv, const char *name, const char *value, char *text, size_t size) {
    const struct command_line line = {argv, name, value};
    return child_call(start_program, &line, text, size);
}
