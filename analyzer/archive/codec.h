/* SPDX-License-Identifier: Apache-2.0
 *
 * One frame of Zstandard in a file, written or read piece by piece.
 * Lives here: the library, and that this program may have been built without it. Must not live here: what is packed.
 */
#ifndef COMMTAP_ARCHIVE_CODEC_H
#define COMMTAP_ARCHIVE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What this program lacks for packing and unpacking, NULL: nothing. */
const char *codec_lacks(void);

/* Reads the frame of `bytes` bytes at `at`. NULL where memory is short or codec_lacks. */
struct decoder *decoder_new(int file, uint64_t at, uint64_t bytes);
/* Exactly so many bytes more. */
bool decoder_read(struct decoder *decoder, void *to, uint64_t bytes);
/* Whether the frame ends here, with its checksum right. */
bool decoder_ends(struct decoder *decoder);
/* What is wrong, after one of them was false. */
const char *decoder_error(const struct decoder *decoder);
void decoder_free(struct decoder *decoder);

/* Writes frames with as many threads as there are processors, up to a few. NULL as above. */
struct encoder *encoder_new(void);
/* Adds `bytes` to the frame that is written from *at of the file on, which moves; `last` ends it. Returns 0 or an
 * errno. */
int encoder_add(struct encoder *encoder, int file, uint64_t *at, const void *data, size_t bytes, bool last);
/* To how many bytes it would compress these, 64 kB at most, by themselves; SIZE_MAX: it cannot tell. */
size_t encoder_try(struct encoder *encoder, const void *data, size_t bytes);
void encoder_free(struct encoder *encoder);

#endif
