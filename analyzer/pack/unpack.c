/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/pack/pack.h"

/* The file that is being written; nothing is called so otherwise. */
#define UNPACK_SUFFIX ".unpacked"

static bool write_extents(struct pack_item *item, int file, const struct mapping *mapping) {
    int error = ftruncate(file, (off_t)mapping->bytes) == 0 ? 0 : errno;
    for (size_t i = 0; error == 0 && i < mapping->data_count; i++)
        for (size_t at = mapping->data[i].from; error == 0 && at < mapping->data[i].to;) {
            ssize_t written = pwrite(file, mapping->base + at, mapping->data[i].to - at, (off_t)at);
            error = written > 0 ? 0 : written < 0 ? errno : ENOSPC;
            at += written > 0 ? (size_t)written : 0;
        }
    return error == 0 || pack_leave(item, "cannot be written", strerror(error));
}

/* As the original was, and on the disk. */
static bool finish(struct pack_item *item, int file, const struct archive_entry *entry) {
    const struct timespec time = {entry->mtime_ns / 1000000000, entry->mtime_ns % 1000000000};
    bool done = fchmod(file, (entry->mode & 0777) == 0640 ? 0640 : 0600) == 0 &&
                futimens(file, (const struct timespec[]){time, time}) == 0 && fsync(file) == 0;
    return done || pack_leave(item, "cannot be written", strerror(errno));
}

static bool write_loose(struct pack_item *item, int descriptor, const struct archive_entry *entry,
                        const struct mapping *mapping) {
    char part[ARCHIVE_NAME_BYTES + sizeof UNPACK_SUFFIX];
    snprintf(part, sizeof part, "%s" UNPACK_SUFFIX, item->name);
    unlinkat(descriptor, part, 0); /* what an interrupted call left */
    int file = openat(descriptor, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return pack_leave(item, "cannot be written", strerror(errno));
    bool done = write_extents(item, file, mapping) && finish(item, file, entry);
    close(file);
    if (done && linkat(descriptor, part, descriptor, item->name, 0) != 0)
        done = errno == EEXIST ? pack_leave(item, "another file of that name is there", NULL)
                               : pack_leave(item, "cannot be given its name", strerror(errno));
    unlinkat(descriptor, part, 0);
    return done;
}

/* Stretches in one file that may be zeros in the other one's holes, too. */
static bool holds_the_same(const struct mapping *of, const struct mapping *other) {
    for (size_t i = 0; i < of->data_count; i++)
        if (memcmp(of->base + of->data[i].from, other->base + of->data[i].from, of->data[i].to - of->data[i].from) != 0)
            return false;
    return true;
}

/* Its holes may lie elsewhere: it may have come from another file system. On the disk, for the archive may go. */
static bool is_unpacked(struct pack_item *item, const char *directory, int descriptor, const struct mapping *member) {
    struct mapping loose;
    bool is_file = fstatat(descriptor, item->name, &item->status, AT_SYMLINK_NOFOLLOW) == 0 &&
                   S_ISREG(item->status.st_mode) && pack_open_loose(item, directory, &loose);
    if (!is_file)
        return false;
    bool same = loose.bytes == member->bytes && holds_the_same(member, &loose) && holds_the_same(&loose, member);
    mapping_close(&loose);
    int file = same ? openat(descriptor, item->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    same = file >= 0 && fsync(file) == 0 && pack_is_same_file(descriptor, item->name, &item->status);
    if (file >= 0)
        close(file);
    return same;
}

static void unpack_one(struct pack_item *item, const char *directory, int descriptor,
                       const struct archive_entry *entry) {
    struct mapping mapping;
    char *path, reason[ARCHIVE_REASON] = "memory is short";
    if (asprintf(&path, "%s/%s:%s", directory, item->archive, item->name) < 0) {
        pack_leave(item, reason, NULL);
        return;
    }
    if (!mapping_open(&mapping, path, MAPPING_COPIED, reason, sizeof reason))
        pack_leave(item, reason, NULL);
    else if (faccessat(descriptor, item->name, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        item->state = write_loose(item, descriptor, entry, &mapping) ? PACK_DONE : PACK_LEFT;
    else if (is_unpacked(item, directory, descriptor, &mapping))
        item->state = PACK_WAS_DONE;
    else
        pack_leave(item, "another file of that name is there", NULL);
    item->data_bytes = entry->data_bytes;
    item->stored_bytes = entry->stored_bytes;
    mapping_close(&mapping);
    free(path);
}

/* The archive's members become items; what cannot be read of it is an item of its own. False: memory is short. */
static bool unpack_archive(struct packing *to, const char *directory, int descriptor, const char *name) {
    struct archive archive;
    struct archive_entry entry;
    bool sound = archive_open(&archive, descriptor, name, O_NOFOLLOW) && archive_check_index(&archive), room = true;
    for (uint64_t i = 0; room && sound && i < archive.count; i++) {
        sound = archive_entry_at(&archive, i, &entry);
        struct pack_item *item = sound ? pack_add_item(to, entry.name) : NULL;
        room = item || !sound;
        if (!item)
            break;
        snprintf(item->archive, sizeof item->archive, "%.*s", ARCHIVE_NAME_BYTES - 1, name);
        unpack_one(item, directory, descriptor, &entry);
    }
    if (!sound) {
        struct pack_item *item = pack_add_item(to, name);
        room = item != NULL;
        if (item)
            pack_leave(item, archive.reason, NULL);
    }
    archive_close(&archive);
    return room;
}

/* Nothing of an archive may be missing among the loose files when it goes. */
static void remove_archive(struct packing *packing, size_t first, int descriptor, const char *name) {
    for (size_t i = first; i < packing->count; i++)
        if (packing->items[i].state == PACK_LEFT)
            return;
    if (fsync(descriptor) != 0 || unlinkat(descriptor, name, 0) != 0)
        return;
    for (size_t i = first; i < packing->count; i++)
        packing->items[i].removed = true;
}

bool unpack_directory(struct packing *packing, const char *directory, int descriptor,
                      const struct pack_request *request) {
    struct packing archives = {0};
    *packing = (struct packing){0};
    bool done = pack_list(&archives, descriptor, ARCHIVE_SUFFIX);
    pack_sort(&archives);
    for (size_t i = 0; done && i < archives.count; i++) {
        size_t first = packing->count;
        done = unpack_archive(packing, directory, descriptor, archives.items[i].name);
        if (!done)
            errno = ENOMEM;
        else if (request->remove)
            remove_archive(packing, first, descriptor, archives.items[i].name);
    }
    packing_free(&archives);
    return done;
}
