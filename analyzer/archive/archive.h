/* SPDX-License-Identifier: Apache-2.0
 *
 * archive/: many files with holes in one, each compressed by itself, so that one is read without the others.
 * Lives here: the layout of such a file, finding and reading a member. Must not live here: what the members are
 * (load/), which files are packed (pack/), writing (archive_write.h).
 *
 *     member ... member index
 *     member: a skippable frame of Zstandard with struct archive_head and its extents, then a frame of Zstandard that
 *             holds the bytes of the extents one after the other, with a checksum; holes are in no extent. Block by
 *             block they are in the order that entry.rows says (rows.h)
 *     index:  a skippable frame with an entry per member, sorted by name, and struct archive_foot
 *
 * Numbers are little-endian, as in dumps. Archives of the first layout have the bytes of all members as they are; their
 * entries have 0 where `rows` is now.
 * Input is hostile: every number is checked against the file before it is used.
 */
#ifndef COMMTAP_ARCHIVE_ARCHIVE_H
#define COMMTAP_ARCHIVE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define ARCHIVE_SUFFIX       ".ctz"
#define ARCHIVE_MEMBER_MAGIC "ctmember"
#define ARCHIVE_INDEX_MAGIC  "ctpack02"
#define ARCHIVE_FIRST_MAGIC  "ctpack01"
enum {
    ARCHIVE_NAME_BYTES = 112,
    ARCHIVE_PATH_BYTES = 4096,
    ARCHIVE_REASON = 128,
    ARCHIVE_MEMBER_FRAME = 0x184D2A50, /* two of the numbers that Zstandard leaves to others' frames */
    ARCHIVE_INDEX_FRAME = 0x184D2A51,
};

struct archive_extent {
    uint64_t from, to;
};

struct archive_entry {
    char name[ARCHIVE_NAME_BYTES]; /* terminated */
    uint64_t at;                   /* of the member's head; 0 in the head itself */
    uint64_t size;                 /* of the file, holes included */
    uint64_t data_bytes;           /* of its extents */
    uint64_t stored_bytes;         /* of the compressed frame; 0 in a head whose member is not complete */
    int64_t mtime_ns;
    uint16_t mode;
    uint8_t rows; /* enum rows */
    uint8_t zero;
    uint32_t extent_count;
};
_Static_assert(sizeof(struct archive_entry) == 160, "layout of the index");

struct archive_frame {
    uint32_t magic, bytes; /* that follow */
};

struct archive_head {
    struct archive_frame frame;
    char magic[8];
    struct archive_entry entry;
};
_Static_assert(sizeof(struct archive_head) == 176, "layout of a member");

struct archive_foot {
    uint64_t index_at, count;
    uint32_t crc, zero; /* crc: of the entries */
    char magic[8];
};
_Static_assert(sizeof(struct archive_foot) == 32, "layout of the end");

struct archive {
    int file; /* -1: not open */
    struct stat status;
    uint64_t index_at, count;
    char reason[ARCHIVE_REASON]; /* what is wrong, after something failed */
};

/* Bytes from a member's head to its compressed frame. */
static inline uint64_t archive_head_bytes(const struct archive_entry *entry) {
    return sizeof(struct archive_head) + entry->extent_count * sizeof(struct archive_extent);
}

/* Opens the regular file at `path` (below `directory` where it is relative, as in openat; `flags`: 0 or O_NOFOLLOW) and
 * checks its end. False with archive->reason; archive_close in any case. */
bool archive_open(struct archive *archive, int directory, const char *path, int flags);
/* The same of one that is open for reading, from its beginning; archive_close closes it. */
bool archive_open_file(struct archive *archive, int file);
void archive_close(struct archive *archive);

/* Whether the index is what was written, and in order. */
bool archive_check_index(struct archive *archive);
/* Entry number `number`, checked. */
bool archive_entry_at(struct archive *archive, uint64_t number, struct archive_entry *entry);
/* The entry of that name. */
bool archive_find(struct archive *archive, const char *name, struct archive_entry *entry);

/* The member's extents, in order and within the file; the caller frees. NULL with archive->reason. */
struct archive_extent *archive_extents(struct archive *archive, const struct archive_entry *entry);
/* Decompresses the member to `base`, which has room for entry->size bytes and is zero where the holes are. */
bool archive_read(struct archive *archive, const struct archive_entry *entry, const struct archive_extent *extents,
                  uint8_t *base);
/* Decompresses no more than the beginning of the member, up to its first hole: `bytes` bytes at most. Returns how many
 * there are, 0 with archive->reason. No checksum has been compared. */
size_t archive_read_start(struct archive *archive, const struct archive_entry *entry, void *to, size_t bytes);

/* Whether the member can be unpacked and its extents hold what they hold in `base`; NULL: its checksum has to do. */
bool archive_verify(struct archive *archive, const struct archive_entry *entry, const uint8_t *base);

/* A member is called ARCHIVE:NAME, as in dir/commtap.7.ctz:commtap.7.0123456789abcdef.ct. Parts such a path; `archive`
 * has ARCHIVE_PATH_BYTES. Of the archive's own path *name is "". False: it is the path of another file. */
bool archive_path_part(const char *path, char *archive, const char **name);
/* Whether a file of that name is meant to be an archive. */
bool archive_is_one(const char *name);
/* Whether the file begins as one does, whole or not; also an empty one that is just being made. No link is followed. */
bool archive_begins(int directory, const char *name);

#endif
