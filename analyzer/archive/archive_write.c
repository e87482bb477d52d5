/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/archive/archive_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/archive/codec.h"
#include "analyzer/archive/rows.h"
#include "analyzer/base/grow.h"

/* What is tried: so many bytes from places all over a file, one block together. */
enum { COPY_PIECE = 1 << 16, TRIED_PLACES = 8, TRIED_BYTES = ROWS_BLOCK / TRIED_PLACES };

struct archive_blocks {
    uint8_t bytes[ROWS_BLOCK], ordered[ROWS_BLOCK];
};

static bool refuse(struct archive_writer *writer, const char *what, const char *why) {
    snprintf(writer->reason, sizeof writer->reason, "%s%s%.120s", what, why ? ": " : "", why ? why : "");
    return false;
}

static bool put(struct archive_writer *writer, const void *data, size_t bytes, uint64_t at) {
    ssize_t written = pwrite(writer->file, data, bytes, (off_t)at);
    return written == (ssize_t)bytes || refuse(writer, "cannot write", strerror(written < 0 ? errno : ENOSPC));
}

static bool note(struct archive_writer *writer, const struct archive_entry *entry, uint64_t at) {
    if (!grow_by_one(writer->entries, writer->count, writer->room))
        return refuse(writer, "memory is short", NULL);
    writer->entries[writer->count] = *entry;
    writer->entries[writer->count++].at = at;
    return true;
}

const struct archive_entry *archive_has(const struct archive_writer *writer, const char *name) {
    for (size_t i = 0; i < writer->count; i++)
        if (strcmp(writer->entries[i].name, name) == 0)
            return &writer->entries[i];
    return NULL;
}

/* ---- beginning --------------------------------------------------------------------------------- */

