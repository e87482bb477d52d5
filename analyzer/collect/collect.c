/* SPDX-License-Identifier: Apache-2.0
 *
 * The stubs of a directory, host by host.
 */
#include "analyzer/collect/collect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/side_by_side.h"
#include "analyzer/collect/incoming.h"
#include "shim/format.h"

/* One host's share of the work. */
struct host {
    struct collect_item **items;
    size_t count;
};

struct collect_work {
    const struct collection *collection;
    const struct collect_request *request;
    struct mapped mapped;
    struct host *hosts;
    size_t count;
};

/* ---- one dump -------------------------------------------------------------------------------- */

void collect_fail(struct collect_item *item, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(item->reason, sizeof item->reason, format, arguments);
    va_end(arguments);
    item->state = COLLECT_NOT;
}

const char *collect_refusal(const struct stub *stub, const char *damage, char *text, size_t size) {
    if (damage)
        snprintf(text, size, "damaged stub, left as it is: %s", damage);
    else if (stub->owner != geteuid())
        snprintf(text, size, "the stub belongs to user %u, who has to collect it", (unsigned)stub->owner);
    else
        return NULL;
    return text;
}

/* What the stub is called once its dump was fetched. */
static void note_name(const struct collect_item *item, char name[STUB_NAME_BYTES + sizeof FORMAT_STAGED_SUFFIX]) {
    int stem = (int)(strlen(item->stub.dump_name) - strlen(FORMAT_FILE_SUFFIX));
    sprintf(name, "%.*s" FORMAT_STAGED_SUFFIX, stem, item->stub.dump_name);
}

void collect_settle(int directory, struct collect_item *item, struct incoming *incoming, bool final) {
    const char *reason = NULL;
    enum incoming_result result = incoming_settle(incoming, final, &reason);
    if (result == INCOMING_FAILED) {
        collect_fail(item, "%s", reason);
        return;
    }
    char note[STUB_NAME_BYTES + sizeof FORMAT_STAGED_SUFFIX];
    note_name(item, note);
    item->state = final ? COLLECT_DONE : COLLECT_STILL_USED;
    if (final && !item->was_fetched && renameat(directory, item->stub_name, directory, note) != 0 && errno != ENOENT)
        collect_fail(item, "was copied, but its stub cannot be renamed: %s", strerror(errno));
}

/* What failed because somebody else has collected the dump meanwhile has not failed. */
static void look_again(int directory, struct collect_item *item) {
    struct stat status;
    if (item->state == COLLECT_DONE || fstatat(directory, item->stub_name, &status, AT_SYMLINK_NOFOLLOW) == 0 ||
        errno != ENOENT || !incoming_is_there(directory, &item->stub))
        return;
    item->state = COLLECT_DONE;
    item->reason[0] = '\0';
}

/* What an earlier collection fetched needs nothing more once nothing is left on its node. */
static void forget_what_is_gone(int directory, struct collect_item *item) {
    char note[STUB_NAME_BYTES + sizeof FORMAT_STAGED_SUFFIX];
    if (!item->is_gone || (item->state != COLLECT_DONE && !item->was_fetched))
        return;
    note_name(item, note);
    item->state = COLLECT_DONE;
    item->reason[0] = '\0';
    if (unlinkat(directory, note, 0) != 0 && errno != ENOENT)
        collect_fail(item, "is removed, but not what says where it was: %s", strerror(errno));
}

