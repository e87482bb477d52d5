/* SPDX-License-Identifier: Apache-2.0
 *
 * Collection: dumps staged on this host come into the output directory, their stubs go.
 * Lives here: reading stubs, copying and replacing.
 * Must not live here: what a dump holds (but for marking a copy as one), the wording of the summary line.
 */
#include "analyzer/run/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shim/format.h"

#define COPY_BLOCK          SECTION_ALIGN
#define HEX_DIGITS          16
#define NAME_BYTES          300
#define CLOCK_SLACK_SECONDS 60 /* file servers have clocks of their own */
#define GRACE_STEP_MS       50
#define GRACE_MS            5000 /* ranks may outlive their launcher for a moment, longer where the machine is full */

struct stub {
    char boot_id[41];
    char path[4096];
    long pid;
};

/* One `key=value` line of a stub; unknown keys are for other readers. */
static void take_line(struct stub *stub, char *line) {
    line[strcspn(line, "\n")] = 0;
    char *value = strchr(line, '=');
    if (!value)
        return;
    *value++ = 0;
    if (!strcmp(line, "boot_id"))
        snprintf(stub->boot_id, sizeof stub->boot_id, "%s", value);
    else if (!strcmp(line, "path"))
        snprintf(stub->path, sizeof stub->path, "%s", value);
    else if (!strcmp(line, "pid"))
        stub->pid = strtol(value, NULL, 10);
}

static bool read_stub(int directory, const char *name, struct stub *stub) {
    *stub = (struct stub){0};
    int descriptor = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    FILE *stream = descriptor < 0 ? NULL : fdopen(descriptor, "r");
    if (!stream) {
        if (descriptor >= 0)
            close(descriptor);
        return false;
    }
    char line[4200];
    while (fgets(line, sizeof line, stream))
        take_line(stub, line);
    fclose(stream);
    return stub->path[0] && stub->boot_id[0];
}

static bool is_this_boot(const char *boot_id) {
    char mine[41] = "";
    FILE *stream = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!stream)
        return false;
    bool read = fgets(mine, sizeof mine, stream);
    fclose(stream);
    mine[strcspn(mine, "\n")] = 0;
    return read && !strcmp(mine, boot_id);
}

/* Dead, though nobody has asked for its exit status yet. */
static bool is_zombie(long pid) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *stream = fopen(path, "r");
    if (!stream)
        return false;
    const char *end = fgets(line, sizeof line, stream) ? strrchr(line, ')') : NULL;
    fclose(stream);
    return end && (!strncmp(end, ") Z", 3) || !strncmp(end, ") X", 3));
}

static bool is_running(long pid) {
    return pid > 0 && (!kill((pid_t)pid, 0) || errno == EPERM) && !is_zombie(pid);
}

static bool all_zero(const char *block, size_t bytes) {
    return !block[0] && !memcmp(block, block + 1, bytes - 1);
}

/* Copies all of `from`, leaving holes where it holds zeros: most of a ring that was hardly used. */
static bool copy_bytes(int from, int to) {
    char block[COPY_BLOCK];
    off_t offset = 0;
    for (;;) {
        ssize_t got = pread(from, block, sizeof block, offset);
        if (got < 0)
            return false;
        if (got == 0)
            return !ftruncate(to, offset);
        if (!all_zero(block, (size_t)got) && pwrite(to, block, (size_t)got, offset) != got) {
            errno = errno ? errno : ENOSPC;
            return false;
        }
        offset += got;
    }
}

/* The copy says that it is one. Anything that does not look like a dump stays as it is. */
static bool mark_copy(int file) {
    struct dump_header header;
    if (pread(file, &header, sizeof header, 0) != sizeof header || memcmp(header.magic, FORMAT_MAGIC, 8) ||
        header.byte_order != FORMAT_BYTE_ORDER)
        return true;
    header.state |= STATE_COPIED;
    return pwrite(file, &header.state, sizeof header.state, offsetof(struct dump_header, state)) == sizeof header.state;
}

