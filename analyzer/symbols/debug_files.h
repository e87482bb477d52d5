/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the file that ran, and its debug data, are found now.
 * Lives here: looking for files, and judging whether they are the right ones.
 * Must not live here: what is in them.
 */
#ifndef COMMTAP_SYMBOLS_DEBUG_FILES_H
#define COMMTAP_SYMBOLS_DEBUG_FILES_H

#include "analyzer/symbols/elf_file.h"

/* What ran, as a dump tells it. */
struct ran {
    const char *path;
    const uint8_t *build_id;
    uint32_t build_id_bytes; /* 0 = it has none */
    uint64_t extent;         /* bytes of address space it took */
};

enum file_state {
    FILE_SOUND = 0, /* the very file: same build-id, or same extent where it has none */
    FILE_GONE,
    FILE_REPLACED, /* another file lies there now */
};

/* Opens the file at ran->path into *file if it is the one that ran; otherwise nothing is open. */
enum file_state debug_files_open(struct elf_file *file, const struct ran *ran);

/* Looks for a file with the symbol table and lines of what ran, beside the file itself: below
 * `directory`/.build-id, by the .gnu_debuglink of `file` (NULL: not to be had), and where the environment names servers
 * in DEBUGINFOD_URLS, there. Opens it into *found and stores its path in `path`. Returns false when there is none. */
bool debug_files_find(struct elf_file *found, char path[4096], const struct ran *ran, const struct elf_file *file,
                      const char *directory);

#endif
