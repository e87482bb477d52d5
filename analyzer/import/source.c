/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace files as a stream of documents.
 * Lives here: zlib's buffered reading, and the headers of tar (POSIX.1-1988 ustar; other kinds of member are skipped),
 * whose members may be compressed for themselves.
 * Must not live here: what a document says.
 */
#include "analyzer/import/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/base/regular_file.h"

enum { BUFFER = 1 << 16, TAR_BLOCK = 512 };

/* The fields of a tar header that are needed. */
enum { TAR_NAME = 0, TAR_NAME_BYTES = 100, TAR_SIZE = 124, TAR_SIZE_BYTES = 12, TAR_TYPE = 156, TAR_MAGIC = 257 };

struct import_source {
    gzFile file;
    struct import_limits *limits;
    const char *path;
    int64_t written_ns;
    char name[TAR_NAME_BYTES + 1];
    bool begun, archive;
    uint64_t left;    /* of an archive's member */
    uint64_t padding; /* after it */
    uint64_t offset;
    uint64_t fingerprint;
    const char *error;
    size_t at, have;
    unsigned char buffer[BUFFER];
    bool packed; /* the archive's member is compressed for itself: */
    bool ended;
    z_stream stream;
    unsigned char *text; /* decompressed; NULL before the first such member */
    size_t text_at, text_have;
};

struct import_source *source_open(const char *path, struct import_limits *limits) {
    struct import_source *source = calloc(1, sizeof *source);
    if (!source)
        return NULL;
    source->path = path;
    source->limits = limits;
    int file = regular_file_open(AT_FDCWD, path, 0);
    struct stat status;
    if (file >= 0 && fstat(file, &status) == 0)
        source->written_ns = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    source->file = file < 0 ? NULL : gzdopen(file, "rb");
    if (!source->file) {
        int error = file < 0 ? errno : ENOMEM;
        if (file >= 0)
            close(file);
        free(source);
        errno = error;
        return NULL;
    }
    gzbuffer(source->file, BUFFER);
    return source;
}

void source_close(struct import_source *source) {
    if (!source)
        return;
    gzclose_r(source->file);
    if (source->packed)
        inflateEnd(&source->stream);
    free(source->text);
    free(source);
}

const char *source_error(const struct import_source *source) {
    return source->error;
}

uint64_t source_fingerprint(const struct import_source *source) {
    return source->fingerprint;
}

const char *source_document(const struct import_source *source) {
    return source->archive ? source->name : source->path;
}

int64_t source_written_ns(const struct import_source *source) {
    return source->archive ? 0 : source->written_ns;
}

uint64_t source_offset(const struct import_source *source) {
    return source->offset;
}

/* zlib puts the name before its message, as it knows it: "<fd:3>: unexpected end of file". */
static const char *without_name(const char *message) {
    const char *colon = strncmp(message, "<fd:", 4) == 0 ? strstr(message, ">: ") : NULL;
    return colon ? colon + 3 : message;
}

static bool fill_buffer(struct import_source *source) {
    int got = gzread(source->file, source->buffer, BUFFER);
    source->at = 0;
    source->have = got > 0 ? (size_t)got : 0;
    if (!limits_text(source->limits, source->have)) {
        source->error = source->limits->exceeded;
        source->have = 0;
        return false;
    }
    int code;
    const char *message = gzerror(source->file, &code);
    if (got < 0 || code != Z_OK) /* a compressed file that ends too early gives its last bytes, then this */
        source->error = code == Z_ERRNO       ? strerror(errno)
                        : message && *message ? without_name(message)
                                              : "cannot be decompressed";
    return source->have > 0;
}

static int raw_byte(struct import_source *source) {
    if (source->at == source->have && !fill_buffer(source))
        return -1;
    return source->buffer[source->at++];
}

static int member_byte(struct import_source *source) {
    if (source->archive && source->left == 0)
        return -1;
    int byte = raw_byte(source);
    if (byte < 0) {
        if (source->archive && !source->error)
            source->error = "the archive ends within a file";
        return -1;
    }
    source->left -= source->archive;
    return byte;
}

/* What became of a member's compression. */
static void judge_unpacking(struct import_source *source, int result) {
    if (!limits_text(source->limits, source->text_have))
        source->error = source->limits->exceeded;
    else if (result == Z_STREAM_END && source->left > 0) /* several that follow each other are one text */
        inflateReset(&source->stream);
    else if (result == Z_STREAM_END)
        source->ended = true;
    else if (result != Z_OK)
        source->error = result == Z_BUF_ERROR ? "unexpected end of file" : "cannot be decompressed";
}

/* Decompresses some of what the buffer holds of the member, or of what zlib does. False at its end, or with an error.
 */
static bool unpack_some(struct import_source *source) {
    if (source->ended || source->error)
        return false;
    if (source->at == source->have && source->left > 0 && !fill_buffer(source)) {
        source->error = source->error ? source->error : "the archive ends within a file";
        return false;
    }
    size_t there = source->have - source->at;
    there = there < source->left ? there : (size_t)source->left;
    source->stream.next_in = source->buffer + source->at;
    source->stream.avail_in = (unsigned)there;
    source->stream.next_out = source->text;
    source->stream.avail_out = BUFFER;
    int result = inflate(&source->stream, Z_NO_FLUSH);
    source->at += there - source->stream.avail_in;
    source->left -= there - source->stream.avail_in;
    source->text_at = 0;
    source->text_have = BUFFER - source->stream.avail_out;
    judge_unpacking(source, result);
    return !source->error;
}