/* Copies the open staged file to `name`, which appears complete or not at all. */
static bool bring(int staged, int directory, const char *name) {
    char partial[NAME_BYTES + 32];
    snprintf(partial, sizeof partial, "%s.%ld.partial", name, (long)getpid());
    errno = 0;
    int copy = openat(directory, partial, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (copy < 0)
        return false;
    bool done = copy_bytes(staged, copy) && mark_copy(copy) && !fsync(copy);
    done = !close(copy) && done && !renameat(directory, partial, directory, name);
    if (!done) {
        int error = errno;
        unlinkat(directory, partial, 0);
        errno = error;
    }
    return done;
}

/* True when the staged path can be what our own stub points to: absolute, and named like the stub. */
static bool is_plausible(const char *path, const char *dump_name) {
    const char *slash = strrchr(path, '/');
    return path[0] == '/' && !strcmp(slash + 1, dump_name);
}

static void collect_one(int directory, const char *stub_name, const char *dump_name, const struct stub *stub,
                        struct run_collection *result, struct run_notes *notes) {
    struct stat status;
    int staged = -1;
    if (is_plausible(stub->path, dump_name))
        staged = open(stub->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    else
        errno = EINVAL;
    bool regular = staged >= 0 && !fstat(staged, &status) && S_ISREG(status.st_mode);
    if (regular && bring(staged, directory, dump_name)) {
        unlink(stub->path);
        unlinkat(directory, stub_name, 0);
        result->collected++;
    } else if (faccessat(directory, dump_name, F_OK, 0)) {
        run_note(notes, "%s: the staged dump %s was not collected: %s", stub_name, stub->path, strerror(errno));
    }
    if (staged >= 0)
        close(staged);
}

/* Is `name` a file of this run: "commtap.<run id>.<16 hex><suffix>"? */
static bool is_of_run(const char *name, const char *run_id, const char *suffix) {
    size_t prefix = strlen(FORMAT_FILE_PREFIX), tail = 1 + HEX_DIGITS + strlen(suffix), length = strlen(name);
    if (strncmp(name, FORMAT_FILE_PREFIX, prefix) || length <= prefix + tail ||
        strcmp(name + length - strlen(suffix), suffix))
        return false;
    return !run_id || (strlen(run_id) == length - prefix - tail && !strncmp(name + prefix, run_id, strlen(run_id)));
}

/* Counts by what can be done with them, and collects where `collect` is set. */
static void visit_stub(int directory, const char *name, bool collect, struct run_collection *result,
                       struct run_notes *notes) {
    struct stub stub;
    char dump_name[NAME_BYTES];
    if (!read_stub(directory, name, &stub))
        return;
    int stem = (int)(strlen(name) - strlen(FORMAT_STUB_SUFFIX));
    snprintf(dump_name, sizeof dump_name, "%.*s" FORMAT_FILE_SUFFIX, stem, name);
    if (!is_this_boot(stub.boot_id))
        result->other_hosts++;
    else if (is_running(stub.pid))
        result->still_running++;
    else if (collect)
        collect_one(directory, name, dump_name, &stub, result, notes);
}

/* One pass over the directory. Returns false when it cannot be read. */
static bool visit_stubs(const char *path, const char *run_id, bool collect, struct run_collection *result,
                        struct run_notes *notes) {
    DIR *directory = opendir(path);
    if (!directory)
        return false;
    *result = (struct run_collection){0};
    for (struct dirent *entry; (entry = readdir(directory));)
        if (is_of_run(entry->d_name, run_id, FORMAT_STUB_SUFFIX))
            visit_stub(dirfd(directory), entry->d_name, collect, result, notes);
    closedir(directory);
    return true;
}

static bool count_dumps(const char *path, const char *run_id, struct run_collection *result) {
    DIR *directory = opendir(path);
    if (!directory)
        return false;
    for (struct dirent *entry; (entry = readdir(directory));)
        result->dumps += is_of_run(entry->d_name, run_id, FORMAT_FILE_SUFFIX);
    closedir(directory);
    return true;
}

bool run_collect(const char *directory, const char *run_id, struct run_collection *result, struct run_notes *notes) {
    for (int waited = 0; waited < GRACE_MS; waited += GRACE_STEP_MS) {
        if (!visit_stubs(directory, run_id, false, result, notes))
            return false;
        if (!result->still_running)
            break;
        nanosleep(&(struct timespec){.tv_nsec = GRACE_STEP_MS * 1000000L}, NULL);
    }
    return visit_stubs(directory, run_id, true, result, notes) && count_dumps(directory, run_id, result);
}

char *run_recent_directory(time_t since) {
    DIR *here = opendir(".");
    char *recent = NULL;
    time_t newest = since - CLOCK_SLACK_SECONDS;
    for (struct dirent *entry; here && (entry = readdir(here));) {
        struct stat status;
        if (strncmp(entry->d_name, "commtap-", 8) || stat(entry->d_name, &status) || !S_ISDIR(status.st_mode) ||
            status.st_mtime < newest)
            continue;
        newest = status.st_mtime;
        free(recent);
        recent = strdup(entry->d_name);
    }
    if (here)
        closedir(here);
    return recent;
}
