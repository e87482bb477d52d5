/* SPDX-License-Identifier: Apache-2.0
 *
 * A file's bytes in memory, safe to read whatever happens to the file meanwhile.
 * Lives here: mapping a file, reading it into memory instead, unpacking it there from an archive, what becomes of bytes
 * that are cut off while they are read, and whether the file is still the one that was opened. Must not live here: what
 * the bytes mean.
 *
 * A mapped file shows every change at once: what was checked may be something else when it is read again. And reading
 * a page that was cut off is SIGBUS. A handler of this process puts zeros in the place of such pages, remembers it, and
 * leaves every other SIGBUS to whoever was there before. The dump format says that zeros are nothing, so that a walk
 * over them ends as one over a torn file does; the command then begins anew (changes.h).
 */
#ifndef COMMTAP_LOAD_MAPPING_H
#define COMMTAP_LOAD_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "analyzer/base/parcel.h"
#include "analyzer/base/shared_room.h"

/* A process may have so many mappings (vm.max_map_count); what is not known is taken for the kernel's default. */
size_t mapping_limit(void);

enum mapping_way {
    MAPPING_SHARED, /* the file itself: one of the process's mappings, no memory of its own */
    MAPPING_COPIED, /* its bytes as they are now, holes left out: memory of its own, no mapping */
    MAPPING_KEPT,   /* the same in a room that several processes share, where they stay */
};

/* A stretch of a file that may hold something. */
struct mapping_data {
    size_t from, to;
};

struct mapping {
    uint8_t *base; /* aligned to 64 KiB; NULL: not open */
    size_t bytes;
    enum mapping_way way;
    struct mapping_data *data; /* what the file's holes leave, in order; owned */
    size_t data_count;
    struct mapping_data *dropped; /* of a copied file, in order; owned */
    size_t dropped_count;
    bool sparse;              /* holes are more than half of it, and it is mapped */
    struct stat opened;       /* the file as it was then */
    struct guard *guard;      /* private */
    size_t reserved;          /* private: bytes taken of the common room for copies */
    struct shared_room *room; /* private: of one that is kept, and where it lies there */
    uint64_t offset;
};

/* Opens a regular file of at least one byte, or a member of an archive (archive.h), which is always copied. Returns
 * false with the reason. A file with holes that lies in memory
 * (tmpfs) is copied whatever `way` says: there, reading a hole by a mapping would fill it, or fault where memory is
 * full. */
bool mapping_open(struct mapping *mapping, const char *path, enum mapping_way way, char *reason, size_t reason_size);
/* Unpacks the only member of an archive that is open as `file`, which it closes, into `room`; NULL: into memory of its
 * own. It is nobody's file any more: nothing is ever read of it again, and it does not change. */
bool mapping_open_sent(struct mapping *mapping, int file, struct shared_room *room, char *reason, size_t reason_size);
/* Packs where a kept file lies in its room, or opens it in the same room of another process. */
void mapping_parcel(struct mapping *mapping, struct shared_room *room, struct parcel *parcel);
/* Takes a copied file's bytes anew, as a mapping would show them, but for what was dropped. */
void mapping_reread(struct mapping *mapping, const char *path);
/* The same of `count` parts of it alone. */
void mapping_reread_parts(struct mapping *mapping, const char *path, const struct mapping_data *parts, size_t count);
/* Gives back the memory of a part of a copied file that begins at a page and is not read again: it reads as zeros from
 * now on. */
void mapping_drop(struct mapping *mapping, size_t offset, size_t bytes);
/* Whether the file takes more room on the disk than when it was opened. */
bool mapping_has_grown(const struct mapping *mapping, const char *path);
void mapping_close(struct mapping *mapping);

/* How many bytes from `offset` on, of `bytes`, are before the last hole: what follows in them is zero. */
size_t mapping_data_bytes(const struct mapping *mapping, size_t offset, size_t bytes);

enum mapping_change { MAPPING_UNCHANGED, MAPPING_OVERWRITTEN, MAPPING_TRUNCATED };

/* What happened to the file since it was opened. A file that was removed or replaced under its name is out of reach: it
 * counts as unchanged. */
enum mapping_change mapping_change(const struct mapping *mapping, const char *path);

#endif