/* A file of ours alone under that name, locked. The one who had it until now may have given it its name meanwhile. */
static bool open_part(struct archive_writer *writer) {
    struct stat status, named;
    writer->file = openat(writer->directory, writer->part,
                          O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (writer->file < 0)
        return refuse(writer, "cannot make the packed file", strerror(errno));
    if (fstat(writer->file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        status.st_nlink > 1)
        return refuse(writer, "what has its unfinished name is no file of ours", NULL);
    if (flock(writer->file, LOCK_EX | LOCK_NB) != 0 ||
        fstatat(writer->directory, writer->part, &named, AT_SYMLINK_NOFOLLOW) != 0 || named.st_ino != status.st_ino ||
        named.st_dev != status.st_dev)
        return refuse(writer, "another commtap packs it now", NULL);
    return true;
}

/* A member is complete when its head says how long it is. */
static bool is_whole(const struct archive_head *head, uint64_t left) {
    return head->frame.magic == ARCHIVE_MEMBER_FRAME &&
           memcmp(head->magic, ARCHIVE_MEMBER_MAGIC, sizeof head->magic) == 0 && head->entry.stored_bytes > 0 &&
           memchr(head->entry.name, 0, ARCHIVE_NAME_BYTES) && head->entry.rows < ROWS_KINDS &&
           head->entry.stored_bytes <= left && archive_head_bytes(&head->entry) <= left - head->entry.stored_bytes;
}

/* What an earlier writer left, up to where it was stopped. */
static bool resume(struct archive_writer *writer) {
    struct archive_head head;
    struct stat status;
    if (fstat(writer->file, &status) != 0)
        return refuse(writer, "cannot read", strerror(errno));
    uint64_t end = (uint64_t)status.st_size;
    while (pread(writer->file, &head, sizeof head, (off_t)writer->at) == (ssize_t)sizeof head &&
           is_whole(&head, end - writer->at) && !archive_has(writer, head.entry.name)) {
        if (!note(writer, &head.entry, writer->at))
            return false;
        writer->at += archive_head_bytes(&head.entry) + head.entry.stored_bytes;
    }
    writer->resumed = writer->count;
    return ftruncate(writer->file, (off_t)writer->at) == 0 || refuse(writer, "cannot write", strerror(errno));
}

static bool copy_member(struct archive_writer *writer, const struct archive *from, const struct archive_entry *entry) {
    uint8_t piece[COPY_PIECE];
    uint64_t bytes = archive_head_bytes(entry) + entry->stored_bytes;
    for (uint64_t done = 0; done < bytes;) {
        size_t part = bytes - done < sizeof piece ? (size_t)(bytes - done) : sizeof piece;
        if (pread(from->file, piece, part, (off_t)(entry->at + done)) != (ssize_t)part)
            return refuse(writer, "cannot read what is packed already", strerror(errno ? errno : EIO));
        if (!put(writer, piece, part, writer->at + done))
            return false;
        done += part;
    }
    if (!note(writer, entry, writer->at))
        return false;
    writer->at += bytes;
    return true;
}

/* The archive that there is will be replaced by this one: nothing that it holds may be lost. */
static bool take_over(struct archive_writer *writer) {
    struct archive earlier;
    struct archive_entry entry;
    bool done = faccessat(writer->directory, writer->name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
    if (done)
        return true;
    done = archive_open(&earlier, writer->directory, writer->name, O_NOFOLLOW) && archive_check_index(&earlier);
    if (!done)
        refuse(writer, "what was packed already is left as it is", earlier.reason);
    for (uint64_t i = 0; done && i < earlier.count; i++) {
        done = archive_entry_at(&earlier, i, &entry) || refuse(writer, earlier.reason, NULL);
        if (done && !archive_has(writer, entry.name))
            done = copy_member(writer, &earlier, &entry);
    }
    archive_close(&earlier);
    return done;
}

static bool make_tools(struct archive_writer *writer) {
    writer->encoder = writer->encoder ? writer->encoder : encoder_new();
    writer->blocks = writer->blocks ? writer->blocks : malloc(sizeof *writer->blocks);
    return (writer->encoder && writer->blocks) ||
           refuse(writer, codec_lacks() ? codec_lacks() : "memory is short", NULL);
}

bool archive_begin_file(struct archive_writer *writer, int file) {
    writer->directory = -1;
    writer->file = file;
    writer->at = 0;
    writer->count = 0;
    return make_tools(writer);
}

bool archive_begin(struct archive_writer *writer, int directory, const char *name) {
    *writer = (struct archive_writer){.directory = directory, .file = -1};
    snprintf(writer->name, sizeof writer->name, "%s", name);
    snprintf(writer->part, sizeof writer->part, "%s" ARCHIVE_PART_SUFFIX, name);
    if (!open_part(writer)) {
        if (writer->file >= 0)
            close(writer->file);
        writer->file = -1; /* it is somebody else's: nothing to remove */
        return false;
    }
    return make_tools(writer) && resume(writer) && take_over(writer);
}

/* ---- members ----------------------------------------------------------------------------------- */

/* A file's extents, read as if they were one. */
struct contents {
    const uint8_t *base;
    const struct archive_extent *extents;
    size_t count, next;
    uint64_t from; /* within extents[next] */
};

/* The next `bytes` of them, or what is left, to `to`; NULL: they are passed over. Returns how many. */
static size_t take(struct contents *contents, uint8_t *to, uint64_t bytes) {
    uint64_t taken = 0;
    while (taken < bytes && contents->next < contents->count) {
        const struct archive_extent *extent = &contents->extents[contents->next];
        uint64_t part = extent->to - extent->from - contents->from;
        part = part < bytes - taken ? part : bytes - taken;
        if (to)
            memcpy(to + taken, contents->base + extent->from + contents->from, part);
        taken += part;
        contents->from += part;
        if (contents->from == extent->to - extent->from) {
            contents->next++;
            contents->from = 0;
        }
    }
    return (size_t)taken;
}

/* The order of which least is left in a sample. */
static enum rows rows_that_suit(struct archive_writer *writer, struct contents contents, uint64_t bytes) {
    struct archive_blocks *blocks = writer->blocks;
    uint64_t gap = bytes / TRIED_PLACES;
    size_t count = 0, least = SIZE_MAX;
    enum rows best = ROWS_PLAIN;
    gap = gap > TRIED_BYTES ? (gap - TRIED_BYTES) / ROWS_ALIGNED * ROWS_ALIGNED : 0;
    for (int i = 0; i < TRIED_PLACES; i++) {
        count += take(&contents, blocks->bytes + count, TRIED_BYTES);
        take(&contents, NULL, gap);
    }
    for (enum rows rows = ROWS_PLAIN; rows < ROWS_KINDS; rows++) {
        rows_order(rows, blocks->bytes, blocks->ordered, count);
        size_t left = encoder_try(writer->encoder, blocks->ordered, count);
        if (left < least)
            best = rows;
        least = left < least ? left : least;
    }
    return best;
}

static bool put_data(struct archive_writer *writer, uint64_t *at, enum rows rows, struct contents contents) {
    struct archive_blocks *blocks = writer->blocks;
    int error = 0;
    for (size_t bytes = 1; error == 0 && bytes > 0;) {
        bytes = take(&contents, blocks->bytes, ROWS_BLOCK);
        rows_order(rows, blocks->bytes, blocks->ordered, bytes);
        error = encoder_add(writer->encoder, writer->file, at, blocks->ordered, bytes, bytes == 0);
    }
    return error == 0 || refuse(writer, "cannot write", strerror(error));
}

bool archive_add(struct archive_writer *writer, const struct archive_entry *file, const uint8_t *base,
                 const struct archive_extent *extents, size_t count) {
    struct archive_head head = {.frame.magic = ARCHIVE_MEMBER_FRAME, .magic = ARCHIVE_MEMBER_MAGIC, .entry = *file};
    head.entry.extent_count = (uint32_t)count;
    head.entry.at = head.entry.stored_bytes = head.entry.data_bytes = 0;
    for (size_t i = 0; i < count; i++)
        head.entry.data_bytes += extents[i].to - extents[i].from;
    const struct contents contents = {.base = base, .extents = extents, .count = count};
    head.entry.rows = (uint8_t)rows_that_suit(writer, contents, head.entry.data_bytes);
    uint64_t from = writer->at + archive_head_bytes(&head.entry), at = from;
    head.frame.bytes = (uint32_t)(archive_head_bytes(&head.entry) - sizeof head.frame);
    if (!put(writer, &head, sizeof head, writer->at) ||
        !put(writer, extents, count * sizeof *extents, writer->at + sizeof head) ||
        !put_data(writer, &at, head.entry.rows, contents))
        return false;
    head.entry.stored_bytes = at - from;
    if (!put(writer, &head, sizeof head, writer->at) || !note(writer, &head.entry, writer->at))
        return false;
    writer->at = at;
    return true;
}

/* ---- the end ----------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct archive_entry *)a)->name, ((const struct archive_entry *)b)->name);
}

bool archive_complete(struct archive_writer *writer) {
    size_t bytes = writer->count * sizeof *writer->entries;
    struct archive_foot foot = {.index_at = writer->at, .count = writer->count, .magic = ARCHIVE_INDEX_MAGIC};
    const struct archive_frame frame = {ARCHIVE_INDEX_FRAME, (uint32_t)(bytes + sizeof foot)};
    if (writer->count > 0)
        qsort(writer->entries, writer->count, sizeof *writer->entries, compare_names);
    foot.crc = (uint32_t)crc32(crc32(0, NULL, 0), (const Bytef *)writer->entries, (uInt)bytes);
    uint64_t at = writer->at;
    if (!put(writer, &frame, sizeof frame, at) || !put(writer, writer->entries, bytes, at + sizeof frame) ||
        !put(writer, &foot, sizeof foot, at + sizeof frame + bytes))
        return false;
    if (ftruncate(writer->file, (off_t)(at + sizeof frame + bytes + sizeof foot)) != 0 || fsync(writer->file) != 0)
        return refuse(writer, "cannot write", strerror(errno));
    posix_fadvise(writer->file, 0, 0, POSIX_FADV_DONTNEED); /* so that who compares it reads what the disk has */
    return true;
}

static void release(struct archive_writer *writer) {
    if (writer->file >= 0)
        close(writer->file);
    encoder_free(writer->encoder);
    free(writer->blocks);
    free(writer->entries);
    writer->file = -1;
    writer->blocks = NULL;
    writer->encoder = NULL;
    writer->entries = NULL;
}

bool archive_place(struct archive_writer *writer, mode_t mode) {
    bool done = fchmod(writer->file, mode) == 0 &&
                renameat(writer->directory, writer->part, writer->directory, writer->name) == 0 &&
                fsync(writer->directory) == 0;
    if (!done)
        refuse(writer, "cannot give the packed file its name", strerror(errno));
    release(writer);
    return done;
}

void archive_leave(struct archive_writer *writer) {
    writer->file = -1;
}

void archive_abandon(struct archive_writer *writer) {
    if (writer->file >= 0)
        unlinkat(writer->directory, writer->part, 0);
    release(writer);
}
