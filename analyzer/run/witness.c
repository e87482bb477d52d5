/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: the kernel's interfaces, what a process's end and its neighbours look like at that moment.
 * Must not live here: signals of our own, verdicts.
 */
#include "analyzer/run/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/output_mode.h"
#include "analyzer/dumps/stub.h"
#include "analyzer/dumps/process.h"
#include "analyzer/base/regular_file.h"
#include "analyzer/run/first_death.h"
#include "shim/format.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* on all architectures */
#endif

enum {
    HEX_DIGITS = 16,
    TRIES = 200,       /* a dump has no process so long */
    RETRY_MS = 50,     /* a dump's header is filled shortly after it appears */
    SETTLE_MS = 300,   /* launchers end the others of a job whose rank died within less */
    ORPHANS_MS = 5000, /* processes whose launcher was told to end, and did so at once, end within less: Open MPI's have
                          a second (odls_base_sigkill_timeout) from SIGTERM to SIGKILL; the rest is for a busy host */
    EXIT_MS = 20,      /* from the first sign of a process's end to its status, which is known before its memory goes */
    EVENT_SIGNAL = -1,
    EVENT_CHANGE = -2,
    SIGNAL_BITS = 0x7f, /* of a wait status */
    CORE_BIT = 0x80
};

struct watched {
    char name[160]; /* of the dump or its stub, in the directory */
    char hex[HEX_DIGITS + 1];
    int process; /* pidfd, -1 none so far, -2 ended or given up */
    pid_t pid;
    unsigned tries;
    struct ending ending;
};

/* ---- dumps ----------------------------------------------------------------------------------- */