void collect_finish(int directory, struct collect_item *item) {
    look_again(directory, item);
    forget_what_is_gone(directory, item);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int compare_items(const void *a, const void *b) {
    const struct collect_item *left = a, *right = b;
    int order = strcmp(left->stub.host, right->stub.host);
    if (order == 0)
        order = strcmp(left->stub.boot_id, right->stub.boot_id);
    return order ? order : strcmp(left->stub_name, right->stub_name);
}

/* Another collector, or the job at its end, was quicker: there is nothing to fetch. */
static bool is_gone(int directory, const char *name) {
    return faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

static bool add_stub(struct collection *collection, const char *name) {
    if (!grow_list(collection->items, collection->count))
        return false;
    struct collect_item *item = &collection->items[collection->count];
    *item = (struct collect_item){.stub_name = strdup(name), .was_fetched = stub_is_of_a_fetched_dump(name)};
    if (!item->stub_name)
        return false;
    const char *damage = stub_read(collection->directory, name, &item->stub);
    if (damage && is_gone(collection->directory, name)) {
        free(item->stub_name);
        return true;
    }
    collection->count++;
    collect_refusal(&item->stub, damage, item->reason, sizeof item->reason);
    if (item->reason[0]) /* nothing that it says counts */
        item->stub = (struct stub){0};
    return true;
}

static bool list_stubs(struct collection *collection, bool fetched_ones) {
    int copy = openat(collection->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    if (!stream) {
        if (copy >= 0)
            close(copy);
        return false;
    }
    bool enough_memory = true;
    for (struct dirent *entry; enough_memory && (entry = readdir(stream));)
        if (stub_is_one(entry->d_name) || (fetched_ones && stub_is_of_a_fetched_dump(entry->d_name)))
            enough_memory = add_stub(collection, entry->d_name);
    closedir(stream);
    if (collection->count > 0)
        qsort(collection->items, collection->count, sizeof *collection->items, compare_items);
    return enough_memory;
}

static bool is_same_host(const struct collect_item *a, const struct collect_item *b) {
    return strcmp(a->stub.host, b->stub.host) == 0 && strcmp(a->stub.boot_id, b->stub.boot_id) == 0;
}

/* Items are in the order of their hosts; those that were refused have none. `slots` has room for all items. */
static void split_by_host(struct collection *collection, struct collect_work *work, struct collect_item **slots) {
    for (size_t i = 0; i < collection->count; i++) {
        if (collection->items[i].reason[0])
            continue;
        slots[i] = &collection->items[i];
        if (i == 0 || collection->items[i - 1].reason[0] || !is_same_host(slots[i - 1], slots[i]))
            work->hosts[work->count++] = (struct host){.items = &slots[i]};
        work->hosts[work->count - 1].count++;
    }
    collection->hosts = work->count;
}

static void collect_host(struct collect_work *work, const struct host *host) {
    int directory = work->collection->directory;
    bool here = strcmp(host->items[0]->stub.boot_id, work->request->boot_id) == 0;
    if (!here)
        collect_there(directory, host->items, host->count, work->request);
    for (size_t i = 0; here && i < host->count; i++)
        collect_here(directory, host->items[i], mapped_holds(&work->mapped, host->items[i]->stub.path),
                     work->request->remove);
    for (size_t i = 0; i < host->count; i++)
        collect_finish(directory, host->items[i]);
}

static void collect_one(void *context, size_t number) {
    struct collect_work *work = context;
    collect_host(work, &work->hosts[number]);
}

bool collect_all(struct collection *collection, int directory, const struct collect_request *request) {
    *collection = (struct collection){.directory = directory};
    if (!list_stubs(collection, request->remove))
        return false;
    struct collect_work work = {.collection = collection, .request = request};
    struct collect_item **slots = calloc(collection->count + 1, sizeof(struct collect_item *));
    work.hosts = calloc(collection->count + 1, sizeof *work.hosts);
    bool enough_memory = slots && work.hosts && mapped_list(&work.mapped);
    if (enough_memory) {
        split_by_host(collection, &work, slots);
        side_by_side(request->at_once, work.count, collect_one, &work);
    } else {
        errno = ENOMEM;
    }
    mapped_free(&work.mapped);
    free(work.hosts);
    free(slots);
    return enough_memory;
}

void collect_free(struct collection *collection) {
    for (size_t i = 0; i < collection->count; i++)
        free(collection->items[i].stub_name);
    free(collection->items);
    *collection = (struct collection){.directory = -1};
}
