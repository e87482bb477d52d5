/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the process that wrote a dump still runs.
 * Lives here: reading /proc.
 * Must not live here: what a dump holds.
 */
#include "analyzer/dumps/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/dumps/pid_namespaces.h"

enum { FLAG_EXITING = 4 }; /* PF_EXITING of the kernel's task flags */

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

static uint64_t signals_in(const char *status, const char *line) {
    const char *found = strstr(status, line);
    return found ? strtoull(found + strlen(line), NULL, 16) : 0;
}

/* A signal is pending that ends the process as soon as it runs. */
static bool has_fatal_signal(const char *status) {
    static const int fatal[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGKILL};
    uint64_t pending = signals_in(status, "\nSigPnd:") | signals_in(status, "\nShdPnd:"), deadly = 0;
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        deadly |= UINT64_C(1) << (fatal[i] - 1);
    deadly &= ~(signals_in(status, "\nSigBlk:") | signals_in(status, "\nSigIgn:") | signals_in(status, "\nSigCgt:"));
    return (pending & deadly) != 0;
}

/* Fields of /proc/PID/stat behind the name: 3 state, 9 flags, 22 start time, 52 exit code. */
bool process_look(int64_t pid, struct process_look *look) {
    char path[64], text[4096];
    *look = (struct process_look){0};
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    char *field = read_text(path, text, sizeof text) ? strrchr(text, ')') : NULL; /* the name may hold anything */
    if (!field || field[1] != ' ')
        return false;
    look->letter = field[2];
    look->ending = strchr("ZXx", field[2]) != NULL;
    for (int number = 2; number < 52 && (field = strchr(field + 1, ' ')) != NULL; number++) {
        if (number + 1 == 9)
            look->ending |= (strtoul(field, NULL, 10) & FLAG_EXITING) != 0;
        if (number + 1 == 22)
            look->started = strtod(field, NULL) / (double)sysconf(_SC_CLK_TCK);
        if (number + 1 == 52)
            look->status = (int)strtol(field, NULL, 10);
    }
    snprintf(path, sizeof path, "/proc/%" PRId64 "/status", pid);
    look->ending = look->ending || (read_text(path, text, sizeof text) && has_fatal_signal(text));
    return true;
}

/* linux/pidfd.h: struct pidfd_info in its first size, PIDFD_GET_INFO and PIDFD_INFO_EXIT. */
struct pidfd_end {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
};
_Static_assert(sizeof(struct pidfd_end) == 64, "the kernel's PIDFD_INFO_SIZE_VER0");

bool process_was_reaped(int pidfd, int *status) {
    const uint64_t exited = UINT64_C(1) << 3;
    struct pidfd_end end = {.mask = exited};
    if (pidfd < 0 || ioctl(pidfd, _IOWR(0xff, 11, struct pidfd_end), &end) != 0 || !(end.mask & exited))
        return false;
    *status = end.exit_code;
    return true;
}

static bool started_when(double after_boot, uint64_t realtime_ns) {
    struct timespec boot, real;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    clock_gettime(CLOCK_REALTIME, &real);
    double difference = (double)real.tv_sec - (double)boot.tv_sec + after_boot - (double)realtime_ns / 1e9;
    return difference < 5 && difference > -5; /* the dump knows it to about a second */
}

bool process_is_that(int64_t pid, uint64_t start_realtime_ns) {
    struct process_look look;
    return process_look(pid, &look) && !look.ending && started_when(look.started, start_realtime_ns);
}

bool process_boot_id(char *text, size_t size) {
    if (!read_text("/proc/sys/kernel/random/boot_id", text, size))
        return false;
    text[strcspn(text, "\n")] = '\0';
    return true;
}

/* ---- dumps' processes ------------------------------------------------------------------------ */

/* Which process is asked for, and what it does, once it is found. */
struct wanted {
    uint64_t start_realtime_ns;
    enum process_state state;
    int64_t here; /* its number in our namespace */
};

static bool is_wanted(int64_t pid, void *context) {
    struct wanted *wanted = context;
    struct process_look look;
    wanted->state = PROCESS_GONE;
    if (pid <= 0 || pid > INT32_MAX || (kill((pid_t)pid, 0) != 0 && errno != EPERM))
        return false;
    if (!process_look(pid, &look) || look.ending || !started_when(look.started, wanted->start_realtime_ns))
        return false;
    wanted->here = pid;
    wanted->state = look.letter == 'T' || look.letter == 't' ? PROCESS_STOPPED : PROCESS_RUNS;
    return true;
}

/* What is asked of several dumps' processes. The other namespaces are looked at when the first of them asks. */
struct asking {
    char boot_id[128]; /* of this host, empty: unknown */
    struct pid_namespaces namespaces;
    bool looked;
};

static struct asking begin_asking(void) {
    struct asking asking = {.namespaces = {.own = pid_namespace_own()}};
    if (!process_boot_id(asking.boot_id, sizeof asking.boot_id))
        asking.boot_id[0] = '\0';
    return asking;
}

/* Of a loaded dump's header only the beginning is there. */
static struct wanted ask(struct asking *asking, const char *boot_id, uint64_t namespace,
                         const struct dump_header *header) {
    struct wanted wanted = {.start_realtime_ns = header->process_start_realtime_ns, .state = PROCESS_ELSEWHERE};
    if (!asking->boot_id[0] || strcmp(asking->boot_id, boot_id) != 0)
        return wanted;
    if (namespace == 0 || asking->namespaces.own == 0 || namespace == asking->namespaces.own) {
        is_wanted(header->pid, &wanted);
        return wanted;
    }
    if (!asking->looked)
        pid_namespaces_look(&asking->namespaces);
    asking->looked = true;
    if (!pid_namespaces_find(&asking->namespaces, namespace, header->pid, is_wanted, &wanted))
        wanted.state = pid_namespaces_would_show(&asking->namespaces, namespace) ? PROCESS_GONE : PROCESS_ELSEWHERE;
    return wanted;
}

static void end_asking(struct asking *asking) {
    pid_namespaces_free(&asking->namespaces);
}

static struct wanted ask_of_header(const struct dump_header *header) {
    struct asking asking = begin_asking();
    struct wanted wanted = ask(&asking, header->boot_id, header->pid_namespace, header);
    end_asking(&asking);
    return wanted;
}

enum process_state process_state_of(const struct dump_header *header) {
    return ask_of_header(header).state;
}

int64_t process_here_of(const struct dump_header *header) {
    return ask_of_header(header).here;
}

static struct wanted ask_of_dump(struct asking *asking, const struct dump *dump) {
    struct wanted wanted = ask(asking, dump->boot_id, dump->pid_namespace, dump->header);
    if (wanted.state == PROCESS_ELSEWHERE && dump->is_gone)
        wanted.state = PROCESS_GONE;
    return wanted;
}

void process_states(struct dump *const *dumps, size_t count, enum process_state *states) {
    struct asking asking = begin_asking();
    for (size_t d = 0; d < count; d++)
        states[d] = ask_of_dump(&asking, dumps[d]).state;
    end_asking(&asking);
}

static struct wanted ask_of(const struct dump *dump) {
    struct asking asking = begin_asking();
    struct wanted wanted = ask_of_dump(&asking, dump);
    end_asking(&asking);
    return wanted;
}

enum process_state process_state(const struct dump *dump) {
    return ask_of(dump).state;
}

int64_t process_here(const struct dump *dump) {
    return ask_of(dump).here;
}

bool process_is_alive(const struct dump *dump) {
    enum process_state state = process_state(dump);
    return state == PROCESS_RUNS || state == PROCESS_STOPPED;
}
