/* SPDX-License-Identifier: Apache-2.0
 *
 * Small ELF files for tests.
 * Lives here: their layout. Must not live here: anything that reads them.
 */
#include "test/support/elf_builder.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUILD_ID_BYTES = 20, SECTIONS = 6 };

static void fail(const char *what) {
    fprintf(stderr, "elf_builder: %s\n", what);
    abort();
}

/* A file that grows; parts begin at multiples of 8. */
struct growing {
    uint8_t *data;
    size_t bytes;
};

static size_t append(struct growing *file, const void *data, size_t bytes) {
    size_t at = (file->bytes + 7) / 8 * 8;
    file->data = realloc(file->data, at + bytes + 8);
    if (!file->data)
        fail("no memory");
    memset(file->data + file->bytes, 0, at + bytes + 8 - file->bytes);
    if (bytes)
        memcpy(file->data + at, data, bytes);
    file->bytes = at + bytes;
    return at;
}

static size_t append_symbols(struct growing *file, const struct elf_builder_symbol *symbols, struct growing *names,
                             size_t *bytes) {
    size_t count = 0;
    while (symbols && symbols[count].name)
        count++;
    Elf64_Sym *table = calloc(count + 1, sizeof(*table));
    if (!table)
        fail("no memory");
    for (size_t i = 0; i < count; i++) {
        table[i + 1] = (Elf64_Sym){.st_value = symbols[i].address, .st_size = symbols[i].size, .st_shndx = 1};
        table[i + 1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
        table[i + 1].st_name = (Elf64_Word)append(names, symbols[i].name, strlen(symbols[i].name) + 1);
    }
    *bytes = (count + 1) * sizeof(*table);
    size_t at = append(file, table, *bytes);
    free(table);
    return at;
}

static size_t append_note(struct growing *file, uint8_t build_id, size_t *bytes) {
    struct {
        Elf64_Nhdr head;
        char name[4];
        uint8_t value[BUILD_ID_BYTES];
    } note = {.head = {4, BUILD_ID_BYTES, NT_GNU_BUILD_ID}, .name = "GNU"};
    memset(note.value, build_id, sizeof(note.value));
    *bytes = sizeof(note);
    return append(file, &note, sizeof(note));
}

size_t elf_builder_make(uint8_t **data, const struct elf_builder_symbol *symbols, const uint8_t *build_id,
                        const char *link, uint32_t crc) {
    static const char section_names[] = "\0.symtab\0.strtab\0.shstrtab\0.note\0.gnu_debuglink";
    struct growing file = {0}, names = {0};
    Elf64_Ehdr header = {.e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = EV_CURRENT};
    Elf64_Phdr segments[2] = {{.p_type = PT_LOAD, .p_memsz = ELF_BUILDER_EXTENT}, {.p_type = PT_NULL}};
    Elf64_Shdr sections[SECTIONS] = {{0}};
    size_t bytes;
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    append(&file, &header, sizeof(header));
    header.e_phoff = append(&file, segments, sizeof(segments));
    append(&names, "", 1);
    size_t at = append_symbols(&file, symbols, &names, &bytes);
    sections[1] = (Elf64_Shdr){.sh_name = 1,
                               .sh_type = SHT_SYMTAB,
                               .sh_offset = at,
                               .sh_size = bytes,
                               .sh_link = 2,
                               .sh_entsize = sizeof(Elf64_Sym)};
    at = append(&file, names.data, names.bytes);
    sections[2] = (Elf64_Shdr){.sh_name = 9, .sh_type = SHT_STRTAB, .sh_offset = at, .sh_size = names.bytes};
    at = append(&file, section_names, sizeof(section_names));
    sections[3] = (Elf64_Shdr){.sh_name = 17, .sh_type = SHT_STRTAB, .sh_offset = at, .sh_size = sizeof(section_names)};
    if (build_id) {
        at = append_note(&file, *build_id, &bytes);
        sections[4] = (Elf64_Shdr){.sh_name = 27, .sh_type = SHT_NOTE, .sh_offset = at, .sh_size = bytes};
        segments[1] = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = at, .p_filesz = bytes, .p_memsz = bytes};
    }
    if (link) {
        char text[64] = "";
        size_t crc_at = (strlen(link) + 4) / 4 * 4;
        memcpy(text, link, strlen(link));
        memcpy(text + crc_at, &crc, 4);
        at = append(&file, text, crc_at + 4);
        sections[5] = (Elf64_Shdr){.sh_name = 33, .sh_type = SHT_PROGBITS, .sh_offset = at, .sh_size = crc_at + 4};
    }
    header.e_shoff = append(&file, sections, sizeof(sections));
    header.e_phnum = 2;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_shnum = SECTIONS;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shstrndx = 3;
    memcpy(file.data, &header, sizeof(header));
    memcpy(file.data + header.e_phoff, segments, sizeof(segments));
    free(names.data);
    *data = file.data;
    return file.bytes;
}

void elf_builder_write(const char *path, const struct elf_builder_symbol *symbols, const uint8_t *build_id,
                       const char *link, uint32_t crc) {
    uint8_t *data;
    size_t bytes = elf_builder_make(&data, symbols, build_id, link, crc);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
        fail("cannot write");
    free(data);
}