static bool add_event(struct witness *witness, int descriptor, int64_t what) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = (uint64_t)what}};
    return epoll_ctl(witness->events, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

/* A dump, or the staged one that a stub names. */
static int open_dump(int directory, const char *name) {
    struct stub stub;
    if (!stub_is_one(name))
        return regular_file_open(directory, name, O_NOFOLLOW);
    return stub_read(directory, name, &stub) ? -1 : regular_file_open(AT_FDCWD, stub.path, O_NOFOLLOW);
}

static bool read_dump_header(const struct witness *witness, const struct watched *watched, struct dump_header *header) {
    int file = open_dump(witness->directory, watched->name);
    if (file < 0)
        return false;
    ssize_t got = pread(file, header, sizeof *header, 0);
    close(file);
    header->boot_id[sizeof header->boot_id - 1] = '\0';
    return got == sizeof *header && memcmp(header->magic, FORMAT_MAGIC, sizeof header->magic) == 0 &&
           header->byte_order == FORMAT_BYTE_ORDER && header->pid > 0 && header->pid <= INT32_MAX;
}

static void attach(struct witness *witness, size_t at) {
    struct watched *watched = &witness->items[at];
    struct dump_header header;
    int64_t here;
    if (!read_dump_header(witness, watched, &header) || header.process_start_realtime_ns == 0) {
        if (++watched->tries < TRIES)
            return;
    } else if ((here = process_here_of(&header)) > 0) {
        watched->pid = (pid_t)here;
        watched->process = (int)syscall(SYS_pidfd_open, watched->pid, 0);
        if (watched->process >= 0 && add_event(witness, watched->process, (int64_t)at)) {
            witness->waiting--;
            return;
        }
        if (watched->process >= 0)
            close(watched->process);
    }
    watched->process = -2;
    witness->waiting--;
}

/* "commtap.<run id>.<16 hex>.ct" or ".stub" of our run. */
static bool is_ours(const struct witness *witness, const char *name, char *hex) {
    size_t prefix = strlen(FORMAT_FILE_PREFIX), id = strlen(witness->run_id);
    if (strncmp(name, FORMAT_FILE_PREFIX, prefix) != 0 || strncmp(name + prefix, witness->run_id, id) != 0 ||
        name[prefix + id] != '.' || strlen(name) < prefix + id + 1 + HEX_DIGITS)
        return false;
    memcpy(hex, name + prefix + id + 1, HEX_DIGITS);
    hex[HEX_DIGITS] = '\0';
    const char *suffix = name + prefix + id + 1 + HEX_DIGITS;
    return strspn(hex, "0123456789abcdef") == HEX_DIGITS &&
           (strcmp(suffix, FORMAT_FILE_SUFFIX) == 0 || strcmp(suffix, FORMAT_STUB_SUFFIX) == 0);
}

/* ---- deaths ---------------------------------------------------------------------------------- */

static int without_core(int status) {
    return status & ~CORE_BIT;
}

/* What is to be seen of a process that may have been reaped by now, and its pid taken by another. */
static struct process_look look_at_process(const struct watched *watched) {
    struct process_look seen = {0};
    if (!process_was_reaped(watched->process, &seen.status) && process_look(watched->pid, &seen)) {
        seen.status = without_core(seen.status);
        return seen;
    }
    process_was_reaped(watched->process, &seen.status);
    return (struct process_look){.ending = true, .status = without_core(seen.status)};
}

static enum end ending_of(const struct witness *witness, const struct watched *watched) {
    struct dump_header header;
    if (!read_dump_header(witness, watched, &header) || header.state & (STATE_FINALISED | STATE_SWITCHED_OFF))
        return END_NONE;
    return header.state & (STATE_EXITED | STATE_ABORTING) ? END_SAID : END_BAD;
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

/* `first`: who died before all others, NULL where that is not known; `sure`: of itself. */
static void write_note(const struct witness *witness, const struct watched *first, bool sure) {
    char name[160], text[512] = "", boot_id[64];
    int status = first ? first->ending.status : 0;
    if (first)
        append(text, sizeof text, "%s=%s pid=%d realtime_ns=%" PRIu64, sure ? "died" : "first", first->hex,
               (int)first->pid, witness->ended_realtime_ns);
    if (status & SIGNAL_BITS)
        append(text, sizeof text, " signal=%d", status & SIGNAL_BITS);
    else if (status)
        append(text, sizeof text, " status=%d", status >> 8 & 0xff);
    append(text, sizeof text, "%sended realtime_ns=%" PRIu64 " monotonic_ns=%" PRIu64, first ? "\n" : "",
           witness->ended_realtime_ns, witness->ended_monotonic_ns);
    if (process_boot_id(boot_id, sizeof boot_id))
        append(text, sizeof text, " boot_id=%s", boot_id);
    append(text, sizeof text, "\n");
    snprintf(name, sizeof name, FORMAT_FILE_PREFIX "%.120s" FORMAT_DEATHS_SUFFIX, witness->run_id);
    struct stat note;
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int file = openat(witness->directory, name, flags, 0600);
    if (file >= 0)
        output_give_mode(file, witness->mode);
    if (file >= 0 && fstat(file, &note) == 0 && S_ISREG(note.st_mode) &&
        write(file, text, strlen(text)) == (ssize_t)strlen(text))
        fsync(file);
    if (file >= 0)
        close(file);
}

/* Whether the other one's end may be the cause of this one's, or both have the same: launchers end ranks by SIGKILL. */
static bool may_end_alike(int status, const struct process_look *other) {
    return other->ending && (status == 0 || status == SIGKILL || status == other->status);
}

/* Whether no other process is ending, or has ended, of what may be the same cause. */
static bool dies_alone(const struct witness *witness, size_t at, int status) {
    for (size_t i = witness->launch; i < witness->count; i++) {
        const struct watched *other = &witness->items[i];
        if (i == at || other->pid == 0 || other->pid == witness->items[at].pid)
            continue;
        struct process_look seen = {.ending = other->ending.end != END_NONE, .status = other->ending.status};
        if (other->process >= 0)
            seen = look_at_process(other);
        if (may_end_alike(status, &seen))
            return false;
    }
    return true;
}

static bool all_have_ended(const struct witness *witness) {
    for (size_t i = witness->launch; i < witness->count; i++)
        if (witness->items[i].process >= 0)
            return false;
    return true;
}

/* Then it is no launcher. */
static bool writes_a_dump(const struct witness *witness, pid_t command) {
    for (size_t i = 0; i < witness->count; i++)
        if (witness->items[i].pid == command)
            return true;
    return false;
}

/* Whether the command, a child of this process, has ended of itself. False while it has not ended for good. */
static bool has_left_properly(pid_t command) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)command, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == command &&
           info.si_code == CLD_EXITED;
}

/* The launcher is ending though no process has made it: it was killed, and takes its processes with it. On a busy host
 * a script that ends properly after its processes is seen to do so together with them. */
static bool launcher_is_killed(const struct witness *witness) {
    const struct timespec moment = {.tv_nsec = 1000000};
    struct process_look launcher;
    if (writes_a_dump(witness, witness->command) || !process_look(witness->command, &launcher) || !launcher.ending)
        return false;
    for (int i = 0; i < EXIT_MS && launcher.status == 0 && launcher.letter != 'Z'; i++) {
        nanosleep(&moment, NULL);
        if (!process_look(witness->command, &launcher))
            return false;
    }
    return !has_left_properly(witness->command) && (launcher.status == 0 || launcher.status & SIGNAL_BITS);
}

