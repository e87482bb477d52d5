/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at a program file: can a library be preloaded into it, and would its calls of MPI come by one?
 * Lives here: the few bytes of a file that tell.
 * Must not live here: which file the command is (launched_program.c), words for the user beyond the reason.
 */
#include "analyzer/run/program_file.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"
#include "analyzer/run/run.h"

struct program {
    const char *base;
    size_t bytes;
};

/* `bytes` of the file at `offset`, NULL where it does not have them. */
static const void *part_of(const struct program *program, uint64_t offset, uint64_t bytes) {
    return offset <= program->bytes && bytes <= program->bytes - offset ? program->base + offset : NULL;
}

static bool is_elf(const struct program *program) {
    const char *ident = part_of(program, 0, EI_NIDENT);
    return ident && !memcmp(ident, ELFMAG, SELFMAG);
}

static const Elf64_Ehdr *header_of(const struct program *program) {
    const Elf64_Ehdr *header = part_of(program, 0, sizeof *header);
    return header && header->e_ident[EI_CLASS] == ELFCLASS64 && (header->e_type == ET_EXEC || header->e_type == ET_DYN)
               ? header
               : NULL;
}

/* Only a program with an interpreter is started by the dynamic loader, which is what honours LD_PRELOAD. */
static void find_interpreter(struct program_file *file, const struct program *program, const Elf64_Ehdr *header) {
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        const void *at = part_of(program, header->e_phoff + (uint64_t)i * header->e_phentsize, sizeof segment);
        if (!at)
            return;
        memcpy(&segment, at, sizeof segment);
        if (segment.p_type != PT_INTERP)
            continue;
        const char *name = part_of(program, segment.p_offset, segment.p_filesz);
        int length = name && segment.p_filesz < sizeof file->interpreter ? (int)segment.p_filesz : 0;
        snprintf(file->interpreter, sizeof file->interpreter, "%.*s", length, name ? name : "");
        return;
    }
}

/* ---- symbols --------------------------------------------------------------------------------- */

static void take_symbol(struct program_file *file, const Elf64_Sym *symbol, const char *name) {
    bool is_defined = symbol->st_shndx != SHN_UNDEF;
    if (strncmp(name, "PMPI_", 5) == 0) {
        file->defines_pmpi |= is_defined;
        file->calls_pmpi |= !is_defined;
    } else if (strncmp(name, "MPI_", 4) == 0) {
        file->calls_mpi |= !is_defined;
    } else if (strcmp(name, "ncclCommInitRank") == 0 || strcmp(name, "ncclCommInitRankConfig") == 0 ||
               strcmp(name, "ncclCommInitAll") == 0 || strcmp(name, "ncclAllReduce") == 0) {
        file->defines_nccl |= is_defined;
        file->calls_nccl |= !is_defined;
    }
}

static void take_table(struct program_file *file, const struct program *program, const Elf64_Shdr *table,
                       const Elf64_Shdr *names) {
    const char *text = part_of(program, names->sh_offset, names->sh_size);
    const char *symbols = part_of(program, table->sh_offset, table->sh_size);
    if (!text || !symbols || names->sh_size == 0 || text[names->sh_size - 1] != '\0')
        return;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols + at, sizeof symbol);
        if (symbol.st_name < names->sh_size)
            take_symbol(file, &symbol, text + symbol.st_name);
    }
}

static void find_symbols(struct program_file *file, const struct program *program, const Elf64_Ehdr *header) {
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
        take_table(file, program, &table, &names);
    }
}

/* ---- one file -------------------------------------------------------------------------------- */

static bool holds(const struct program *program, const char *text) {
    return memmem(program->base, program->bytes, text, strlen(text)) != NULL;
}

