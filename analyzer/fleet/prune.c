/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fleet/prune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/side_by_side.h"
#include "analyzer/base/text.h"
#include "analyzer/dumps/peek.h"
#include "analyzer/fleet/below.h"
#include "analyzer/fleet/own_files.h"

/* ---- which ones -------------------------------------------------------------------------------- */

bool prune_may(const struct fleet_job *job, const struct prune_rules *rules) {
    return job->state == FLEET_ENDED || job->state == FLEET_KILLED || (job->state == FLEET_UNKNOWN && rules->ended);
}

/* How long it ran its dumps tell or, where these do not, its files: those of a packed one only when it was packed. */
static bool was_short(const struct fleet_job *job, int64_t shorter_ns) {
    int64_t ended_ns = job->exited_ns != INT64_MIN ? job->exited_ns : job->ended_ns;
    return job->state == FLEET_ENDED && !job->unfinished && job->launches > 0 && !job->untold &&
           ended_ns - job->started_ns < shorter_ns;
}

void prune_choose(const struct fleet *fleet, const struct prune_rules *rules, struct pruned *pruned) {
    uint64_t left = 0;
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_job *job = &fleet->jobs[i];
        bool old = rules->older_ns != INT64_MAX && rules->now_ns - job->ended_ns > rules->older_ns;
        pruned[i] = (struct pruned){.reason = PRUNE_NOT};
        if (prune_may(job, rules))
            pruned[i].reason = old ? PRUNE_OLD : was_short(job, rules->shorter_ns) ? PRUNE_SHORT : PRUNE_NOT;
        left += pruned[i].reason == PRUNE_NOT ? job->bytes : 0;
    }
    for (size_t i = 0; i < fleet->count && left > rules->most_bytes; i++)
        if (pruned[i].reason == PRUNE_NOT && prune_may(&fleet->jobs[i], rules)) {
            pruned[i].reason = PRUNE_ROOM;
            left -= fleet->jobs[i].bytes;
        }
}

/* ---- removing ---------------------------------------------------------------------------------- */

/* What unlink would say, as far as that can be told without trying. 0: nothing. */
static int refusal(int directory, const struct stat *file) {
    struct stat above;
    uid_t user = geteuid();
    if (faccessat(directory, ".", W_OK | X_OK, AT_EACCESS) != 0 || fstat(directory, &above) != 0)
        return errno;
    bool others = user != 0 && file->st_uid != user && above.st_uid != user;
    return others && above.st_mode & S_ISVTX ? EPERM : 0;
}

static bool is_written(const struct peek *peek) {
    enum process_state process = peek_process(peek);
    return process == PROCESS_RUNS || process == PROCESS_STOPPED;
}

/* A process may have begun to write since the job was chosen, or a link may have come in a file's place. */
static int remove_file(int directory, const char *name, bool dry) {
    struct stat status;
    struct peek peek;
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : errno;
    if (!S_ISREG(status.st_mode))
        return ENOTSUP;
    if (text_ends_in(name, FORMAT_FILE_SUFFIX)) {
        if (peek_dump(directory, name, &peek) != NULL)
            return ENOTSUP;
        if (is_written(&peek))
            return EBUSY;
    }
    if (text_ends_in(name, FORMAT_STUB_SUFFIX) && peek_staged(directory, name, &peek) && is_written(&peek))
        return EBUSY;
    if (!own_file_begins(directory, name))
        return ENOTSUP;
    if (dry)
        return refusal(directory, &status);
    return unlinkat(directory, name, 0) == 0 ? 0 : errno;
}

/* Those above it as well, up to the one that was named, which stays. */
static void remove_empty(int descriptor, const char *path) {
    char *rest = strdup(path);
    while (rest && *rest) {
        char *slash = strrchr(rest, '/');
        const char *name = slash ? slash + 1 : rest;
        if (slash)
            *slash = '\0';
        int above = below_open(descriptor, slash ? rest : "");
        bool removed = above >= 0 && unlinkat(above, name, AT_REMOVEDIR) == 0;
        if (above >= 0)
            close(above);
        if (!slash || !removed)
            break;
    }
    free(rest);
}

static void remove_job(int descriptor, const struct fleet_job *job, struct pruned *pruned, bool dry) {
    struct stat status;
    int directory = below_open(descriptor, job->path);
    if (directory < 0 || fstat(directory, &status) != 0)
        pruned->error = errno;
    else if (status.st_dev != job->device || status.st_ino != job->inode)
        pruned->error = ESTALE;
    for (size_t i = 0; pruned->error == 0 && i < job->file_count; i++) {
        pruned->error = remove_file(directory, job->files[i].name, dry);
        pruned->files += pruned->error == 0;
        pruned->bytes += pruned->error == 0 ? job->files[i].bytes : 0;
    }
    if (directory >= 0)
        close(directory);
    pruned->gone = pruned->error == 0;
    if (pruned->gone && !dry)
        remove_empty(descriptor, job->path);
}

struct removing {
    int descriptor;
    const struct fleet_job *jobs;
    struct pruned *pruned;
    bool dry;
};

static void remove_one(void *context, size_t number) {
    const struct removing *removing = context;
    if (removing->pruned[number].reason != PRUNE_NOT)
        remove_job(removing->descriptor, &removing->jobs[number], &removing->pruned[number], removing->dry);
}

void prune_remove(int descriptor, const struct fleet_job *jobs, struct pruned *pruned, size_t count, bool dry) {
    struct removing removing = {descriptor, jobs, pruned, dry};
    side_by_side(FLEET_THREADS, count, remove_one, &removing);
}