/* A process on its way out closes its dump when it closes its connections to the launcher, which then ends the others:
 * this is the moment to look at these. */
static void take_close(struct witness *witness, const char *name) {
    for (size_t i = 0; i < witness->count; i++) {
        struct watched *watched = &witness->items[i];
        if (watched->process < 0 || watched->ending.order > 0 || strcmp(watched->name, name) != 0)
            continue;
        struct process_look seen = look_at_process(watched);
        if (!seen.ending)
            continue;
        watched->ending.order = ++witness->ends;
        watched->ending.alone = dies_alone(witness, i, seen.status);
    }
}

/* What is said of who died first is final: later deaths are consequences. */
static void settle_endings(struct witness *witness) {
    bool sure = false;
    size_t count = witness->count - witness->launch;
    const struct watched *launched = witness->items + witness->launch;
    struct ending *endings = calloc(count + 1, sizeof *endings);
    for (size_t i = 0; endings && i < count; i++)
        endings[i] = launched[i].ending;
    size_t first = endings && !witness->asked ? first_death(endings, count, &sure) : count;
    write_note(witness, first < count ? &launched[first] : NULL, sure);
    free(endings);
    witness->over = true;
}

static void note_time(struct witness *witness) {
    witness->ended_realtime_ns = clock_ns(CLOCK_REALTIME);
    witness->ended_monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    witness->settle_ms = (int64_t)(witness->ended_monotonic_ns / 1000000) + SETTLE_MS;
}

/* Notes how it ended. Where it was seen to be alone in that, it is the first; else those that follow tell more. */
static void take_death(struct witness *witness, size_t at) {
    struct watched *dead = &witness->items[at];
    struct process_look seen = look_at_process(dead);
    dead->ending.pid = dead->pid;
    dead->ending.status = seen.status;
    dead->ending.order = dead->ending.order ? dead->ending.order : ++witness->ends;
    dead->ending.end = ending_of(witness, dead);
    dead->ending.alone |= dies_alone(witness, at, seen.status);
    close(dead->process);
    dead->process = -2;
    if (witness->over || dead->ending.end == END_NONE)
        return;
    if (witness->settle_ms == 0)
        note_time(witness);
    witness->asked = witness->asked || launcher_is_killed(witness);
    bool final = dead->ending.alone && !ending_is_requested(seen.status); /* else the others' ends tell more */
    if (witness->asked || final || all_have_ended(witness))
        settle_endings(witness);
}

/* ---- launches -------------------------------------------------------------------------------- */

/* The kernel tells of new dumps and of ends in one look, without their order, and a busy host looks late. */
static void take_deaths_until_now(struct witness *witness) {
    for (size_t i = witness->launch; i < witness->count; i++) {
        struct pollfd ended = {.fd = witness->items[i].process, .events = POLLIN};
        if (ended.fd >= 0 && poll(&ended, 1, 0) > 0)
            take_death(witness, i);
    }
}

/* Dumps that come when all before them have ended are those of another launch, or of a restart: what ends from now on
 * has causes of its own. */
static void begin_launch_after(struct witness *witness) {
    take_deaths_until_now(witness);
    for (size_t i = witness->launch; i < witness->count; i++)
        if (witness->items[i].process != -2)
            return;
    witness->launch = witness->count;
    witness->settle_ms = 0;
    witness->ends = 0;
    witness->over = false;
    witness->asked = witness->told;
}

static void watch_name(struct witness *witness, const char *name) {
    struct watched watched = {.process = -1};
    if (strlen(name) >= sizeof watched.name || !is_ours(witness, name, watched.hex))
        return;
    for (size_t i = 0; i < witness->count; i++)
        if (strcmp(witness->items[i].hex, watched.hex) == 0)
            return; /* a staged dump that has been collected */
    if (!grow_list(witness->items, witness->count))
        return;
    begin_launch_after(witness);
    strcpy(watched.name, name);
    witness->items[witness->count++] = watched;
    witness->waiting++;
    attach(witness, witness->count - 1);
}

static void take_changes(struct witness *witness) {
    _Alignas(struct inotify_event) char buffer[4096];
    ssize_t length;
    while ((length = read(witness->changes, buffer, sizeof buffer)) > 0)
        for (ssize_t at = 0; at < length;) {
            const struct inotify_event *event = (const struct inotify_event *)(buffer + at);
            if (event->len > 0 && event->mask & IN_CLOSE_WRITE)
                take_close(witness, event->name);
            else if (event->len > 0)
                watch_name(witness, event->name);
            at += (ssize_t)(sizeof *event + event->len);
        }
}

