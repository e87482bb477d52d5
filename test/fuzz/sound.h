/* SPDX-License-Identifier: Apache-2.0
 *
 * What both fuzz targets damage: a small dump with something in every section, and how an input damages it.
 * Lives here: the dump, the patches.
 * Must not live here: what is run over it.
 */
#ifndef COMMTAP_TEST_FUZZ_SOUND_H
#define COMMTAP_TEST_FUZZ_SOUND_H

#include "test/unit/dump_builder.h"

/* A dump of rank `rank` of 8 ranks of MPI and NCCL: even ranks are on one host, odd ones on another. Freed with
 * dump_builder_free. */
struct dump_builder *fuzz_sound_dump(int32_t rank);

/* Damages a copy of the sound dump that `original` points to. `data` is a list of 12-byte patches: section (0 = header
 * and table), width, offset in units of 4 bytes (16 bit), value (64 bit); a section number of 255 cuts the file
 * instead. Returns the file's new length. */
size_t fuzz_damage(uint8_t *file, size_t bytes, const void *original, const uint8_t *data, size_t size);

#endif
