/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of elf_symbol.h (the table's layout: "GNU Hash ELF Sections", Ali Bahrami).
 */
#include "shim/elf_symbol.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct symbol_tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *hash;
};

static const void *dynamic_address(const struct dl_phdr_info *info, uint64_t value) {
    return (const void *)(value < info->dlpi_addr ? value + info->dlpi_addr : value);
}

static void find_tables(const struct dl_phdr_info *info, struct symbol_tables *tables) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; d->d_tag != DT_NULL; d++) {
            if (d->d_tag == DT_SYMTAB)
                tables->symbols = dynamic_address(info, d->d_un.d_ptr);
            else if (d->d_tag == DT_STRTAB)
                tables->strings = dynamic_address(info, d->d_un.d_ptr);
            else if (d->d_tag == DT_GNU_HASH)
                tables->hash = dynamic_address(info, d->d_un.d_ptr);
        }
    }
}

void *elf_symbol(const struct dl_phdr_info *info, const char *name) {
    struct symbol_tables tables = {0};
    find_tables(info, &tables);
    const uint32_t *hash = tables.hash;
    if (!tables.symbols || !tables.strings || !hash || !hash[0])
        return NULL;
    uint32_t buckets = hash[0], first = hash[1], bloom_words = hash[2], h = 5381;
    const uint32_t *bucket = hash + 4 + bloom_words * (sizeof(size_t) / 4), *chain = bucket + buckets;
    for (const char *c = name; *c; c++)
        h = h * 33 + (unsigned char)*c;
    uint32_t i = bucket[h % buckets];
    if (i < first)
        return NULL;
    for (;; i++) {
        const ElfW(Sym) *symbol = &tables.symbols[i];
        uint32_t entry = chain[i - first];
        if ((entry | 1) == (h | 1) && symbol->st_value && !strcmp(tables.strings + symbol->st_name, name))
            return (void *)(info->dlpi_addr + symbol->st_value);
        if (entry & 1)
            return NULL;
    }
}

struct search {
    const char *name, *object;
    void *found;
};

static int search_object(struct dl_phdr_info *info, size_t size, void *data) {
    struct search *search = data;
    (void)size;
    /* The kernel's own object has no names of interest, and old ones describe their tables unrelocated. */
    if (strncmp(info->dlpi_name, "linux-vdso", 10) != 0)
        search->found = elf_symbol(info, search->name);
    search->object = info->dlpi_name;
    return search->found != NULL;
}

void *elf_symbol_anywhere(const char *name, const char **object) {
    struct search search = {.name = name};
    dl_iterate_phdr(search_object, &search);
    if (object)
        *object = search.found ? search.object : NULL;
    return search.found;
}

static bool is_libc(const char *path) {
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    return !strncmp(base, "libc.so", 7) || !strncmp(base, "libc-2", 6) || !strncmp(base, "libdl.so", 8) ||
           !strncmp(base, "libdl-2", 7);
}

static int search_libc(struct dl_phdr_info *info, size_t size, void *data) {
    struct search *search = data;
    (void)size;
    if (is_libc(info->dlpi_name))
        search->found = elf_symbol(info, search->name);
    return search->found != NULL;
}

void *elf_symbol_in_libc(const char *name) {
    struct search search = {.name = name};
    dl_iterate_phdr(search_libc, &search);
    return search.found;
}
