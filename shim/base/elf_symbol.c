/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts: the generic ELF specification ("Hash Table") and "GNU Hash ELF Sections" (Ali Bahrami).
 */
#include "shim/base/elf_symbol.h"

#include <elf.h>
#include <string.h>

/* Where the linker has not relocated an object's dynamic section (the kernel's own object; newer C libraries leave
 * read-only ones alone), its addresses are distances. */
static const void *dynamic_address(uintptr_t base, uint64_t value) {
    return (const void *)(value < base ? value + base : value);
}

static void read_dynamic_entry(const ElfW(Dyn) * d, struct elf_tables *t) {
    const void *address = dynamic_address(t->base, d->d_un.d_ptr);
    if (d->d_tag == DT_SYMTAB)
        t->symbols = address;
    else if (d->d_tag == DT_STRTAB)
        t->strings = address;
    else if (d->d_tag == DT_GNU_HASH)
        t->gnu_hash = address;
    else if (d->d_tag == DT_HASH)
        t->sysv_hash = address;
    else if (d->d_tag == DT_RELA)
        t->data.entries = address;
    else if (d->d_tag == DT_RELASZ)
        t->data.count = d->d_un.d_val / sizeof(ElfW(Rela));
    else if (d->d_tag == DT_RELACOUNT)
        t->relative = d->d_un.d_val;
    else if (d->d_tag == DT_JMPREL)
        t->calls.entries = address;
    else if (d->d_tag == DT_PLTRELSZ)
        t->calls.count = d->d_un.d_val / sizeof(ElfW(Rela));
}

bool elf_tables_at(uintptr_t base, const ElfW(Dyn) * dynamic, struct elf_tables *tables) {
    *tables = (struct elf_tables){.base = base};
    for (const ElfW(Dyn) *d = dynamic; d && d->d_tag != DT_NULL; d++)
        read_dynamic_entry(d, tables);
    if (tables->gnu_hash && !tables->gnu_hash[0])
        tables->gnu_hash = NULL;
    if (tables->sysv_hash && !tables->sysv_hash[0])
        tables->sysv_hash = NULL;
    return tables->symbols && tables->strings;
}

bool elf_tables(const struct dl_phdr_info *info, struct elf_tables *tables) {
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return elf_tables_at(info->dlpi_addr, (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), tables);
    return false;
}

uint32_t elf_hash(const char *name) {
    uint32_t h = 5381;
    for (const char *c = name; *c; c++)
        h = h * 33 + (unsigned char)*c;
    return h;
}

static uint32_t sysv_hash(const char *name) {
    uint32_t h = 0;
    for (const char *c = name; *c; c++) {
        h = (h << 4) + (unsigned char)*c;
        h ^= h >> 24 & 0xf0;
        h &= 0x0fffffff;
    }
    return h;
}

static bool defines(const struct elf_tables *t, const ElfW(Sym) * symbol, const char *name) {
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value && !strcmp(t->strings + symbol->st_name, name);
}

/* The filter says "no" for nearly every name that an object does not have, without touching its table. */
static bool may_have(const uint32_t *table, uint32_t hash) {
    enum { BITS = 8 * sizeof(ElfW(Addr)) };
    const ElfW(Addr) *filter = (const void *)(table + 4);
    ElfW(Addr) word = filter[hash / BITS % table[2]];
    return word >> hash % BITS & word >> (hash >> table[3]) % BITS & 1;
}

static const ElfW(Sym) * find_gnu(const struct elf_tables *t, const char *name, uint32_t hash) {
    const uint32_t *table = t->gnu_hash;
    uint32_t buckets = table[0], first = table[1];
    const uint32_t *bucket = table + 4 + table[2] * (sizeof(ElfW(Addr)) / 4), *chain = bucket + buckets;
    uint32_t i = may_have(table, hash) ? bucket[hash % buckets] : 0;
    if (i < first || i == 0)
        return NULL;
    for (;; i++) {
        uint32_t entry = chain[i - first];
        if ((entry | 1) == (hash | 1) && defines(t, &t->symbols[i], name))
            return &t->symbols[i];
        if (entry & 1)
            return NULL;
    }
}

static const ElfW(Sym) * find_sysv(const struct elf_tables *t, const char *name) {
    uint32_t buckets = t->sysv_hash[0], symbols = t->sysv_hash[1];
    const uint32_t *bucket = t->sysv_hash + 2, *chain = bucket + buckets;
    for (uint32_t i = bucket[sysv_hash(name) % buckets]; i && i < symbols; i = chain[i])
        if (defines(t, &t->symbols[i], name))
            return &t->symbols[i];
    return NULL;
}

const ElfW(Sym) * elf_definition(const struct elf_tables *tables, const char *name, uint32_t hash) {
    if (tables->gnu_hash)
        return find_gnu(tables, name, hash);
    return tables->sysv_hash ? find_sysv(tables, name) : NULL;
}

static uint32_t last_in_buckets(const uint32_t *table) {
    const uint32_t *bucket = table + 4 + table[2] * (sizeof(ElfW(Addr)) / 4);
    uint32_t last = 0;
    for (uint32_t i = 0; i < table[0]; i++)
        if (bucket[i] > last)
            last = bucket[i];
    return last;
}

static size_t last_in_relocations(const struct elf_relocations *list) {
    size_t last = 0;
    for (size_t i = 0; i < list->count; i++)
        if (ELF64_R_SYM(list->entries[i].r_info) > last)
            last = ELF64_R_SYM(list->entries[i].r_info);
    return last;
}

/* Of an object that defines nothing the table does not say how many symbols there are; what is relocated needs some. */
static size_t count_relocated(const struct elf_tables *tables) {
    size_t data = last_in_relocations(&tables->data), calls = last_in_relocations(&tables->calls);
    return (data > calls ? data : calls) + 1;
}

size_t elf_symbol_count(const struct elf_tables *tables) {
    const uint32_t *table = tables->gnu_hash;
    if (!table)
        return tables->sysv_hash ? tables->sysv_hash[1] : 0;
    uint32_t first = table[1], last = last_in_buckets(table);
    const uint32_t *chain = table + 4 + table[2] * (sizeof(ElfW(Addr)) / 4) + table[0];
    if (last < first || last == 0)
        return count_relocated(tables);
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

size_t elf_reference_count(const struct elf_tables *tables) {
    if (tables->gnu_hash && last_in_buckets(tables->gnu_hash) > 0)
        return tables->gnu_hash[1];
    return elf_symbol_count(tables);
}

void *elf_address(const struct elf_tables *tables, const ElfW(Sym) * symbol) {
    if (!symbol || ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
        return NULL;
    return (void *)(tables->base + symbol->st_value);
}

void *elf_symbol(const struct dl_phdr_info *info, const char *name) {
    struct elf_tables tables;
    return elf_tables(info, &tables) ? elf_address(&tables, elf_definition(&tables, name, elf_hash(name))) : NULL;
}