/* ---- following ------------------------------------------------------------------------------- */

void witness_open(struct witness *witness, const char *directory, const char *run_id, mode_t mode) {
    *witness = (struct witness){.events = -1, .directory = -1, .changes = -1, .run_id = run_id, .mode = mode};
    if (!directory || !run_id)
        return;
    witness->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    witness->events = epoll_create1(EPOLL_CLOEXEC);
    witness->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (witness->directory < 0 || witness->events < 0 || witness->changes < 0 ||
        inotify_add_watch(witness->changes, directory, IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE) < 0 ||
        !add_event(witness, witness->changes, EVENT_CHANGE))
        witness_close(witness);
}

void witness_close(struct witness *witness) {
    for (size_t i = 0; i < witness->count; i++)
        if (witness->items[i].process >= 0)
            close(witness->items[i].process);
    free(witness->items);
    const int descriptors[] = {witness->events, witness->directory, witness->changes};
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    *witness = (struct witness){.events = -1, .directory = -1, .changes = -1};
}

static void attach_waiting(struct witness *witness) {
    for (size_t i = 0; i < witness->count && witness->waiting > 0; i++)
        if (witness->items[i].process == -1)
            attach(witness, i);
}

/* How long to wait for events: until deaths that have been seen are judged, or a dump's header may be filled. */
static int patience_ms(const struct witness *witness) {
    int patience = witness->waiting ? RETRY_MS : -1;
    if (witness->settle_ms == 0 || witness->over)
        return patience;
    int64_t left = witness->settle_ms - (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
    left = left > 0 ? left : 0;
    return patience < 0 || left < patience ? (int)left : patience;
}

/* Handles what there is, after waiting at most `patience` ms for it. Sets *readable when the caller's descriptor can be
 * read. Returns the number of events; negative on errors. */
static int take_events(struct witness *witness, int patience, bool *readable) {
    struct epoll_event ready[16];
    int count = epoll_wait(witness->events, ready, sizeof ready / sizeof *ready, patience);
    if (count > 0)
        take_changes(witness); /* a process closes its dump before it has ended */
    for (int i = 0; i < count; i++) {
        int64_t what = (int64_t)ready[i].data.u64;
        *readable |= what == EVENT_SIGNAL;
        if (what >= 0 && (size_t)what < witness->count && witness->items[what].process >= 0)
            take_death(witness, (size_t)what);
    }
    if (count == 0)
        attach_waiting(witness);
    if (!witness->over && witness->settle_ms > 0 && patience_ms(witness) == 0)
        settle_endings(witness);
    return count < 0 && errno == EINTR ? 0 : count;
}

void witness_until(struct witness *witness, int descriptor, pid_t command) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = (uint64_t)(int64_t)EVENT_SIGNAL}};
    bool readable = false;
    witness->command = command;
    if (witness->events < 0) {
        struct pollfd only = {.fd = descriptor, .events = POLLIN};
        poll(&only, 1, -1);
        return;
    }
    bool sound = epoll_ctl(witness->events, EPOLL_CTL_ADD, descriptor, &event) == 0;
    while (sound && !readable)
        sound = take_events(witness, patience_ms(witness), &readable) >= 0;
    epoll_ctl(witness->events, EPOLL_CTL_DEL, descriptor, NULL);
}

/* What has happened until now. */
static void take_all(struct witness *witness) {
    bool readable = false;
    while (witness->events >= 0 && !witness->over && take_events(witness, 0, &readable) > 0)
        ;
}

void witness_told_to_end(struct witness *witness) {
    take_all(witness);
    if (!witness->over && witness->settle_ms > 0)
        settle_endings(witness);
    witness->asked = witness->told = true;
}

/* A launcher that is told to end twice, as timeout(1) and batch systems do that signal whole groups, leaves before its
 * processes have ended: when the job did is known once the first of them does. */
static void await_orphans(struct witness *witness) {
    bool readable = false;
    int64_t now = (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000), until = now + ORPHANS_MS;
    while (witness->events >= 0 && witness->asked && !witness->over && witness->settle_ms == 0 && now < until &&
           !all_have_ended(witness) && take_events(witness, (int)(until - now), &readable) >= 0)
        now = (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
}

void witness_finish(struct witness *witness, int status) {
    bool readable = false;
    witness->asked |= WIFSIGNALED(status) && !writes_a_dump(witness, witness->command);
    take_all(witness);
    await_orphans(witness);
    while (!witness->over && witness->settle_ms > 0 && take_events(witness, patience_ms(witness), &readable) >= 0)
        ;
}
