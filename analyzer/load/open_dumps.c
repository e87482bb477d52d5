/* SPDX-License-Identifier: Apache-2.0
 *
 * All dumps that are open, to look whether their files were changed meanwhile.
 * Lives here: the list, what counts as a change, files that are not to be opened again.
 * Must not live here: what a command does about it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/private.h"

struct refused {
    struct refused *next;
    char *path;
    char reason[PROBLEM_TEXT];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static struct loaded *first;
static pthread_mutex_t refusals_lock = PTHREAD_MUTEX_INITIALIZER; /* who is told of a change may refuse the file */
static struct refused *refusals;

void open_dumps_add(struct loaded *loaded) {
    pthread_mutex_lock(&lock);
    loaded->next = first;
    if (first)
        first->before = loaded;
    first = loaded;
    pthread_mutex_unlock(&lock);
}

void open_dumps_remove(struct loaded *loaded) {
    pthread_mutex_lock(&lock);
    if (first == loaded)
        first = loaded->next;
    if (loaded->before)
        loaded->before->next = loaded->next;
    if (loaded->next)
        loaded->next->before = loaded->before;
    pthread_mutex_unlock(&lock);
}

/* Who wrote it, where and when: nothing of that ever changes. */
static bool is_another(const struct loaded *loaded) {
    const struct dump_header *now = (const struct dump_header *)loaded->dump.base, *then = loaded->dump.header;
    return then && (memcmp(now->magic, then->magic, sizeof then->magic) != 0 || now->pid != then->pid ||
                    memcmp(now->run_id, then->run_id, sizeof then->run_id) != 0 ||
                    now->process_start_realtime_ns != then->process_start_realtime_ns);
}

/* A file whose process has ended, or that is a copy, is never written again; of others only that they shrink or become
 * another process's tells that something is wrong. */
static enum dump_change change_of(const struct loaded *loaded) {
    enum mapping_change change = mapping_change(&loaded->mapping, loaded->dump.path);
    bool ended = loaded->dump.header && loaded->dump.header->state & (STATE_EXITED | STATE_COPIED);
    if (change == MAPPING_TRUNCATED)
        return DUMP_TRUNCATED;
    if (change == MAPPING_OVERWRITTEN && (ended || !loaded->dump.header || is_another(loaded)))
        return DUMP_OVERWRITTEN;
    return DUMP_UNCHANGED;
}

size_t dump_changes(void (*tell)(void *context, const char *path, enum dump_change change), void *context) {
    size_t changed = 0;
    pthread_mutex_lock(&lock);
    for (const struct loaded *loaded = first; loaded; loaded = loaded->next) {
        enum dump_change change = change_of(loaded);
        changed += change != DUMP_UNCHANGED;
        if (change != DUMP_UNCHANGED)
            tell(context, loaded->dump.path, change);
    }
    pthread_mutex_unlock(&lock);
    return changed;
}

bool dump_refuse(const char *path, const char *reason) {
    struct refused *refused = calloc(1, sizeof *refused);
    if (!refused || !(refused->path = strdup(path))) {
        free(refused);
        return false;
    }
    snprintf(refused->reason, sizeof refused->reason, "%s", reason);
    pthread_mutex_lock(&refusals_lock);
    refused->next = refusals;
    refusals = refused;
    pthread_mutex_unlock(&refusals_lock);
    return true;
}

bool open_dumps_refuse(const char *path, char *reason, size_t size) {
    bool found = false;
    pthread_mutex_lock(&refusals_lock);
    for (const struct refused *refused = refusals; refused && !found; refused = refused->next)
        if (strcmp(refused->path, path) == 0) {
            snprintf(reason, size, "%s", refused->reason);
            found = true;
        }
    pthread_mutex_unlock(&refusals_lock);
    return found;
}
