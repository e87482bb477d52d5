/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/archive/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/archive/codec.h"
#include "analyzer/archive/rows.h"
#include "analyzer/base/regular_file.h"

enum { ENTRIES_AT_ONCE = 256, PIECE = 1 << 16 };

static bool refuse(struct archive *archive, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(struct archive *archive, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(archive->reason, sizeof archive->reason, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- names ------------------------------------------------------------------------------------- */

bool archive_is_one(const char *name) {
    size_t length = strlen(name), end = strlen(ARCHIVE_SUFFIX);
    return length > end && strcmp(name + length - end, ARCHIVE_SUFFIX) == 0;
}

bool archive_begins(int directory, const char *name) {
    struct archive_frame frame = {0};
    char magic[sizeof ARCHIVE_MEMBER_MAGIC - 1] = "";
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1 : pread(file, &frame, sizeof frame, 0);
    bool begins = bytes == 0 || (bytes == sizeof frame && frame.magic == ARCHIVE_MEMBER_FRAME &&
                                 pread(file, magic, sizeof magic, sizeof frame) == sizeof magic &&
                                 memcmp(magic, ARCHIVE_MEMBER_MAGIC, sizeof magic) == 0);
    if (file >= 0)
        close(file);
    return begins;
}

bool archive_path_part(const char *path, char *archive, const char **name) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *colon = strstr(base, ARCHIVE_SUFFIX ":");
    size_t length = colon ? (size_t)(colon - path) + strlen(ARCHIVE_SUFFIX) : strlen(path);
    if ((!colon && !archive_is_one(base)) || length >= ARCHIVE_PATH_BYTES)
        return false;
    memcpy(archive, path, length);
    archive[length] = '\0';
    *name = path + length + (colon != NULL);
    return true;
}

/* A name that can only be that of a file in the archive's own directory. */
static bool is_sound_name(const char *name) {
    size_t length = strnlen(name, ARCHIVE_NAME_BYTES);
    return length > 0 && length < ARCHIVE_NAME_BYTES && !memchr(name, '/', length) && name[0] != '.';
}

/* ---- opening ----------------------------------------------------------------------------------- */

static bool read_at(struct archive *archive, void *to, size_t bytes, uint64_t at) {
    ssize_t got = pread(archive->file, to, bytes, (off_t)at);
    if (got == (ssize_t)bytes)
        return true;
    if (got < 0)
        return refuse(archive, "cannot read at offset %llu: %s", (unsigned long long)at, strerror(errno));
    return refuse(archive, "ends at offset %llu, where %zu bytes should be", (unsigned long long)at, bytes);
}

static bool check_foot(struct archive *archive) {
    struct archive_foot foot;
    uint64_t size = (uint64_t)archive->status.st_size, least = sizeof(struct archive_frame) + sizeof foot;
    if (size < least)
        return refuse(archive, "packed file of %llu bytes: too short for its index", (unsigned long long)size);
    uint64_t at = size - sizeof foot, room = (size - least) / sizeof(struct archive_entry);
    if (!read_at(archive, &foot, sizeof foot, at))
        return false;
    if (memcmp(foot.magic, ARCHIVE_INDEX_MAGIC, sizeof foot.magic) != 0 &&
        memcmp(foot.magic, ARCHIVE_FIRST_MAGIC, sizeof foot.magic) != 0)
        return refuse(archive, "no end of a packed file at offset %llu: it was cut off, or is something else",
                      (unsigned long long)at);
    if (foot.count > room || foot.index_at != size - least - foot.count * sizeof(struct archive_entry))
        return refuse(archive, "index of %llu entries does not end at offset %llu", (unsigned long long)foot.count,
                      (unsigned long long)at);
    archive->index_at = foot.index_at;
    archive->count = foot.count;
    return true;
}

bool archive_open(struct archive *archive, int directory, const char *path, int flags) {
    *archive = (struct archive){.file = regular_file_open(directory, path, flags)};
    if (archive->file < 0 || fstat(archive->file, &archive->status) != 0)
        return refuse(archive, "cannot open: %s", regular_file_error(errno));
    return check_foot(archive);
}

bool archive_open_file(struct archive *archive, int file) {
    *archive = (struct archive){.file = file};
    if (fstat(file, &archive->status) != 0)
        return refuse(archive, "cannot open: %s", strerror(errno));
    return check_foot(archive);
}

void archive_close(struct archive *archive) {
    if (archive->file >= 0)
        close(archive->file);
    archive->file = -1;
}

/* ---- the index --------------------------------------------------------------------------------- */

static uint64_t entry_offset(const struct archive *archive, uint64_t number) {
    return archive->index_at + sizeof(struct archive_frame) + number * sizeof(struct archive_entry);
}

static bool check_entry(struct archive *archive, uint64_t number, const struct archive_entry *entry) {
    uint64_t end = archive->index_at;
    unsigned long long at = entry_offset(archive, number);
    if (!is_sound_name(entry->name))
        return refuse(archive, "index entry at offset %llu has an impossible name", at);
    if (entry->at >= end || entry->extent_count > end / sizeof(struct archive_extent) ||
        archive_head_bytes(entry) > end - entry->at ||
        entry->stored_bytes > end - entry->at - archive_head_bytes(entry))
        return refuse(archive, "index entry at offset %llu leads out of the file", at);
    if (entry->rows >= ROWS_KINDS)
        return refuse(archive, "index entry at offset %llu has an order of bytes that is not known here", at);
    if (entry->size > INT64_MAX || entry->data_bytes > entry->size)
        return refuse(archive, "index entry at offset %llu has an impossible size", at);
    return true;
}

bool archive_entry_at(struct archive *archive, uint64_t number, struct archive_entry *entry) {
    return read_at(archive, entry, sizeof *entry, entry_offset(archive, number)) && check_entry(archive, number, entry);
}

bool archive_check_index(struct archive *archive) {
    struct archive_entry entries[ENTRIES_AT_ONCE];
    struct archive_foot foot;
    char last[ARCHIVE_NAME_BYTES] = "";
    uLong crc = crc32(0, NULL, 0);
    for (uint64_t done = 0; done < archive->count; done += ENTRIES_AT_ONCE) {
        uint64_t count = archive->count - done < ENTRIES_AT_ONCE ? archive->count - done : ENTRIES_AT_ONCE;
        if (!read_at(archive, entries, count * sizeof *entries, entry_offset(archive, done)))
            return false;
        crc = crc32(crc, (const Bytef *)entries, (uInt)(count * sizeof *entries));
        for (uint64_t i = 0; i < count; i++) {
            if (!check_entry(archive, done + i, &entries[i]))
                return false;
            if (strcmp(last, entries[i].name) >= 0)
                return refuse(archive, "index entry at offset %llu is out of order",
                              (unsigned long long)entry_offset(archive, done + i));
            memcpy(last, entries[i].name, sizeof last);
        }
    }
    uint64_t at = (uint64_t)archive->status.st_size - sizeof foot;
    if (!read_at(archive, &foot, sizeof foot, at))
        return false;
    return foot.crc == crc || refuse(archive, "index at offset %llu is damaged: its checksum differs",
                                     (unsigned long long)archive->index_at);
}

bool archive_find(struct archive *archive, const char *name, struct archive_entry *entry) {
    uint64_t low = 0, high = archive->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (!archive_entry_at(archive, middle, entry))
            return false;
        int order = strcmp(name, entry->name);
        if (order == 0)
            return true;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return refuse(archive, "holds no such file");
}

/* ---- members ----------------------------------------------------------------------------------- */

static bool check_head(struct archive *archive, const struct archive_entry *entry, const struct archive_head *head) {
    struct archive_entry there = head->entry;
    there.at = entry->at;
    if (head->frame.magic == ARCHIVE_MEMBER_FRAME &&
        head->frame.bytes == archive_head_bytes(entry) - sizeof head->frame &&
        memcmp(head->magic, ARCHIVE_MEMBER_MAGIC, sizeof head->magic) == 0 && memcmp(&there, entry, sizeof there) == 0)
        return true;
    return refuse(archive, "head at offset %llu is not what the index says", (unsigned long long)entry->at);
}

static bool check_extents(struct archive *archive, const struct archive_entry *entry,
                          const struct archive_extent *extents) {
    uint64_t end = 0, sum = 0;
    for (uint32_t i = 0; i < entry->extent_count; i++) {
        if (extents[i].from < end || extents[i].to <= extents[i].from || extents[i].to > entry->size)
            return refuse(archive, "extent %u of the head at offset %llu is impossible", i,
                          (unsigned long long)entry->at);
        sum += extents[i].to - extents[i].from;
        end = extents[i].to;
    }
    return sum == entry->data_bytes ||
           refuse(archive, "extents of the head at offset %llu do not add up", (unsigned long long)entry->at);
}

struct archive_extent *archive_extents(struct archive *archive, const struct archive_entry *entry) {
    struct archive_head head;
    size_t bytes = entry->extent_count * sizeof(struct archive_extent);
    if (!read_at(archive, &head, sizeof head, entry->at) || !check_head(archive, entry, &head))
        return NULL;
    struct archive_extent *extents = malloc(bytes + 1);
    if (!extents)
        refuse(archive, "memory is short");
    else if (read_at(archive, extents, bytes, entry->at + sizeof head) && check_extents(archive, entry, extents))
        return extents;
    free(extents);
    return NULL;
}

/* What becomes of an extent's bytes: they go to `to` (at their places in the file), or are compared with `like`. */
struct use {
    uint8_t *to;
    const uint8_t *like;
    bool differs;
};

static void use_bytes(struct use *use, uint64_t at, const uint8_t *bytes, size_t count) {
    if (use->to)
        memcpy(use->to + at, bytes, count);
    else
        use->differs |= use->like && memcmp(bytes, use->like + at, count) != 0;
}

static bool use_extent(struct decoder *decoder, const struct archive_extent *extent, struct use *use) {
    uint8_t piece[PIECE];
    if (use->to)
        return decoder_read(decoder, use->to + extent->from, extent->to - extent->from);
    for (uint64_t at = extent->from, part; at < extent->to; at += part) {
        part = extent->to - at < sizeof piece ? extent->to - at : sizeof piece;
        if (!decoder_read(decoder, piece, part))
            return false;
        use_bytes(use, at, piece, part);
    }
    return true;
}

/* A block may lie in several extents. */
struct block {
    uint8_t stored[ROWS_BLOCK], bytes[ROWS_BLOCK];
    size_t count, used;
    uint64_t left; /* bytes of the blocks behind it */
};

static bool next_block(struct decoder *decoder, enum rows rows, struct block *block) {
    block->count = block->left < ROWS_BLOCK ? (size_t)block->left : ROWS_BLOCK;
    block->left -= block->count;
    block->used = 0;
    if (!decoder_read(decoder, block->stored, block->count))
        return false;
    rows_restore(rows, block->stored, block->bytes, block->count);
    return true;
}

static bool use_extent_of_rows(struct decoder *decoder, enum rows rows, struct block *block,
                               const struct archive_extent *extent, struct use *use) {
    for (uint64_t at = extent->from, part; at < extent->to; at += part) {
        if (block->used == block->count && !next_block(decoder, rows, block))
            return false;
        part = block->count - block->used;
        part = extent->to - at < part ? extent->to - at : part;
        use_bytes(use, at, block->bytes + block->used, (size_t)part);
        block->used += (size_t)part;
    }
    return true;
}

static bool use_member(struct archive *archive, const struct archive_entry *entry, const struct archive_extent *extents,
                       struct use *use) {
    uint64_t at = entry->at + archive_head_bytes(entry);
    struct decoder *decoder = decoder_new(archive->file, at, entry->stored_bytes);
    struct block *block = malloc(sizeof *block);
    bool done = decoder && block;
    if (!done)
        refuse(archive, "cannot unpack: %s", codec_lacks() ? codec_lacks() : "memory is short");
    if (block) {
        block->count = block->used = 0;
        block->left = entry->data_bytes;
    }
    for (uint32_t i = 0; done && i < entry->extent_count; i++)
        done = entry->rows == ROWS_PLAIN ? use_extent(decoder, &extents[i], use)
                                         : use_extent_of_rows(decoder, entry->rows, block, &extents[i], use);
    if (decoder && block && (!done || !decoder_ends(decoder)))
        done = refuse(archive, "data at offset %llu cannot be unpacked: %s", (unsigned long long)at,
                      decoder_error(decoder));
    if (decoder)
        decoder_free(decoder);
    free(block);
    return done;
}

bool archive_read(struct archive *archive, const struct archive_entry *entry, const struct archive_extent *extents,
                  uint8_t *base) {
    struct use use = {.to = base};
    return use_member(archive, entry, extents, &use);
}

static size_t copy_start(const struct archive_entry *entry, const struct archive_extent *first, struct decoder *decoder,
                         struct block *block, void *to, size_t bytes) {
    if (!decoder || !block || entry->extent_count == 0 || first->from != 0)
        return 0;
    *block = (struct block){.left = entry->data_bytes};
    if (!next_block(decoder, entry->rows, block))
        return 0;
    bytes = bytes < block->count ? bytes : block->count;
    bytes = bytes < first->to ? bytes : (size_t)first->to;
    memcpy(to, block->bytes, bytes);
    return bytes;
}

size_t archive_read_start(struct archive *archive, const struct archive_entry *entry, void *to, size_t bytes) {
    uint64_t at = entry->at + archive_head_bytes(entry);
    struct archive_extent *extents = archive_extents(archive, entry);
    struct decoder *decoder = extents ? decoder_new(archive->file, at, entry->stored_bytes) : NULL;
    struct block *block = malloc(sizeof *block);
    size_t count = copy_start(entry, extents, decoder, block, to, bytes);
    if (extents && count == 0)
        refuse(archive, "data at offset %llu cannot be unpacked: %s", (unsigned long long)at,
               decoder ? decoder_error(decoder) : "no decoder");
    if (decoder)
        decoder_free(decoder);
    free(block);
    free(extents);
    return count;
}

bool archive_verify(struct archive *archive, const struct archive_entry *entry, const uint8_t *base) {
    struct use use = {.like = base};
    struct archive_extent *extents = archive_extents(archive, entry);
    unsigned long long at = entry->at;
    bool sound = extents && use_member(archive, entry, extents, &use);
    free(extents);
    return sound && (!use.differs || refuse(archive, "member at offset %llu is not what the file holds", at));
}
