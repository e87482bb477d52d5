/* SPDX-License-Identifier: Apache-2.0
 *
 * Small ELF files for tests: a symbol table and a build-id, no code.
 * Lives here: writing one. Must not live here: anything that reads them.
 */
#ifndef COMMTAP_TEST_ELF_BUILDER_H
#define COMMTAP_TEST_ELF_BUILDER_H

#include <stddef.h>
#include <stdint.h>

/* Extent of every file's one loaded segment, from address 0. */
#define ELF_BUILDER_EXTENT 0x100000u

struct elf_builder_symbol {
    const char *name; /* NULL ends a table */
    uint64_t address, size;
};

/* Lays out a file in memory and returns its size; the caller frees *file. `build_id` NULL: it has none; otherwise 20
 * bytes of that value repeated. `link`: name in .gnu_debuglink, NULL = no such section; its checksum is `crc`. */
size_t elf_builder_make(uint8_t **file, const struct elf_builder_symbol *symbols, const uint8_t *build_id,
                        const char *link, uint32_t crc);
/* The same into a file. Ends the program with a message when it cannot. */
void elf_builder_write(const char *path, const struct elf_builder_symbol *symbols, const uint8_t *build_id,
                       const char *link, uint32_t crc);

#endif
