/* SPDX-License-Identifier: Apache-2.0
 *
 * Order for a real function: the next definer in link order (which also chains other tools); the pinned provider; the
 * caller's own library and what it depends on (a module loaded RTLD_LOCAL); any loaded MPI library. dlopen is only ever
 * asked for what is loaded already.
 */
#include "shim/intercept/resolve.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "shim/base/linker.h"
#include "shim/base/lookup.h"
#include "shim/base/os.h"
#include "shim/base/unloads.h"

any_function real_functions[CALL_INDEX_COUNT];
any_function real_profiling_functions[CALL_INDEX_COUNT];

/* The library that provides the job's MPI, pinned at the first success. */
static struct {
    void *handle;
    char path[512];
} provider;

/* ---- which library --------------------------------------------------------------------------- */

static void pin_provider(const void *function) {
    Dl_info info;
    if (provider.handle || !linker_dladdr(function, &info) || !info.dli_fname)
        return;
    copy_text(provider.path, sizeof provider.path, info.dli_fname);
    provider.handle = linker_loaded(info.dli_fname);
}

void resolve_pin_provider(const void *function, void *handle) {
    pin_provider(function);
    if (!provider.handle)
        provider.handle = handle;
}

bool resolve_has_provider(void) {
    return provider.handle != NULL;
}

void *resolve_in_pinned(const char *name) {
    return provider.handle ? linker_dlsym(provider.handle, name) : NULL;
}

#define LIBRARIES_MAX 16
struct library_list {
    char paths[LIBRARIES_MAX][512];
    int count;
};

static int collect_mpi_library(struct dl_phdr_info *info, size_t size, void *data) {
    struct library_list *list = data;
    (void)size;
    if (list->count < LIBRARIES_MAX && linker_file_begins(info->dlpi_name, "libmpi\0"))
        copy_text(list->paths[list->count++], sizeof list->paths[0], info->dlpi_name);
    return 0;
}

static void *in_any_mpi_library(const char *name) {
    struct library_list list;
    list.count = 0;
    linker_iterate(collect_mpi_library, &list);
    for (int i = 0; i < list.count; i++) {
        void *handle = linker_loaded(list.paths[i]);
        void *found = handle ? linker_dlsym(handle, name) : NULL;
        if (found && !linker_is_ours(found))
            return found;
    }
    return NULL;
}

static void *find_real(const char *name, const void *caller) {
    void *found = linker_next(name);
    if (!found)
        found = resolve_in_pinned(name);
    if (!found)
        found = linker_in_library_of(caller, name);
    if (!found)
        found = in_any_mpi_library(name);
    return found ? found : linker_symbol_elsewhere(name);
}

void *resolve_name(const char *name, const void *caller) {
    int saved = lookup_begin();
    void *found = find_real(name, caller);
    if (found)
        pin_provider(found);
    lookup_end(saved);
    return found;
}

any_function resolve_absent(const char *name, const void *caller, any_function error) {
    linker_bind_to_libc();
    linker_fail(linker_object_at(caller), name);
    return error;
}

/* ---- hooks ----------------------------------------------------------------------------------- */

/* (call site, hook) -> function, until a library is unloaded. A writer empties the key first and a reader looks at it
 * last. */
#define HOOK_SITES 1024u
static struct hook_site {
    uint64_t key;
    any_function real;
} hook_sites[HOOK_SITES];

static uint64_t hook_key(const struct hook *hook, const void *caller) {
    uint32_t unloads = __atomic_load_n(&unloads_so_far, __ATOMIC_ACQUIRE);
    return hash_combine((uintptr_t)hook, (uintptr_t)caller ^ (uint64_t)unloads << 48) | 1;
}

static any_function known_site(uint64_t key) {
    const struct hook_site *site = &hook_sites[key / 2 % HOOK_SITES];
    if (__atomic_load_n(&site->key, __ATOMIC_ACQUIRE) != key)
        return NULL;
    any_function real = __atomic_load_n(&site->real, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&site->key, __ATOMIC_RELAXED) == key ? real : NULL;
}

static void learn_site(uint64_t key, any_function real) {
    struct hook_site *site = &hook_sites[key / 2 % HOOK_SITES];
    __atomic_store_n(&site->key, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&site->real, real, __ATOMIC_RELEASE);
    __atomic_store_n(&site->key, key, __ATOMIC_RELEASE);
}

/* Are both of libraries whose file names begin alike (up to ".so": libcudart.so.11 and libcudart.so.12)? */
static bool are_copies(const void *a, const void *b) {
    struct lookup_place first, second;
    if (!lookup_place(a, &first) || !lookup_place(b, &second) || first.base == second.base)
        return false;
    const char *x = strrchr(first.path, '/'), *y = strrchr(second.path, '/');
    const char *end = x ? strstr(x, ".so") : NULL;
    return end && y && !strncmp(x, y, (size_t)(end - x) + 3);
}

