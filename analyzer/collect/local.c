/* SPDX-License-Identifier: Apache-2.0
 *
 * Dumps that were staged on this very host: copied and compared by descriptors, so that no name is trusted twice.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/collect/collect.h"
#include "analyzer/collect/incoming.h"
#include "analyzer/base/regular_file.h"

enum { BLOCK = 1 << 16 };

/* Copies what the file held at the beginning: it may grow meanwhile. */
static const char *copy(int staged, struct incoming *incoming, uint64_t bytes) {
    char block[BLOCK];
    while (incoming->bytes < bytes) {
        size_t wanted = bytes - incoming->bytes < sizeof block ? (size_t)(bytes - incoming->bytes) : sizeof block;
        ssize_t got = pread(staged, block, wanted, (off_t)incoming->bytes);
        if (got < 0)
            return strerror(errno);
        if (got == 0)
            return "was cut short while it was copied";
        if (!incoming_add(incoming, block, (size_t)got))
            return strerror(errno);
    }
    return NULL;
}

/* Whether the copy is what the staged file holds now. */
static bool same_contents(int staged, int copy) {
    char theirs[BLOCK], ours[BLOCK];
    for (off_t offset = 0;;) {
        ssize_t got = pread(staged, theirs, sizeof theirs, offset);
        if (got < 0 || pread(copy, ours, sizeof ours, offset) != got || memcmp(theirs, ours, (size_t)got) != 0)
            return false;
        if (got == 0)
            return true;
        offset += got;
    }
}

static void collect_open(int directory, struct collect_item *item, int staged, uint64_t bytes, bool used) {
    struct incoming incoming;
    const char *reason = incoming_begin(&incoming, directory, &item->stub);
    if (!reason)
        reason = copy(staged, &incoming, bytes);
    if (!reason)
        reason = incoming_judge(&incoming);
    if (!reason && !used && !same_contents(staged, incoming.file))
        reason = "changed while it was copied";
    if (reason)
        collect_fail(item, "%s", reason);
    else
        collect_settle(directory, item, &incoming, !used);
    incoming_end(&incoming);
}

/* Removes the name of the open file, and no other's. One that is gone has been removed by another collector. */
static void remove_staged(struct collect_item *item, int staged) {
    struct stat file, named;
    bool there = lstat(item->stub.path, &named) == 0;
    if (there && (fstat(staged, &file) != 0 || file.st_dev != named.st_dev || file.st_ino != named.st_ino))
        snprintf(item->not_removed, sizeof item->not_removed, "it is another file by now");
    else if ((!there || unlink(item->stub.path) != 0) && errno != ENOENT)
        snprintf(item->not_removed, sizeof item->not_removed, "%s", strerror(errno));
    else
        item->is_gone = true;
}

void collect_here(int directory, struct collect_item *item, bool used, bool remove) {
    struct stat status;
    int staged = regular_file_open(AT_FDCWD, item->stub.path, O_NOFOLLOW);
    item->is_gone = staged < 0 && errno == ENOENT;
    if (staged < 0 || fstat(staged, &status) != 0)
        collect_fail(item, "%s",
                     errno == ENOENT  ? "is not there"
                     : errno == ELOOP ? "is a symbolic link"
                                      : regular_file_error(errno));
    else if (status.st_uid != geteuid())
        collect_fail(item, "belongs to user %u, not to you", (unsigned)status.st_uid);
    else
        collect_open(directory, item, staged, (uint64_t)status.st_size, used);
    if (remove && item->state == COLLECT_DONE)
        remove_staged(item, staged);
    if (staged >= 0)
        close(staged);
}
