/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at a program file: can a library be preloaded into it?
 * Lives here: the few bytes of an ELF file that tell.
 * Must not live here: which file the command is, words for the user beyond the reason.
 */
#include "analyzer/run/run.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"

/* Only a program with an interpreter is started by the dynamic loader, which is what honours LD_PRELOAD. */
static bool has_interpreter(int file, const Elf64_Ehdr *header) {
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        off_t offset = (off_t)(header->e_phoff + (uint64_t)i * header->e_phentsize);
        if (pread(file, &segment, sizeof segment, offset) != sizeof segment)
            return true;
        if (segment.p_type == PT_INTERP)
            return true;
    }
    return false;
}

static bool is_program(const Elf64_Ehdr *header) {
    return !memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_ident[EI_CLASS] == ELFCLASS64 &&
           (header->e_type == ET_EXEC || header->e_type == ET_DYN);
}

const char *run_program_obstacle(const char *path) {
    int file = regular_file_open(AT_FDCWD, path, 0);
    if (file < 0)
        return NULL;
    struct stat status;
    Elf64_Ehdr header;
    const char *obstacle = NULL;
    if (!fstat(file, &status) && S_ISREG(status.st_mode) && (status.st_mode & 0111) &&
        pread(file, &header, sizeof header, 0) == sizeof header && is_program(&header)) {
        bool privileged = ((status.st_mode & S_ISUID) && status.st_uid != geteuid()) ||
                          ((status.st_mode & S_ISGID) && status.st_gid != getegid());
        if (!has_interpreter(file, &header))
            obstacle = "is statically linked";
        else if (privileged)
            obstacle = "is setuid or setgid";
    }
    close(file);
    return obstacle;
}
