/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at a program file: can a library be preloaded into it, and would its calls of MPI come by one?
 * Lives here: the few bytes of an ELF file that tell.
 * Must not live here: which file the command is (launched_program.c), words for the user beyond the reason.
 */
#include "analyzer/run/run.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"

struct program {
    const char *base;
    size_t bytes;
    struct stat status;
};

/* `bytes` of the file at `offset`, NULL where it does not have them. */
static const void *part_of(const struct program *program, uint64_t offset, uint64_t bytes) {
    return offset <= program->bytes && bytes <= program->bytes - offset ? program->base + offset : NULL;
}

static const Elf64_Ehdr *header_of(const struct program *program) {
    const Elf64_Ehdr *header = part_of(program, 0, sizeof *header);
    return header && !memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_ident[EI_CLASS] == ELFCLASS64 &&
                   (header->e_type == ET_EXEC || header->e_type == ET_DYN)
               ? header
               : NULL;
}

/* Only a program with an interpreter is started by the dynamic loader, which is what honours LD_PRELOAD. */
static bool has_interpreter(const struct program *program, const Elf64_Ehdr *header) {
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        const void *at = part_of(program, header->e_phoff + (uint64_t)i * header->e_phentsize, sizeof segment);
        if (!at)
            return true;
        memcpy(&segment, at, sizeof segment);
        if (segment.p_type == PT_INTERP)
            return true;
    }
    return false;
}

/* ---- symbols --------------------------------------------------------------------------------- */

struct mpi_symbols {
    bool defines_pmpi; /* a function of MPI's own second name: the library itself is in the program */
    bool calls_pmpi;
};

static void take_symbol(struct mpi_symbols *found, const Elf64_Sym *symbol, const char *name) {
    if (strncmp(name, "PMPI_", 5) != 0)
        return;
    found->defines_pmpi |= symbol->st_shndx != SHN_UNDEF;
    found->calls_pmpi |= symbol->st_shndx == SHN_UNDEF;
}

static void take_table(struct mpi_symbols *found, const struct program *program, const Elf64_Shdr *table,
                       const Elf64_Shdr *names) {
    const char *text = part_of(program, names->sh_offset, names->sh_size);
    const char *symbols = part_of(program, table->sh_offset, table->sh_size);
    if (!text || !symbols || names->sh_size == 0 || text[names->sh_size - 1] != '\0')
        return;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols + at, sizeof symbol);
        if (symbol.st_name < names->sh_size)
            take_symbol(found, &symbol, text + symbol.st_name);
    }
}

static struct mpi_symbols find_symbols(const struct program *program, const Elf64_Ehdr *header) {
    struct mpi_symbols found = {0};
    for (unsigned i = 0; i < header->e_shnum; i++) {
        Elf64_Shdr table, names;
        const void *at = part_of(program, header->e_shoff + (uint64_t)i * header->e_shentsize, sizeof table);
        if (!at)
            break;
        memcpy(&table, at, sizeof table);
        if (table.sh_type != SHT_DYNSYM && table.sh_type != SHT_SYMTAB)
            continue;
        at = part_of(program, header->e_shoff + (uint64_t)table.sh_link * header->e_shentsize, sizeof names);
        if (!at)
            continue;
        memcpy(&names, at, sizeof names);
        take_table(&found, program, &table, &names);
    }
    return found;
}

/* ---- what stands in the way ------------------------------------------------------------------ */

static const char *find_obstacle(const struct program *program) {
    const struct stat *status = &program->status;
    const Elf64_Ehdr *header = header_of(program);
    if (!header)
        return NULL;
    if (!has_interpreter(program, header))
        return "is statically linked, so nothing can be preloaded into it";
    if (((status->st_mode & S_ISUID) && status->st_uid != geteuid()) ||
        ((status->st_mode & S_ISGID) && status->st_gid != getegid()))
        return "is setuid or setgid, so nothing can be preloaded into it";
    struct mpi_symbols symbols = find_symbols(program, header);
    if (symbols.defines_pmpi)
        return "has MPI linked into it statically, so its calls do not come by a library";
    if (symbols.calls_pmpi)
        return "calls PMPI functions itself, as a program with MPI functions of its own does: commtap sees calls of "
               "MPI functions only";
    return NULL;
}

const char *run_program_obstacle(const char *path) {
    int file = regular_file_open(AT_FDCWD, path, 0);
    struct program program;
    const char *obstacle = NULL;
    if (file < 0)
        return NULL;
    if (!fstat(file, &program.status) && S_ISREG(program.status.st_mode) && (program.status.st_mode & 0111) &&
        program.status.st_size > 0) {
        program.bytes = (size_t)program.status.st_size;
        void *base = mmap(NULL, program.bytes, PROT_READ, MAP_PRIVATE, file, 0);
        program.base = base;
        obstacle = base == MAP_FAILED ? NULL : find_obstacle(&program);
        if (base != MAP_FAILED)
            munmap(base, program.bytes);
    }
    close(file);
    return obstacle;
}