static int unpacked_byte(struct import_source *source) {
    while (source->text_at == source->text_have)
        if (!unpack_some(source))
            return -1;
    return source->text[source->text_at++];
}

int source_byte(struct import_source *source) {
    int byte = source->packed ? unpacked_byte(source) : member_byte(source);
    if (byte < 0)
        return -1;
    source->offset++;
    source->fingerprint = (source->fingerprint ^ (uint64_t)byte) * UINT64_C(0x100000001b3); /* as FNV-1a */
    return byte;
}

int source_peek(struct import_source *source) {
    uint64_t before = source->fingerprint;
    int byte = source_byte(source);
    if (byte < 0)
        return -1;
    if (source->packed)
        source->text_at--;
    else
        source->at--;
    source->left += source->archive && !source->packed;
    source->offset--;
    source->fingerprint = before;
    return byte;
}

static bool skip(struct import_source *source, uint64_t bytes) {
    while (bytes > 0) {
        if (source->at == source->have && !fill_buffer(source))
            return false;
        size_t step = source->have - source->at;
        step = step < bytes ? step : (size_t)bytes;
        source->at += step;
        bytes -= step;
    }
    return true;
}

/* The first block is looked at, not taken: zlib's buffer holds it either way. */
static bool is_archive(struct import_source *source) {
    if (source->at == source->have)
        fill_buffer(source);
    return source->have >= TAR_BLOCK && memcmp(source->buffer + TAR_MAGIC, "ustar", 5) == 0;
}

/* An octal number; large ones are a big-endian number behind a byte 0x80. Returns false for anything else. */
static bool parse_size(const unsigned char *field, uint64_t *size) {
    *size = 0;
    if (field[0] == 0x80) {
        for (int i = TAR_SIZE_BYTES - 8; i < TAR_SIZE_BYTES; i++)
            *size = *size << 8 | field[i];
        return *size < UINT64_MAX / 2;
    }
    for (int i = 0; i < TAR_SIZE_BYTES && field[i] && field[i] != ' '; i++) {
        if (field[i] < '0' || field[i] > '7')
            return false;
        *size = *size * 8 + (uint64_t)(field[i] - '0');
    }
    return true;
}

static int read_tar_header(struct import_source *source, unsigned char *block) {
    for (int i = 0; i < TAR_BLOCK; i++) {
        int byte = raw_byte(source);
        if (byte < 0) {
            if (i > 0 && !source->error)
                source->error = "the archive ends within a header";
            return source->error ? -1 : 0;
        }
        block[i] = (unsigned char)byte;
    }
    return block[0] != '\0'; /* a block of zeros ends the archive */
}

/* Whether the member is compressed for itself. False with an error where memory is short. */
static bool find_packing(struct import_source *source) {
    static const unsigned char magic[] = {0x1f, 0x8b}; /* RFC 1952 */
    if (source->packed)
        inflateEnd(&source->stream);
    source->packed = source->ended = false;
    source->text_at = source->text_have = 0;
    if (source->at == source->have && source->left > 0)
        fill_buffer(source);
    /* members begin at multiples of 512 bytes, and so does the buffer's end: both bytes are in it */
    if (source->left < sizeof magic || source->have - source->at < sizeof magic ||
        memcmp(source->buffer + source->at, magic, sizeof magic) != 0)
        return true;
    source->stream = (z_stream){0};
    source->text = source->text ? source->text : malloc(BUFFER);
    source->packed = source->text && inflateInit2(&source->stream, 15 + 16) == Z_OK;
    if (!source->packed)
        source->error = strerror(ENOMEM);
    return source->packed;
}

static int next_member(struct import_source *source) {
    unsigned char block[TAR_BLOCK];
    for (;;) {
        if (!skip(source, source->left + source->padding)) {
            if (!source->error)
                source->error = "the archive ends within a file";
            return -1;
        }
        source->left = source->padding = 0;
        int found = read_tar_header(source, block);
        if (found <= 0)
            return found;
        if (memcmp(block + TAR_MAGIC, "ustar", 5) != 0 || !parse_size(block + TAR_SIZE, &source->left)) {
            source->error = "damaged archive";
            return -1;
        }
        source->padding = (TAR_BLOCK - source->left % TAR_BLOCK) % TAR_BLOCK;
        if (block[TAR_TYPE] != '0' && block[TAR_TYPE] != '\0')
            continue;
        memcpy(source->name, block + TAR_NAME, TAR_NAME_BYTES);
        source->name[TAR_NAME_BYTES] = '\0';
        source->offset = 0;
        source->fingerprint = 0;
        return find_packing(source) ? 1 : -1;
    }
}

int source_next(struct import_source *source) {
    if (source->begun && !source->archive)
        return source->error ? -1 : 0;
    if (!source->begun) {
        source->begun = true;
        source->archive = is_archive(source);
        if (!source->archive)
            return source->error && source->have == 0 ? -1 : 1;
    }
    return source->error ? -1 : next_member(source);
}
