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
#include "analyzer/base/grow.h"

enum { PIECE = 1 << 20, COPY_PIECE = 1 << 16 };

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
           memchr(head->entry.name, 0, ARCHIVE_NAME_BYTES) && head->entry.stored_bytes <= left &&
           archive_head_bytes(&head->entry) <= left - head->entry.stored_bytes;
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
    writer->encoder = encoder_new();
    if (!writer->encoder)
        return refuse(writer, codec_lacks() ? codec_lacks() : "memory is short", NULL);
    return resume(writer) && take_over(writer);
}

/* ---- members ----------------------------------------------------------------------------------- */

static bool put_data(struct archive_writer *writer, uint64_t *at, const uint8_t *base,
                     const struct archive_extent *extents, size_t count) {
    int error = 0;
    for (size_t i = 0; error == 0 && i < count; i++)
        for (uint64_t from = extents[i].from, part; error == 0 && from < extents[i].to; from += part) {
            part = extents[i].to - from < PIECE ? extents[i].to - from : PIECE;
            error = encoder_add(writer->encoder, writer->file, at, base + from, part, false);
        }
    if (error == 0)
        error = encoder_add(writer->encoder, writer->file, at, NULL, 0, true);
    return error == 0 || refuse(writer, "cannot write", strerror(error));
}

bool archive_add(struct archive_writer *writer, const struct archive_entry *file, const uint8_t *base,
                 const struct archive_extent *extents, size_t count) {
    struct archive_head head = {.frame.magic = ARCHIVE_MEMBER_FRAME, .magic = ARCHIVE_MEMBER_MAGIC, .entry = *file};
    head.entry.extent_count = (uint32_t)count;
    head.entry.at = head.entry.stored_bytes = head.entry.data_bytes = 0;
    for (size_t i = 0; i < count; i++)
        head.entry.data_bytes += extents[i].to - extents[i].from;
    uint64_t from = writer->at + archive_head_bytes(&head.entry), at = from;
    head.frame.bytes = (uint32_t)(archive_head_bytes(&head.entry) - sizeof head.frame);
    if (!put(writer, &head, sizeof head, writer->at) ||
        !put(writer, extents, count * sizeof *extents, writer->at + sizeof head) ||
        !put_data(writer, &at, base, extents, count))
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
    free(writer->entries);
    writer->file = -1;
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

void archive_abandon(struct archive_writer *writer) {
    if (writer->file >= 0)
        unlinkat(writer->directory, writer->part, 0);
    release(writer);
}
