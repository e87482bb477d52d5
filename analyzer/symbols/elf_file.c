/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading ELF files that nobody vouches for.
 * Lives here: headers, notes, symbol tables, with every offset checked.
 * Must not live here: which file to read.
 */
#include "analyzer/symbols/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/base/regular_file.h"

enum {
    SECTIONS_READ_MAX = 1u << 16,
    SEGMENTS_READ_MAX = 1u << 12,
    NOTES_BYTES_MAX = 1u << 16,
    NAMES_BYTES_MAX = 1u << 24, /* of the section names */
    COVER_STEPS = 64,           /* symbols looked at for one that spans an address */
    UNSIZED_REACH = 4096,       /* how far a symbol without a size reaches at most */
};
#define TABLE_BYTES_MAX (UINT64_C(1) << 31)

/* Reads exactly `bytes` from `offset`. */
static bool read_at(const struct elf_file *file, uint64_t offset, void *to, uint64_t bytes) {
    if (offset > file->bytes || bytes > file->bytes - offset)
        return false;
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(file->fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got <= 0)
            return false;
        done += (uint64_t)got;
    }
    return true;
}

/* A part of the file in memory with a zero behind it. NULL when it is not there, larger than `most`, or memory is
 * short. */
static char *load_part(const struct elf_file *file, uint64_t offset, uint64_t bytes, uint64_t most) {
    if (bytes > most || offset > file->bytes || bytes > file->bytes - offset)
        return NULL;
    char *data = malloc(bytes + 1);
    if (!data || !read_at(file, offset, data, bytes)) {
        free(data);
        return NULL;
    }
    data[bytes] = '\0';
    return data;
}

static uint64_t padded(uint32_t bytes) {
    return ((uint64_t)bytes + 3) & ~UINT64_C(3);
}

/* Looks for the build-id in a run of notes. */
static void take_notes(struct elf_file *file, uint64_t offset, uint64_t bytes) {
    if (file->build_id_bytes > 0)
        return;
    char *notes = load_part(file, offset, bytes, NOTES_BYTES_MAX);
    Elf64_Nhdr head;
    for (uint64_t at = 0; notes && bytes - at >= sizeof head;) {
        memcpy(&head, notes + at, sizeof head);
        uint64_t name = at + sizeof head, value = name + padded(head.n_namesz), end = value + padded(head.n_descsz);
        if (value > bytes || head.n_descsz > bytes - value)
            break;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0 &&
            head.n_descsz > 0 && head.n_descsz <= ELF_BUILD_ID_MAX) {
            memcpy(file->build_id, notes + value, head.n_descsz);
            file->build_id_bytes = head.n_descsz;
            break;
        }
        if (end > bytes)
            break;
        at = end;
    }
    free(notes);
}

static void take_segments(struct elf_file *file, const Elf64_Ehdr *header) {
    file->low = UINT64_MAX;
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > SEGMENTS_READ_MAX)
        return;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        if (!read_at(file, header->e_phoff + i * sizeof segment, &segment, sizeof segment))
            return;
        if (segment.p_type == PT_NOTE)
            take_notes(file, segment.p_offset, segment.p_filesz);
        if (segment.p_type != PT_LOAD || segment.p_vaddr > UINT64_MAX - segment.p_memsz)
            continue;
        if (segment.p_vaddr < file->low)
            file->low = segment.p_vaddr;
        if (segment.p_vaddr + segment.p_memsz > file->high)
            file->high = segment.p_vaddr + segment.p_memsz;
    }
}

static bool read_section(const struct elf_file *file, uint32_t index, Elf64_Shdr *section) {
    return index < file->section_count &&
           read_at(file, file->sections_at + (uint64_t)index * sizeof *section, section, sizeof *section);
}

