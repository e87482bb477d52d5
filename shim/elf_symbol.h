/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbols of the objects loaded in this process, read from their tables: no dlsym, which this library interposes, and
 * no dlerror of the job's touched. Must not live here: what is looked for, and why.
 */
#ifndef COMMTAP_ELF_SYMBOL_H
#define COMMTAP_ELF_SYMBOL_H

#include <link.h>

/* Address of a symbol that one object defines, by its GNU hash table; NULL when it has none of that name. */
void *elf_symbol(const struct dl_phdr_info *info, const char *name);

/* The first definition in any loaded object, the program first: whatever scope it was loaded into. NULL: nobody's.
 * `object`, unless NULL, becomes the linker's name of that object, "" = the program. */
void *elf_symbol_anywhere(const char *name, const char **object);

/* A function of libc's, or of the libdl that older ones have beside it, whoever interposes on it. NULL when it has none
 * of that name or its tables cannot be read. */
void *elf_symbol_in_libc(const char *name);

#endif
