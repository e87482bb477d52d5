/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbol tables of an object that the dynamic linker has loaded, as they lie in memory.
 * Lives here: reading one object's tables. Must not live here: which objects there are (linker.h), what is looked for.
 *
 * Nothing here calls the C library: it is used before this process's libraries are up.
 */
#ifndef COMMTAP_SHIM_BASE_ELF_SYMBOL_H
#define COMMTAP_SHIM_BASE_ELF_SYMBOL_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_relocations {
    const ElfW(Rela) * entries;
    size_t count;
};

/* What an object's dynamic section points to; what it lacks is NULL or 0. */
struct elf_tables {
    uintptr_t base; /* what is added to the addresses in these tables */
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash; /* objects linked with --hash-style=sysv have this one only */
    struct elf_relocations data, calls;
    size_t relative; /* of `data`, the first so many name no symbol */
};

/* False where there are no symbols to be read. */
bool elf_tables_at(uintptr_t base, const ElfW(Dyn) * dynamic, struct elf_tables *tables);
bool elf_tables(const struct dl_phdr_info *info, struct elf_tables *tables);

/* A name's hash, for looking it up in many objects. */
uint32_t elf_hash(const char *name);

/* The object's own definition; NULL when it has none of that name. `hash` is elf_hash(name). */
const ElfW(Sym) * elf_definition(const struct elf_tables *tables, const char *name, uint32_t hash);

/* How many symbols may be looked at: references come first. 0 when unknown. */
size_t elf_symbol_count(const struct elf_tables *tables);

/* How many of the first symbols may be references to other objects: definitions come behind them. */
size_t elf_reference_count(const struct elf_tables *tables);

/* The address that a definition stands for, NULL for an indirect function: its address is not that of any function. */
void *elf_address(const struct elf_tables *tables, const ElfW(Sym) * symbol);

/* Address of a symbol that one object defines; NULL when it has none of that name. */
void *elf_symbol(const struct dl_phdr_info *info, const char *name);

#endif
