/* SPDX-License-Identifier: Apache-2.0
 *
 * What the analyzer needs of an ELF file: is it the one that ran, and what are its functions called.
 * Lives here: reading headers, notes, the link to separate debug data and the symbol tables, into a sorted table.
 * Must not live here: where files are looked for, line numbers (lines.h).
 *
 * A dump names these files and is not to be trusted, nor are they. What is read here, in the analyzer's own process, is
 * no more than fixed headers, notes and symbol tables: only regular files are opened, everything is copied into memory
 * of its own (a file that shrinks meanwhile gives a short read, not a signal), every offset, size and index from the
 * file is checked against what was copied, and sizes have limits. Whatever needs more than that, debug data above all,
 * is left to libdw, which is not written for hostile files: it runs in a child process (lines.h), and so must anything
 * else that is to be read of an ELF file.
 */
#ifndef COMMTAP_SYMBOLS_ELF_FILE_H
#define COMMTAP_SYMBOLS_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ELF_BUILD_ID_MAX = 64, ELF_LINK_MAX = 256 };

struct elf_file {
    int fd;
    uint64_t bytes;
    uint8_t build_id[ELF_BUILD_ID_MAX];
    uint32_t build_id_bytes;    /* 0 = it has none */
    uint64_t low, high;         /* extent of its loaded segments, addresses as in its symbol table; low >= high: none */
    bool has_symtab, has_lines; /* .symtab; .debug_line */
    char debug_link[ELF_LINK_MAX]; /* .gnu_debuglink: name of the file with the debug data, "" = none */
    uint32_t debug_link_crc;
    uint64_t sections_at; /* the rest is private */
    uint32_t section_count;
};

/* Opens a 64-bit ELF file of this machine's byte order. Returns false when it cannot be read or makes no sense; nothing
 * is open then. The caller closes with elf_close. */
bool elf_open(struct elf_file *file, const char *path);
void elf_close(struct elf_file *file);

/* CRC-32 of the whole file, as .gnu_debuglink has it. Returns false when it cannot be read. */
bool elf_crc(const struct elf_file *file, uint32_t *crc);

struct elf_symbol {
    uint64_t address, size; /* size 0 = unknown */
    const char *name;       /* mangled, terminated */
    uint8_t preference;     /* of several at one address the least is shown */
};

/* Functions by address. */
struct elf_symbols {
    struct elf_symbol *items; /* ascending, one per address */
    size_t count;
    char *names; /* private */
};

/* Reads the functions of .symtab, or of .dynsym where there is none. A damaged table gives what is sound in it. Returns
 * false when memory is short; the caller frees with elf_symbols_free in every case. */
bool elf_symbols_read(struct elf_symbols *symbols, const struct elf_file *file);
void elf_symbols_free(struct elf_symbols *symbols);

/* The function that `address` lies in, NULL when it lies in none that is known. */
const struct elf_symbol *elf_symbol_at(const struct elf_symbols *symbols, uint64_t address);

#endif
