/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the process that wrote a dump still runs.
 * Lives here: reading /proc.
 * Must not live here: what a dump holds.
 */
#include "analyzer/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool read_text(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    return true;
}

/* Seconds after boot at which a process started, negative when there is none or it is dead and only not yet reaped.
 * *state is the kernel's letter for what it does. */
static double started_after_boot(int64_t pid, char *state) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (!read_text(path, text, sizeof text))
        return -1;
    char *field = strrchr(text, ')'); /* the name before it may hold anything */
    if (!field || field[1] != ' ' || strchr("ZXx", field[2]))
        return -1;
    *state = field[2];
    for (int i = 2; field && i < 22; i++)
        field = strchr(field + 1, ' ');
    return field ? strtod(field, NULL) / (double)sysconf(_SC_CLK_TCK) : -1;
}

static bool started_when(double after_boot, uint64_t realtime_ns) {
    struct timespec boot, real;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    clock_gettime(CLOCK_REALTIME, &real);
    double difference = (double)real.tv_sec - (double)boot.tv_sec + after_boot - (double)realtime_ns / 1e9;
    return difference < 5 && difference > -5; /* the dump knows it to about a second */
}

bool process_is_that(int64_t pid, uint64_t start_realtime_ns) {
    char letter;
    double started = started_after_boot(pid, &letter);
    return started >= 0 && started_when(started, start_realtime_ns);
}

enum process_state process_state(const struct dump *dump) {
    char text[128], letter = 'R';
    int64_t pid = dump->header->pid;
    if (!read_text("/proc/sys/kernel/random/boot_id", text, sizeof text))
        return PROCESS_ELSEWHERE;
    text[strcspn(text, "\n")] = '\0';
    if (strcmp(text, dump->boot_id) != 0)
        return PROCESS_ELSEWHERE;
    if (pid <= 0 || pid > INT32_MAX || (kill((pid_t)pid, 0) != 0 && errno != EPERM))
        return PROCESS_GONE;
    double started = started_after_boot(pid, &letter);
    if (started < 0 || !started_when(started, dump->header->process_start_realtime_ns))
        return PROCESS_GONE;
    return letter == 'T' || letter == 't' ? PROCESS_STOPPED : PROCESS_RUNS;
}

bool process_is_alive(const struct dump *dump) {
    enum process_state state = process_state(dump);
    return state == PROCESS_RUNS || state == PROCESS_STOPPED;
}