/* As the dynamic linker would have bound the call, were we not there: by link order, but not to another version of the
 * library that the caller brings itself. */
static any_function find_for_caller(const struct hook *hook, const void *caller) {
    const char *name = hook_target(&hook->name);
    void *next = linker_next(name), *own = linker_in_library_of(caller, name);
    if (own && (!next || are_copies(next, own)))
        return (any_function)own;
    any_function looked_up = __atomic_load_n((any_function *)hook_target(&hook->real), __ATOMIC_ACQUIRE);
    if (next || looked_up)
        return next ? (any_function)next : looked_up;
    return (any_function)linker_symbol_elsewhere(name);
}

any_function resolve_hook(const struct hook *hook, const void *caller) {
    uint64_t key = hook_key(hook, caller);
    any_function found = known_site(key);
    if (likely(found != NULL))
        return found;
    int saved = lookup_begin();
    found = find_for_caller(hook, caller);
    lookup_end(saved);
    if (found)
        learn_site(key, found);
    return found;
}

void *resolve_in_provider(const char *name) {
    int saved = lookup_begin();
    void *found = linker_dlsym(RTLD_DEFAULT, name);
    if ((!found || linker_is_ours(found)) && provider.handle)
        found = resolve_in_pinned(name);
    lookup_end(saved);
    return found && !linker_is_ours(found) ? found : NULL;
}

const char *resolve_provider_path(void) {
    return provider.path;
}

/* What a call returns that was not made: MPI_ERR_OTHER of Open MPI and the standard ABI; no MPI has it as success. */
static uintptr_t no_provider(void) {
    return 16;
}

bool resolve_is_absent(any_function function) {
    return function == (any_function)no_provider;
}

any_function resolve_call(unsigned index, bool profiling, const void *caller) {
    char name[64] = "P";
    any_function *slot = profiling ? &real_profiling_functions[index] : &real_functions[index];
    any_function found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (found)
        return found;
    copy_text(name + profiling, sizeof name - 1, commtap_calls[index].name);
    found = (any_function)resolve_name(name, caller);
    if (!found)
        return resolve_absent(name, caller, (any_function)no_provider); /* a library may still be loaded later */
    __atomic_store_n(slot, found, __ATOMIC_RELEASE);
    return found;
}

/* ---- who calls PMPI_X ------------------------------------------------------------------------ */

static bool is_fortran_library(const char *path) {
    return linker_file_begins(path, "libmpi_mpifh\0libmpi_usempi\0libmpichfort\0libmpifort\0libmpichf90\0");
}

/* mpi_send_, mpi_send__, MPI_Send_f08, mpi_send_f08ts_: bindings that live in other libraries (Cray and others). */
static bool is_fortran_symbol(const char *name) {
    if (!name || (strncmp(name, "mpi_", 4) != 0 && strncmp(name, "MPI_", 4) != 0 && strncmp(name, "pmpi_", 5) != 0))
        return false;
    return strstr(name, "_f08") || name[strlen(name) - 1] == '_';
}

/* Open MPI's plugins (mca_), its layers, and libraries that implementations are split into. */
static bool is_mpi_library(const char *path) {
    return linker_file_begins(path, "libmpi\0libpmpi\0mca_\0libopen-\0libopal\0libromio\0");
}

static enum resolved_caller find_caller(const void *caller) {
    Dl_info info;
    if (!linker_dladdr(caller, &info) || !info.dli_fname)
        return CALLER_OTHER;
    if (is_fortran_library(info.dli_fname) || is_fortran_symbol(info.dli_sname))
        return CALLER_FORTRAN;
    return is_mpi_library(info.dli_fname) ? CALLER_LIBRARY : CALLER_OTHER;
}

#define CALLER_CACHE 256u
enum { CALLER_SHIFT = 62 };
enum resolved_caller resolve_caller(const void *caller) {
    /* Call sites repeat: address and answer in one word (text addresses have the top bits clear). */
    static uint64_t cache[CALLER_CACHE];
    uint64_t *slot = &cache[hash_mix((uintptr_t)caller) % CALLER_CACHE];
    uint64_t seen = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (seen << 2 == (uint64_t)(uintptr_t)caller << 2 && seen)
        return (enum resolved_caller)(seen >> CALLER_SHIFT);
    enum resolved_caller found = find_caller(caller);
    __atomic_store_n(slot, (uint64_t)(uintptr_t)caller | (uint64_t)found << CALLER_SHIFT, __ATOMIC_RELAXED);
    return found;
}
