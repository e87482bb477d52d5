/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that are packed or unpacked: what became of each, comparing one with what was packed.
 * Must not live here: which ones they are (pack.c, unpack.c).
 */
#ifndef COMMTAP_PACK_PACK_ITEMS_H
#define COMMTAP_PACK_PACK_ITEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "analyzer/archive/archive.h"
#include "analyzer/load/mapping.h"

enum { PACK_REASON = 2 * ARCHIVE_REASON + 32 };

enum pack_state {
    PACK_LEFT = 0, /* as it was: `reason` says why */
    PACK_DONE,     /* packed or unpacked, and compared */
    PACK_WAS_DONE, /* by an earlier call */
};

struct pack_item {
    char *name;                       /* of the loose file */
    char archive[ARCHIVE_NAME_BYTES]; /* its archive's name; empty: none can be found for it */
    struct stat status;               /* of the loose file */
    enum pack_state state;
    bool removed; /* the original */
    char reason[PACK_REASON];
    uint64_t data_bytes, stored_bytes;
};

struct packing {
    struct pack_item *items; /* sorted by archive and name */
    size_t count;
    size_t resumed; /* members that an interrupted call had left */
};

/* Notes why an item is left as it is; false. */
bool pack_leave(struct pack_item *item, const char *what, const char *why);

/* Names in the directory that end in `suffix` become items. False with errno. */
bool pack_list(struct packing *packing, int descriptor, const char *suffix);
struct pack_item *pack_add_item(struct packing *packing, const char *name);
void pack_sort(struct packing *packing);
void packing_free(struct packing *packing);

/* Opens the item's loose file, which has to be the one of item->status. */
bool pack_open_loose(struct pack_item *item, const char *directory, struct mapping *mapping);
/* Whether it is still the same and unchanged. */
bool pack_is_same_file(int descriptor, const char *name, const struct stat *then);

/* Whether the archive's member is that file, byte by byte. */
bool pack_compare(struct pack_item *item, struct archive *archive, const char *directory);

int64_t pack_mtime(const struct stat *status);

#endif