/* A part of a program's file is not started, whatever it still tells. */
static bool is_cut(const struct program *program, const Elf64_Ehdr *header) {
    bool whole = true;
    for (unsigned i = 0; whole && i < header->e_phnum; i++) {
        Elf64_Phdr segment = {.p_type = PT_NULL};
        const void *at = part_of(program, header->e_phoff + (uint64_t)i * header->e_phentsize, sizeof segment);
        if (at)
            memcpy(&segment, at, sizeof segment);
        bool held = segment.p_type == PT_LOAD || segment.p_type == PT_INTERP;
        whole = at && (!held || part_of(program, segment.p_offset, segment.p_filesz));
    }
    return !whole;
}

static void read_elf(struct program_file *file, const struct program *program) {
    const Elf64_Ehdr *header = header_of(program);
    bool says_64 = program->base[EI_CLASS] == ELFCLASS64;
    file->is_cut = says_64 && (header ? is_cut(program, header) : program->bytes < sizeof *header);
    file->is_64_bits = header != NULL && !file->is_cut;
    if (!file->is_64_bits)
        return;
    file->machine = header->e_machine;
    find_interpreter(file, program, header);
    find_symbols(file, program, header);
    file->names_mpi = holds(program, "libmpi.so") || holds(program, "libmpich.so") || holds(program, "libmpi_abi.so");
    file->is_commtap_mpi = file->calls_pmpi && holds(program, COMMTAP_MPI_MARK);
    file->names_nccl = holds(program, "libnccl.so") || holds(program, "librccl.so");
}

static void read_first_line(struct program_file *file, const struct program *program) {
    size_t at = 2, length = 0;
    while (at < program->bytes && (program->base[at] == ' ' || program->base[at] == '\t'))
        at++;
    while (at + length < program->bytes && length < sizeof file->script_of - 1 && program->base[at + length] != '\n' &&
           program->base[at + length] != '\0')
        length++;
    memcpy(file->script_of, program->base + at, length);
    while (length > 0 && isspace((unsigned char)file->script_of[length - 1]))
        length--;
    file->script_of[length] = '\0';
}

static void read_bytes(struct program_file *file, const struct program *program) {
    const char *mark = part_of(program, 0, 2);
    file->is_elf = is_elf(program);
    if (file->is_elf)
        read_elf(file, program);
    else if (mark && mark[0] == '#' && mark[1] == '!')
        read_first_line(file, program);
}

static void read_rights(struct program_file *file, int fd, const struct stat *status) {
    file->is_setuid = ((status->st_mode & S_ISUID) && status->st_uid != geteuid()) ||
                      ((status->st_mode & S_ISGID) && status->st_gid != getegid());
    file->has_capabilities = fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

bool program_file_read(struct program_file *file, const char *path) {
    memset(file, 0, sizeof *file);
    int fd = regular_file_open(AT_FDCWD, path, 0);
    struct stat status;
    if (fd < 0)
        return false;
    struct program program = {.bytes = fstat(fd, &status) == 0 && status.st_size > 0 ? (size_t)status.st_size : 0};
    void *base = program.bytes ? mmap(NULL, program.bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    int error = errno;
    if (base != MAP_FAILED) {
        program.base = base;
        read_bytes(file, &program);
        read_rights(file, fd, &status);
        munmap(base, program.bytes);
    }
    close(fd);
    errno = error;
    return base != MAP_FAILED || program.bytes == 0;
}

/* ---- what stands in the way ------------------------------------------------------------------ */

const char *run_program_obstacle(const char *path) {
    struct program_file file;
    if (access(path, X_OK) != 0 || !program_file_read(&file, path) || !file.is_64_bits)
        return NULL;
    if (!file.interpreter[0])
        return "is statically linked, so nothing can be preloaded into it";
    if (file.is_setuid)
        return "is setuid or setgid, so nothing can be preloaded into it";
    if (file.has_capabilities)
        return "has file capabilities, so nothing can be preloaded into it";
    if (file.defines_pmpi)
        return "has MPI linked into it statically, so its calls do not come by a library";
    if (file.is_commtap_mpi)
        return "is a part of commtap, which is never recorded";
    if (file.calls_pmpi)
        return "calls PMPI functions itself, as a program with MPI functions of its own does: commtap sees calls of "
               "MPI functions only";
    return NULL;
}
