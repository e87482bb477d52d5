/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/pack/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/archive/archive_write.h"
#include "analyzer/dumps/peek.h"

enum { HEX_DIGITS = 16 };

/* What one archive's packing needs. */
struct group {
    struct packing *packing;
    const struct pack_request *request;
    const char *directory;
    int descriptor;
    struct pack_item *items;
    size_t count;
};

/* ---- which ones -------------------------------------------------------------------------------- */

/* commtap.<run id>.<16 hex>.ct goes to commtap.<run id>.ctz. */
static bool name_archive(struct pack_item *item) {
    const char *name = item->name;
    size_t length = strlen(name), behind = 1 + HEX_DIGITS + strlen(FORMAT_FILE_SUFFIX);
    size_t run = length > behind ? length - behind : 0, prefix = strlen(FORMAT_FILE_PREFIX);
    if (length >= ARCHIVE_NAME_BYTES || run <= prefix || strncmp(name, FORMAT_FILE_PREFIX, prefix) != 0 ||
        name[run] != '.' || strspn(name + run + 1, "0123456789abcdef") != HEX_DIGITS)
        return pack_leave(item, "has a name that the library does not give", NULL);
    snprintf(item->archive, sizeof item->archive, "%.*s" ARCHIVE_SUFFIX, (int)run, name);
    return true;
}

