/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/text.h"
#include "analyzer/pack/pack_items.h"

bool pack_leave(struct pack_item *item, const char *what, const char *why) {
    snprintf(item->reason, sizeof item->reason, "%s%s%s", what, why ? ": " : "", why ? why : "");
    item->state = PACK_LEFT;
    return false;
}

int64_t pack_mtime(const struct stat *status) {
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

/* ---- the list ---------------------------------------------------------------------------------- */

struct pack_item *pack_add_item(struct packing *packing, const char *name) {
    if (!grow_list(packing->items, packing->count))
        return NULL;
    struct pack_item *item = &packing->items[packing->count];
    *item = (struct pack_item){.name = strdup(name)};
    packing->count += item->name != NULL;
    return item->name ? item : NULL;
}

bool pack_list(struct packing *packing, int descriptor, const char *suffix) {
    int copy = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    bool done = stream != NULL;
    if (!stream && copy >= 0)
        close(copy);
    for (struct dirent *entry; done && (entry = readdir(stream));)
        if (text_ends_in(entry->d_name, suffix) && !pack_add_item(packing, entry->d_name)) {
            errno = ENOMEM;
            done = false;
        }
    if (stream)
        closedir(stream);
    return done;
}

static int compare_items(const void *a, const void *b) {
    const struct pack_item *left = a, *right = b;
    int order = strcmp(left->archive, right->archive);
    return order ? order : strcmp(left->name, right->name);
}

void pack_sort(struct packing *packing) {
    if (packing->count > 0)
        qsort(packing->items, packing->count, sizeof *packing->items, compare_items);
}

void packing_free(struct packing *packing) {
    for (size_t i = 0; i < packing->count; i++)
        free(packing->items[i].name);
    free(packing->items);
    *packing = (struct packing){0};
}

/* ---- loose files ------------------------------------------------------------------------------- */

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           pack_mtime(a) == pack_mtime(b);
}

bool pack_is_same_file(int descriptor, const char *name, const struct stat *then) {
    struct stat now;
    return fstatat(descriptor, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && is_same(&now, then);
}

bool pack_open_loose(struct pack_item *item, const char *directory, struct mapping *mapping) {
    char *path, reason[PACK_REASON - 32] = "memory is short";
    *mapping = (struct mapping){.base = NULL};
    if (asprintf(&path, "%s/%s", directory, item->name) < 0)
        return pack_leave(item, reason, NULL);
    bool done = mapping_open(mapping, path, MAPPING_SHARED, reason, sizeof reason);
    free(path);
    if (!done)
        return pack_leave(item, reason, NULL);
    if (is_same(&mapping->opened, &item->status) && mapping->bytes == (size_t)item->status.st_size)
        return true;
    mapping_close(mapping);
    return pack_leave(item, "changed meanwhile", NULL);
}

static bool has_same_extents(struct pack_item *item, struct archive *archive, const struct archive_entry *entry,
                             const struct mapping *mapping) {
    struct archive_extent *extents = archive_extents(archive, entry);
    bool same = extents && entry->extent_count == mapping->data_count && entry->size == mapping->bytes;
    for (size_t i = 0; same && i < mapping->data_count; i++)
        same = extents[i].from == mapping->data[i].from && extents[i].to == mapping->data[i].to;
    if (!same)
        pack_leave(item, "was packed, but is something else there", extents ? NULL : archive->reason);
    free(extents);
    return same;
}

/* Where a mapped file was cut off, zeros were read in its place. */
static bool is_unchanged(struct pack_item *item, const char *directory, const struct mapping *mapping) {
    char *path;
    if (asprintf(&path, "%s/%s", directory, item->name) < 0)
        return pack_leave(item, "memory is short", NULL);
    enum mapping_change change = mapping_change(mapping, path);
    free(path);
    return change == MAPPING_UNCHANGED || pack_leave(item, "changed meanwhile", NULL);
}

bool pack_compare(struct pack_item *item, struct archive *archive, const char *directory) {
    struct archive_entry entry;
    struct mapping mapping;
    if (!archive_find(archive, item->name, &entry))
        return pack_leave(item, "was packed, but cannot be found", archive->reason);
    if (!pack_open_loose(item, directory, &mapping))
        return false;
    bool done = has_same_extents(item, archive, &entry, &mapping);
    if (done && !archive_verify(archive, &entry, mapping.base))
        done = pack_leave(item, "was packed, but not as it is", archive->reason);
    done = done && is_unchanged(item, directory, &mapping);
    mapping_close(&mapping);
    item->data_bytes = entry.data_bytes;
    item->stored_bytes = entry.stored_bytes;
    return done;
}
