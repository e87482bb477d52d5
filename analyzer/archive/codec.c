/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/archive/codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<zstd.h>)
#define HAVE_ZSTD
#endif
#endif

#ifdef HAVE_ZSTD
#include <zstd.h>

/* Zstandard's default: rows in order (rows.h) get a fifth smaller than at level 1, and 5 makes them little smaller at
 * half the speed. */
enum { LEVEL = 3, THREADS_MOST = 4, PIECE = 1 << 17 };

const char *codec_lacks(void) {
    return NULL;
}

/* ---- reading ----------------------------------------------------------------------------------- */

struct decoder {
    ZSTD_DStream *stream;
    int file;
    uint64_t at, left;
    ZSTD_inBuffer in;
    size_t state; /* 0: at the end of the frame; an error of the library's; else there is more */
    const char *error;
    uint8_t piece[PIECE];
};

struct decoder *decoder_new(int file, uint64_t at, uint64_t bytes) {
    struct decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder || !(decoder->stream = ZSTD_createDStream())) {
        free(decoder);
        return NULL;
    }
    decoder->file = file;
    decoder->at = at;
    decoder->left = bytes;
    decoder->in.src = decoder->piece;
    decoder->state = 1;
    return decoder;
}

static bool fail(struct decoder *decoder, const char *error) {
    decoder->error = error;
    return false;
}

static bool fill(struct decoder *decoder) {
    size_t part = decoder->left < PIECE ? (size_t)decoder->left : PIECE;
    if (part == 0)
        return fail(decoder, "it ends too early");
    ssize_t got = pread(decoder->file, decoder->piece, part, (off_t)decoder->at);
    if (got <= 0)
        return fail(decoder, got < 0 ? strerror(errno) : "the file ends");
    decoder->in = (ZSTD_inBuffer){decoder->piece, (size_t)got, 0};
    decoder->at += (uint64_t)got;
    decoder->left -= (uint64_t)got;
    return true;
}

bool decoder_read(struct decoder *decoder, void *to, uint64_t bytes) {
    ZSTD_outBuffer out = {to, bytes, 0};
    while (out.pos < out.size) {
        size_t before = out.pos;
        if (decoder->state == 0)
            return fail(decoder, "it holds less than it should");
        decoder->state = ZSTD_decompressStream(decoder->stream, &out, &decoder->in);
        if (ZSTD_isError(decoder->state))
            return fail(decoder, ZSTD_getErrorName(decoder->state));
        if (out.pos == before && decoder->in.pos == decoder->in.size && decoder->state != 0 && !fill(decoder))
            return false;
    }
    return true;
}

/* A frame whose last byte was read may still have its checksum before it. */
bool decoder_ends(struct decoder *decoder) {
    uint8_t more;
    while (decoder->state != 0) {
        ZSTD_outBuffer out = {&more, 1, 0};
        if (decoder->in.pos == decoder->in.size && !fill(decoder))
            return false;
        decoder->state = ZSTD_decompressStream(decoder->stream, &out, &decoder->in);
        if (ZSTD_isError(decoder->state))
            return fail(decoder, ZSTD_getErrorName(decoder->state));
        if (out.pos > 0)
            return fail(decoder, "it holds more than it should");
    }
    return (decoder->left == 0 && decoder->in.pos == decoder->in.size) || fail(decoder, "something follows its end");
}

const char *decoder_error(const struct decoder *decoder) {
    return decoder->error ? decoder->error : "nothing is wrong";
}

void decoder_free(struct decoder *decoder) {
    ZSTD_freeDStream(decoder->stream);
    free(decoder);
}

/* ---- writing ----------------------------------------------------------------------------------- */

struct encoder {
    ZSTD_CCtx *context, *trial;
    uint8_t piece[PIECE];
};

struct encoder *encoder_new(void) {
    struct encoder *encoder = calloc(1, sizeof *encoder);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int threads = processors > THREADS_MOST ? THREADS_MOST : processors > 1 ? (int)processors : 0;
    if (!encoder || !(encoder->context = ZSTD_createCCtx()) || !(encoder->trial = ZSTD_createCCtx())) {
        encoder_free(encoder);
        return NULL;
    }
    ZSTD_CCtx_setParameter(encoder->context, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(encoder->context, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(encoder->context, ZSTD_c_nbWorkers, threads); /* a library without threads refuses it */
    return encoder;
}

static int write_all(int file, const uint8_t *data, size_t bytes, uint64_t *at) {
    while (bytes > 0) {
        ssize_t written = pwrite(file, data, bytes, (off_t)*at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? errno : ENOSPC;
        data += written;
        bytes -= (size_t)written;
        *at += (uint64_t)written;
    }
    return 0;
}

int encoder_add(struct encoder *encoder, int file, uint64_t *at, const void *data, size_t bytes, bool last) {
    ZSTD_inBuffer in = {data, bytes, 0};
    for (size_t left = 1; last ? left != 0 : in.pos < in.size;) {
        ZSTD_outBuffer out = {encoder->piece, PIECE, 0};
        left = ZSTD_compressStream2(encoder->context, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        int error = ZSTD_isError(left) ? EIO : write_all(file, encoder->piece, out.pos, at);
        if (error != 0)
            return error;
    }
    return 0;
}

size_t encoder_try(struct encoder *encoder, const void *data, size_t bytes) {
    size_t left = ZSTD_compressCCtx(encoder->trial, encoder->piece, PIECE, data, bytes, LEVEL);
    return ZSTD_isError(left) ? SIZE_MAX : left;
}

void encoder_free(struct encoder *encoder) {
    if (encoder) {
        ZSTD_freeCCtx(encoder->context);
        ZSTD_freeCCtx(encoder->trial);
    }
    free(encoder);
}

#else

const char *codec_lacks(void) {
    return "this commtap was built without Zstandard: install libzstd-dev and build it anew";
}

struct decoder *decoder_new(int file, uint64_t at, uint64_t bytes) {
    (void)file, (void)at, (void)bytes;
    return NULL;
}

bool decoder_read(struct decoder *decoder, void *to, uint64_t bytes) {
    (void)decoder, (void)to, (void)bytes;
    return false;
}

bool decoder_ends(struct decoder *decoder) {
    (void)decoder;
    return false;
}

const char *decoder_error(const struct decoder *decoder) {
    (void)decoder;
    return codec_lacks();
}

void decoder_free(struct decoder *decoder) {
    (void)decoder;
}

struct encoder *encoder_new(void) {
    return NULL;
}

int encoder_add(struct encoder *encoder, int file, uint64_t *at, const void *data, size_t bytes, bool last) {
    (void)encoder, (void)file, (void)at, (void)data, (void)bytes, (void)last;
    return ENOSYS;
}

size_t encoder_try(struct encoder *encoder, const void *data, size_t bytes) {
    (void)encoder, (void)data, (void)bytes;
    return SIZE_MAX;
}

void encoder_free(struct encoder *encoder) {
    (void)encoder;
}

#endif
