/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic linker's own functions, and the C library's, whoever interposes on them.
 * Lives here: finding them in the loaded objects' tables; calling them. Must not live here: what is looked up, and why.
 *
 * Sanitizers and allocators interpose on much of the C library. While they start they call dlsym(), which is ours, and
 * their functions cannot be called yet; later they would take what we do for the job's doing. So nothing that dlsym()
 * or the first call of a wrapper reaches may go through this library's procedure linkage table.
 */
#ifndef COMMTAP_SHIM_BASE_LINKER_H
#define COMMTAP_SHIM_BASE_LINKER_H

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/base/elf_symbol.h"

/* As the functions without the prefix; where the C library's tables cannot be read they find nothing. */
void *linker_dlsym(void *handle, const char *name);
void *linker_dlvsym(void *handle, const char *name, const char *version);
void *linker_dlopen(const char *path, int flags);
int linker_dlclose(void *handle);
char *linker_dlerror(void);
int linker_dladdr(const void *address, Dl_info *info);
int linker_iterate(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data);

/* The next definition behind this library in link order: RTLD_NEXT means the one behind the caller, which is us. */
void *linker_next(const char *name);

/* A handle of a library that is loaded already, which then stays loaded until it is closed; else NULL. So are all
 * before the C library has begun. */
void *linker_loaded(const char *path);

/* What a loaded library, by its path, finds under a name, itself and all it depends on; never ours. It stays loaded no
 * longer for it. */
void *linker_in_loaded(const char *path, const char *name);

/* The first definition in the global scope, where that is not ours. */
void *linker_in_global_scope(const char *name);

/* What the library that `address` lies in finds under a name, itself and all it depends on; never ours. */
void *linker_in_library_of(const void *address, const char *name);

/* dlsym and dlvsym as addresses, for jumps that keep the caller; NULL where they are not to be had. */
void *linker_dlsym_address(void);
void *linker_dlvsym_address(void);

/* Does the address lie in this library? */
bool linker_is_ours(const void *address);

/* Does the address lie in that object? */
bool linker_contains(const struct dl_phdr_info *object, uintptr_t address);

/* Does the object that the address lies in refer to functions of others whose names begin with `prefix`? */
bool linker_refers_to(const void *address, const char *prefix);

/* Is this library the first that has the name behind the object that the address lies in, among those that the process
 * starts with? They stand in the linker's list in link order, and before those that are loaded later. */
bool linker_is_next_to(const void *address, const char *name);

/* Does the file name of a library's path begin with one of `names`? Each of these ends with a zero, and so does their
 * list: a table of pointers would be relocated in every process. */
bool linker_file_begins(const char *path, const char *names);

/* This library's own tables, as they are in the file. Empty where the same code is part of another object (tests,
 * benchmarks): what that refers to is not ours alone, nor may it be written to. */
const struct elf_tables *linker_own_tables(void);

/* How the linker's messages call an object: by its path, the program as it was started. `name` is the linker's, "" =
 * the program; the answer may be `name` itself. */
const char *linker_object_name(const char *name);

/* The same for the object that an address lies in, or that a handle of dlopen() stands for. */
const char *linker_object_at(const void *address);
const char *linker_object_of_handle(const void *handle);

/* The first definition in any loaded object, the program first: whatever scope it was loaded into. NULL: nobody's.
 * `object`, unless NULL, becomes the linker's name of that object, "" = the program. */
void *linker_symbol_anywhere(const char *name, const char **object);

/* The same without this library's own. */
void *linker_symbol_elsewhere(const char *name);

/* Does any loaded object but this library define the name? */
bool linker_has_elsewhere(const char *name);

/* Do two of them? */
bool linker_has_several(const char *name);

/* A function of the C library's, or of those that older ones have beside it (libdl, libpthread). NULL when it has none
 * of that name. */
void *linker_symbol_in_libc(const char *name);

/* From here on this library's calls reach the C library itself. Not so pthread_create: sanitizers must know each
 * thread, or they fail in what the GPU's driver does on ours. */
void linker_bind_to_libc(void);

/* Ends a look-up, or a call, as the linker does when `object` refers to a function that is not there: dlopen() and
 * dlsym() of the job's fail with its message, anything else ends the process with it. Returns where the C library
 * offers no way to do so. */
void linker_fail(const char *object, const char *name);

#endif
