/* SPDX-License-Identifier: Apache-2.0
 *
 * Collection: dumps staged on this host come into the output directory, their stubs go.
 * Lives here: which stubs are this run's, and when their processes have ended.
 * Must not live here: how a dump is collected (collect/), the wording of the summary line.
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

#include "analyzer/collect/collect.h"
#include "analyzer/dumps/directories.h"
#include "analyzer/dumps/process.h"
#include "shim/format.h"

#define HEX_DIGITS          16
#define CLOCK_SLACK_SECONDS 60 /* file servers have clocks of their own */
#define GRACE_STEP_MS       50
#define GRACE_MS            5000 /* ranks may outlive their launcher for a moment, longer where the machine is full */

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

static void collect_one(int directory, const char *stub_name, const struct stub *stub, struct run_collection *result,
                        struct run_notes *notes) {
    struct collect_item item = {.stub_name = (char *)stub_name, .stub = *stub};
    collect_here(directory, &item, false, true);
    collect_finish(directory, &item);
    result->collected += item.state == COLLECT_DONE;
    result->still_running += item.state == COLLECT_STILL_USED;
    result->left += item.state == COLLECT_NOT;
    if (item.state == COLLECT_NOT)
        run_note(notes, "%s: the staged dump %s was not collected: %s", stub_name, stub->path, item.reason);
    else if (item.not_removed[0])
        run_note(notes, "%s was collected but not removed: %s", stub->path, item.not_removed);
}

/* Is `name` a file of this run: "commtap.<run id>.<16 hex><suffix>"? */
static bool is_of_run(const char *name, const char *run_id, const char *suffix) {
    size_t prefix = strlen(FORMAT_FILE_PREFIX), tail = 1 + HEX_DIGITS + strlen(suffix), length = strlen(name);
    if (strncmp(name, FORMAT_FILE_PREFIX, prefix) != 0 || length <= prefix + tail ||
        strcmp(name + length - strlen(suffix), suffix) != 0)
        return false;
    return !run_id || (strlen(run_id) == length - prefix - tail && !strncmp(name + prefix, run_id, strlen(run_id)));
}

/* Counts by what can be done with them, and collects where `collect` is set. */
static void visit_stub(int directory, const char *name, const char *boot_id, bool collect,
                       struct run_collection *result, struct run_notes *notes) {
    struct stub stub;
    char text[200];
    const char *damage = stub_read(directory, name, &stub);
    const char *refusal = collect_refusal(&stub, damage, text, sizeof text);
    if (refusal && collect)
        run_note(notes, "%s was not collected: %s", name, refusal);
    result->left += refusal != NULL;
    if (refusal)
        return;
    if (strcmp(stub.boot_id, boot_id) != 0)
        result->other_hosts++;
    else if (is_running(stub.pid))
        result->still_running++;
    else if (collect)
        collect_one(directory, name, &stub, result, notes);
}

/* One pass over the directory. Returns false when it cannot be read. */
static bool visit_stubs(const char *path, const char *run_id, bool collect, struct run_collection *result,
                        struct run_notes *notes) {
    char boot_id[64] = "";
    DIR *directory = opendir(path);
    if (!directory)
        return false;
    process_boot_id(boot_id, sizeof boot_id);
    *result = (struct run_collection){0};
    for (struct dirent *entry; (entry = readdir(directory));)
        if (is_of_run(entry->d_name, run_id, FORMAT_STUB_SUFFIX))
            visit_stub(dirfd(directory), entry->d_name, boot_id, collect, result, notes);
    closedir(directory);
    return true;
}

static bool count_dumps(const char *path, const char *run_id, struct run_collection *result) {
    DIR *directory = opendir(path);
    if (!directory)
        return false;
    struct stat status;
    for (struct dirent *entry; (entry = readdir(directory));)
        result->dumps += is_of_run(entry->d_name, run_id, FORMAT_FILE_SUFFIX) &&
                         fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                         S_ISREG(status.st_mode);
    closedir(directory);
    return true;
}

static bool collect_from(const char *directory, const char *run_id, struct run_collection *result,
                         struct run_notes *notes) {
    *result = (struct run_collection){0};
    for (int waited = 0; waited < GRACE_MS; waited += GRACE_STEP_MS) {
        if (!visit_stubs(directory, run_id, false, result, notes))
            return false;
        if (!result->still_running)
            break;
        nanosleep(&(struct timespec){.tv_nsec = GRACE_STEP_MS * 1000000L}, NULL);
    }
    return visit_stubs(directory, run_id, true, result, notes) && count_dumps(directory, run_id, result);
}

/* The library takes the first of its staging places that has room. */
static void look_for_staged(const char *run_id, struct run_collection *result) {
    static const char *const staging[] = {FORMAT_STAGING_DIRECTORIES};
    for (size_t i = 0; run_id && i < sizeof staging / sizeof *staging && result->without_stub == 0; i++) {
        struct run_collection there = {0};
        if (count_dumps(staging[i], run_id, &there)) {
            result->without_stub = there.dumps;
            result->staging = staging[i];
        }
    }
}

bool run_collect(const char *directory, const char *run_id, struct run_collection *result, struct run_notes *notes) {
    struct names places = {0};
    *result = (struct run_collection){0};
    bool done = directories_find(directory, &places) == DIRECTORIES_FOUND;
    for (size_t i = 0; done && i < places.count; i++) {
        struct run_collection part;
        done = collect_from(places.items[i], run_id, &part, notes);
        result->dumps += part.dumps;
        result->collected += part.collected;
        result->other_hosts += part.other_hosts;
        result->still_running += part.still_running;
        result->left += part.left;
    }
    int error = errno;
    names_free(&places);
    if (done && result->dumps + result->other_hosts + result->still_running + result->left == 0)
        look_for_staged(run_id, result);
    errno = error;
    return done;
}

char *run_recent_directory(time_t since) {
    DIR *here = opendir(".");
    char *recent = NULL;
    time_t newest = since - CLOCK_SLACK_SECONDS;
    for (struct dirent *entry; here && (entry = readdir(here));) {
        struct stat status;
        if (strncmp(entry->d_name, "commtap-", 8) != 0 || stat(entry->d_name, &status) || !S_ISDIR(status.st_mode) ||
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