/* A stub says that the dump beside it was copied while its process ran. */
static bool has_stub(int descriptor, const char *name) {
    char stub[ARCHIVE_NAME_BYTES + sizeof FORMAT_STUB_SUFFIX];
    snprintf(stub, sizeof stub, "%.*s" FORMAT_STUB_SUFFIX, (int)(strlen(name) - strlen(FORMAT_FILE_SUFFIX)), name);
    return faccessat(descriptor, stub, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool choose(struct pack_item *item, int descriptor, const struct pack_request *request) {
    struct peek peek;
    if (!name_archive(item))
        return false;
    const char *reason = peek_dump(descriptor, item->name, &peek);
    if (reason)
        return pack_leave(item, reason, NULL);
    item->status = peek.status;
    if (peek.status.st_uid != geteuid())
        return pack_leave(item, "belongs to another user, who has to pack it", NULL);
    if (has_stub(descriptor, item->name))
        return pack_leave(item, "is the copy of one that was still written to: commtap collect first", NULL);
    enum process_state process = peek_process(&peek);
    if (process == PROCESS_RUNS || process == PROCESS_STOPPED)
        return pack_leave(item, "its process still runs", NULL);
    if (process == PROCESS_ELSEWHERE && !request->ended)
        return pack_leave(item, "its process ran elsewhere and may still run: --ended says that it does not", NULL);
    item->state = PACK_DONE;
    return true;
}

/* ---- one archive ------------------------------------------------------------------------------- */

static void leave_all(struct group *group, const char *what, const char *why) {
    for (size_t i = 0; i < group->count; i++)
        if (group->items[i].state != PACK_LEFT)
            pack_leave(&group->items[i], what, why);
}

static bool is_that_file(const struct archive_entry *entry, const struct stat *status) {
    return entry->size == (uint64_t)status->st_size && entry->mtime_ns == pack_mtime(status);
}

/* Packed by an earlier call, or to be packed now. False: another file of that name is in the archive. */
static bool is_packed(struct pack_item *item, const struct archive_entry *entry) {
    if (!entry)
        return false;
    if (is_that_file(entry, &item->status))
        item->state = PACK_WAS_DONE;
    else
        pack_leave(item, "the archive holds another file of that name", NULL);
    return true;
}

/* False where there is nothing to add to the archive that there is. */
static bool look_at_earlier(struct group *group) {
    struct archive archive;
    struct archive_entry entry;
    size_t more = 0;
    bool sound =
        archive_open(&archive, group->descriptor, group->items[0].archive, O_NOFOLLOW) && archive_check_index(&archive);
    for (size_t i = 0; i < group->count; i++)
        if (group->items[i].state == PACK_DONE)
            more += !sound ||
                    !is_packed(&group->items[i], archive_find(&archive, group->items[i].name, &entry) ? &entry : NULL);
    archive_close(&archive);
    return more > 0;
}

static bool add_item(struct group *group, struct archive_writer *writer, struct pack_item *item) {
    struct archive_entry file = {.size = (uint64_t)item->status.st_size,
                                 .mtime_ns = pack_mtime(&item->status),
                                 .mode = (uint16_t)(item->status.st_mode & 0777)};
    struct mapping mapping;
    memcpy(file.name, item->name, strlen(item->name));
    if (!pack_open_loose(item, group->directory, &mapping))
        return true;
    struct archive_extent *extents = calloc(mapping.data_count + 1, sizeof *extents);
    for (size_t i = 0; extents && i < mapping.data_count; i++)
        extents[i] = (struct archive_extent){mapping.data[i].from, mapping.data[i].to};
    bool done = extents && archive_add(writer, &file, mapping.base, extents, mapping.data_count);
    if (!extents)
        snprintf(writer->reason, sizeof writer->reason, "memory is short");
    free(extents);
    mapping_close(&mapping);
    return done;
}

/* All that is in the unfinished archive, whether its original is here or not. */
static bool verify(struct group *group, struct archive_writer *writer) {
    struct archive archive;
    struct archive_entry entry;
    size_t next = 0;
    bool sound = archive_open(&archive, group->descriptor, writer->part, O_NOFOLLOW) && archive_check_index(&archive);
    for (uint64_t i = 0; sound && i < archive.count; i++) {
        sound = archive_entry_at(&archive, i, &entry);
        while (sound && next < group->count && strcmp(group->items[next].name, entry.name) < 0)
            next++;
        struct pack_item *item = next < group->count ? &group->items[next] : NULL;
        bool here = sound && item && strcmp(item->name, entry.name) == 0 && item->state != PACK_LEFT;
        sound =
            sound && (here ? pack_compare(item, &archive, group->directory) : archive_verify(&archive, &entry, NULL));
        if (!sound)
            snprintf(writer->reason, sizeof writer->reason, "%.*s", (int)sizeof writer->reason - 1,
                     here ? item->reason : archive.reason);
    }
    archive_close(&archive);
    return sound;
}

static mode_t mode_of(const struct archive_writer *writer) {
    mode_t mode = 0640;
    for (size_t i = 0; i < writer->count; i++)
        mode &= (writer->entries[i].mode & 0777) | 0600;
    return mode;
}

static bool write_archive(struct group *group, struct archive_writer *writer) {
    if (!archive_begin(writer, group->descriptor, group->items[0].archive))
        return false;
    group->packing->resumed += writer->resumed;
    for (size_t i = 0; i < group->count; i++) {
        struct pack_item *item = &group->items[i];
        if (item->state == PACK_DONE && !is_packed(item, archive_has(writer, item->name)) &&
            !add_item(group, writer, item))
            return false;
    }
    return archive_complete(writer) && verify(group, writer) && archive_place(writer, mode_of(writer));
}

/* ---- originals --------------------------------------------------------------------------------- */

static void remove_one(struct group *group, struct pack_item *item, struct archive *archive) {
    if (item->state == PACK_WAS_DONE && !pack_compare(item, archive, group->directory))
        return;
    if (!pack_is_same_file(group->descriptor, item->name, &item->status))
        pack_leave(item, "is packed, but changed since and stays", NULL);
    else if (unlinkat(group->descriptor, item->name, 0) != 0)
        pack_leave(item, "is packed, but cannot be removed", strerror(errno));
    else
        item->removed = true;
}

static void remove_originals(struct group *group) {
    struct archive archive;
    bool sound = archive_open(&archive, group->descriptor, group->items[0].archive, O_NOFOLLOW);
    if (!sound)
        leave_all(group, archive.reason, NULL);
    for (size_t i = 0; sound && i < group->count; i++)
        if (group->items[i].state != PACK_LEFT)
            remove_one(group, &group->items[i], &archive);
    archive_close(&archive);
}

static void pack_group(struct group *group) {
    struct archive_writer writer = {.file = -1};
    if (look_at_earlier(group) && !write_archive(group, &writer)) {
        archive_abandon(&writer);
        leave_all(group, writer.reason, NULL);
    }
    if (group->request->remove)
        remove_originals(group);
}

static bool is_told(const struct packing *packing, const char *name, const char *reason) {
    for (size_t i = 0; i < packing->count; i++)
        if (packing->items[i].state == PACK_LEFT && strcmp(packing->items[i].archive, name) == 0 &&
            strcmp(packing->items[i].reason, reason) == 0)
            return true;
    return false;
}

/* Archives that no command can read are items of their own, also where there is nothing to add to them. False: memory
 * is short, or the directory cannot be read. */
static bool tell_unusable(struct packing *packing, int descriptor) {
    struct packing archives = {0};
    bool done = pack_list(&archives, descriptor, ARCHIVE_SUFFIX);
    for (size_t i = 0; done && i < archives.count; i++) {
        struct archive archive;
        const char *name = archives.items[i].name;
        if (archive_is_one(name) &&
            !(archive_open(&archive, descriptor, name, O_NOFOLLOW) && archive_check_index(&archive)) &&
            !is_told(packing, name, archive.reason)) {
            struct pack_item *item = pack_add_item(packing, name);
            done = item != NULL;
            if (item)
                pack_leave(item, archive.reason, NULL);
        }
        if (archive_is_one(name))
            archive_close(&archive);
    }
    packing_free(&archives);
    return done;
}

bool pack_directory(struct packing *packing, const char *directory, int descriptor,
                    const struct pack_request *request) {
    *packing = (struct packing){0};
    if (!pack_list(packing, descriptor, FORMAT_FILE_SUFFIX))
        return false;
    for (size_t i = 0; i < packing->count; i++)
        choose(&packing->items[i], descriptor, request);
    pack_sort(packing);
    for (size_t first = 0, end; first < packing->count; first = end) {
        struct pack_item *items = packing->items + first;
        for (end = first + 1; end < packing->count && strcmp(packing->items[end].archive, items->archive) == 0;)
            end++;
        struct group group = {packing, request, directory, descriptor, items, end - first};
        if (items->archive[0])
            pack_group(&group);
    }
    return tell_unusable(packing, descriptor);
}