static void take_debug_link(struct elf_file *file, const Elf64_Shdr *section) {
    char *link = load_part(file, section->sh_offset, section->sh_size, ELF_LINK_MAX + 8);
    size_t length = link ? strlen(link) : 0;
    uint64_t crc_at = (length + 4) & ~UINT64_C(3);
    if (length > 0 && length < ELF_LINK_MAX && !strchr(link, '/') && crc_at + 4 <= section->sh_size) {
        memcpy(file->debug_link, link, length + 1);
        memcpy(&file->debug_link_crc, link + crc_at, 4);
    }
    free(link);
}

static void take_section(struct elf_file *file, const Elf64_Shdr *section, const char *name) {
    if (section->sh_type == SHT_SYMTAB)
        file->has_symtab = section->sh_size > sizeof(Elf64_Sym); /* its first entry is none */
    else if (section->sh_type == SHT_NOTE)
        take_notes(file, section->sh_offset, section->sh_size);
    else if (section->sh_type == SHT_PROGBITS && strcmp(name, ".gnu_debuglink") == 0)
        take_debug_link(file, section);
    else if (section->sh_type == SHT_PROGBITS &&
             (strcmp(name, ".debug_line") == 0 || strcmp(name, ".zdebug_line") == 0))
        file->has_lines = true;
}

static void take_sections(struct elf_file *file, const Elf64_Ehdr *header) {
    Elf64_Shdr first = {0}, names_section;
    file->sections_at = header->e_shoff;
    file->section_count = 1;
    if (header->e_shoff == 0 || header->e_shentsize != sizeof first || header->e_shoff > file->bytes ||
        !read_section(file, 0, &first)) {
        file->section_count = 0;
        return;
    }
    uint64_t count = header->e_shnum ? header->e_shnum : first.sh_size;
    uint32_t names_index = header->e_shstrndx == SHN_XINDEX ? first.sh_link : header->e_shstrndx;
    file->section_count = count < SECTIONS_READ_MAX ? (uint32_t)count : SECTIONS_READ_MAX;
    char *names = NULL;
    uint64_t names_bytes = 0;
    if (read_section(file, names_index, &names_section)) {
        names = load_part(file, names_section.sh_offset, names_section.sh_size, NAMES_BYTES_MAX);
        names_bytes = names ? names_section.sh_size : 0;
    }
    for (uint32_t i = 1; i < file->section_count; i++) {
        Elf64_Shdr section;
        if (!read_section(file, i, &section))
            break;
        take_section(file, &section, section.sh_name < names_bytes ? names + section.sh_name : "");
    }
    free(names);
}

bool elf_open(struct elf_file *file, const char *path) {
    struct stat status;
    Elf64_Ehdr header;
    *file = (struct elf_file){.fd = regular_file_open(AT_FDCWD, path, 0)};
    if (file->fd < 0)
        return false;
    if (fstat(file->fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
        file->bytes = (uint64_t)status.st_size;
    const uint8_t order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    if (!read_at(file, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != order) {
        elf_close(file);
        return false;
    }
    take_segments(file, &header);
    take_sections(file, &header);
    return true;
}

void elf_close(struct elf_file *file) {
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

bool elf_crc(const struct elf_file *file, uint32_t *crc) {
    uint8_t buffer[65536];
    uLong value = crc32(0, NULL, 0);
    for (uint64_t at = 0; at < file->bytes;) {
        uint64_t part = file->bytes - at < sizeof buffer ? file->bytes - at : sizeof buffer;
        if (!read_at(file, at, buffer, part))
            return false;
        value = crc32(value, buffer, (uInt)part);
        at += part;
    }
    *crc = (uint32_t)value;
    return true;
}

/* ---- symbols --------------------------------------------------------------------------------- */

static int compare_symbols(const void *a, const void *b) {
    const struct elf_symbol *left = a, *right = b;
    if (left->address != right->address)
        return left->address < right->address ? -1 : 1;
    if (left->preference != right->preference)
        return left->preference < right->preference ? -1 : 1;
    return strcmp(left->name, right->name);
}

static void sort_symbols(struct elf_symbols *symbols) {
    if (symbols->count == 0)
        return;
    qsort(symbols->items, symbols->count, sizeof *symbols->items, compare_symbols);
    size_t kept = 1;
    for (size_t i = 1; i < symbols->count; i++)
        if (symbols->items[i].address != symbols->items[kept - 1].address)
            symbols->items[kept++] = symbols->items[i];
        else if (symbols->items[kept - 1].size == 0)
            symbols->items[kept - 1].size = symbols->items[i].size;
    symbols->count = kept;
}

static bool is_function(const Elf64_Sym *symbol) {
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS && symbol->st_value != 0 &&
           (type == STT_FUNC || type == STT_GNU_IFUNC);
}

/* Names that other files can call come before those that they may, and these before names of the file's own. */
static uint8_t preference(const Elf64_Sym *symbol) {
    unsigned binding = ELF64_ST_BIND(symbol->st_info);
    return binding == STB_GLOBAL ? 0 : binding == STB_WEAK ? 1 : 2;
}

/* Returns false when memory is short. */
static bool read_table(struct elf_symbols *symbols, const struct elf_file *file, const Elf64_Shdr *section) {
    Elf64_Shdr names_section;
    if (section->sh_entsize != sizeof(Elf64_Sym) || !read_section(file, section->sh_link, &names_section))
        return true;
    char *table = load_part(file, section->sh_offset, section->sh_size, TABLE_BYTES_MAX);
    char *names = load_part(file, names_section.sh_offset, names_section.sh_size, TABLE_BYTES_MAX);
    size_t count = section->sh_size / sizeof(Elf64_Sym);
    bool enough_memory = true;
    if (table && names && count > 0) {
        symbols->items = malloc(count * sizeof *symbols->items);
        enough_memory = symbols->items != NULL;
    }
    for (size_t i = 0; symbols->items && i < count; i++) {
        Elf64_Sym symbol;
        memcpy(&symbol, table + i * sizeof symbol, sizeof symbol);
        if (is_function(&symbol) && symbol.st_name < names_section.sh_size && names[symbol.st_name])
            symbols->items[symbols->count++] =
                (struct elf_symbol){symbol.st_value, symbol.st_size, names + symbol.st_name, preference(&symbol)};
    }
    free(table);
    symbols->names = names;
    sort_symbols(symbols);
    return enough_memory;
}

bool elf_symbols_read(struct elf_symbols *symbols, const struct elf_file *file) {
    *symbols = (struct elf_symbols){0};
    for (uint32_t i = 1; i < file->section_count; i++) {
        Elf64_Shdr section;
        if (!read_section(file, i, &section))
            break;
        if (section.sh_type == (file->has_symtab ? SHT_SYMTAB : SHT_DYNSYM))
            return read_table(symbols, file, &section);
    }
    return true;
}

void elf_symbols_free(struct elf_symbols *symbols) {
    free(symbols->items);
    free(symbols->names);
    *symbols = (struct elf_symbols){0};
}

const struct elf_symbol *elf_symbol_at(const struct elf_symbols *symbols, uint64_t address) {
    size_t low = 0, high = symbols->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (symbols->items[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    /* a function may hold others' labels: the nearest that spans the address, else the nearest of unknown size */
    for (size_t back = 1; back <= COVER_STEPS && back <= low; back++) {
        const struct elf_symbol *symbol = &symbols->items[low - back];
        if (address - symbol->address < symbol->size)
            return symbol;
    }
    if (low == 0 || symbols->items[low - 1].size != 0 || address - symbols->items[low - 1].address >= UNSIZED_REACH)
        return NULL;
    for (size_t back = 2; back <= COVER_STEPS && back <= low; back++) { /* a label ends with the function it is in */
        const struct elf_symbol *symbol = &symbols->items[low - back];
        if (symbols->items[low - 1].address - symbol->address < symbol->size)
            return NULL;
    }
    return &symbols->items[low - 1];
}
