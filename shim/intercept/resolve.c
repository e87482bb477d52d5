/* SPDX-License-Identifier: Apache-2.0
 *
 * Order for a real function: the next definer in link order (which also chains other tools); the caller's own library
 * and what it depends on (a module loaded RTLD_LOCAL); the library that provides the job's MPI; any loaded MPI library.
 * dlopen is only ever asked for what is loaded already.
 */
#include "shim/intercept/resolve.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "shim/base/linker.h"
#include "shim/base/lookup.h"
#include "shim/base/os.h"
#include "shim/base/unloads.h"
#include "shim/intercept/absent.h"
#include "shim/intercept/opening.h"

/* The library that provides the job's MPI, the first that was found. It is the job's to unload: nothing here keeps it
 * loaded. */
static struct {
    void *handle; /* in a name space of its own: the job's, the only way to it. Else NULL: its path leads to it. */
    bool local;   /* the global scope does not have it */
    char path[512];
} provider;

/* ---- which library --------------------------------------------------------------------------- */

static bool is_in_our_name_space(const char *path) {
    void *handle = linker_loaded(path);
    if (handle)
        linker_dlclose(handle);
    return handle != NULL;
}

/* What every MPI has, and no stand-in for one. */
static const char proof[] = "PMPI_Comm_group";

/* A stand-in for MPI, as serial solvers bring one, has hardly more than its name: the job's MPI may be another. */
static bool is_stand_in(const void *function, void *handle) {
    return !linker_in_library_of(function, proof) && !(handle && linker_dlsym(handle, proof));
}

/* In the global scope there are tools, too, whose functions go on to an MPI that they need not be linked to: by its
 * profiling names, or by looking it up. */
static bool is_global_stand_in(const void *function) {
    return is_stand_in(function, NULL) && !linker_refers_to(function, "PMPI_") &&
           !linker_refers_to(function, "dlsym") && !linker_refers_to(function, "dlvsym");
}

static void pin_provider(const void *function, void *handle, bool local) {
    Dl_info info;
    if (resolve_has_provider() || !linker_dladdr(function, &info) || !info.dli_fname ||
        (local ? is_stand_in(function, handle) : is_global_stand_in(function)))
        return;
    copy_text(provider.path, sizeof provider.path, info.dli_fname);
    provider.handle = is_in_our_name_space(info.dli_fname) ? NULL : handle;
    provider.local = local;
    __atomic_store_n(&reached_provider, info.dli_fbase, __ATOMIC_RELEASE);
}

void resolve_pin_provider(const void *function, void *handle) {
    pin_provider(function, handle, true);
}

bool resolve_has_provider(void) {
    return __atomic_load_n(&reached_provider, __ATOMIC_ACQUIRE) != NULL;
}

void *resolve_in_pinned(const char *name) {
    if (!resolve_has_provider())
        return NULL;
    return provider.handle ? linker_dlsym(provider.handle, name) : linker_in_loaded(provider.path, name);
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
        void *found = linker_in_loaded(list.paths[i], name);
        if (found)
            return found;
    }
    return NULL;
}

/* As the dynamic linker would have bound the caller's reference, were we not there; then as for callers that were
 * handed a pointer, or are not told: what the job's MPI has. Where one library is the job's MPI for some callers only,
 * there is no looking for another. */
static void *find_local(const char *name, const void *caller) {
    void *found = linker_in_library_of(caller, name);
    if (!found)
        found = resolve_in_pinned(name);
    if (found || (resolve_has_provider() && provider.local))
        return found;
    found = in_any_mpi_library(name);
    return found ? found : linker_symbol_elsewhere(name);
}

/* The caller's reference was bound, or our own look-up is meant, where the global scope had no MPI yet. */
static bool is_bound_locally(const void *caller) {
    return caller ? opening_precedes_global(caller) : resolve_has_provider() && provider.local;
}

static void *find_real(const char *name, const void *caller) {
    void *next = linker_next(name), *found = next && !is_bound_locally(caller) ? next : find_local(name, caller);
    if (!found)
        found = next;
    if (found)
        pin_provider(found, NULL, found != next);
    return found;
}

void *resolve_name(const char *name, const void *caller) {
    int saved = lookup_begin();
    void *found = find_real(name, caller);
    lookup_end(saved);
    return found;
}

any_function resolve_absent(const char *name, const void *caller, any_function error) {
    linker_bind_to_libc();
    linker_fail(linker_object_at(caller), name);
    return error;
}

/* ---- call sites ----------------------------------------------------------------------------------- */

/* (call site, what is called) -> function, until a library is unloaded. A writer empties the key first and a reader
 * looks at it last. */
#define CALL_SITES 1024u
static struct call_site {
    uint64_t key;
    any_function real;
} call_sites[CALL_SITES];

static uint64_t site_key(const void *what, const void *caller) {
    uint32_t unloads = __atomic_load_n(&unloads_so_far, __ATOMIC_ACQUIRE);
    return hash_combine((uintptr_t)what, (uintptr_t)caller ^ (uint64_t)unloads << 48) | 1;
}

static any_function known_site(uint64_t key) {
    const struct call_site *site = &call_sites[key / 2 % CALL_SITES];
    if (__atomic_load_n(&site->key, __ATOMIC_ACQUIRE) != key)
        return NULL;
    any_function real = __atomic_load_n(&site->real, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&site->key, __ATOMIC_RELAXED) == key ? real : NULL;
}

static void learn_site(uint64_t key, any_function real) {
    struct call_site *site = &call_sites[key / 2 % CALL_SITES];
    __atomic_store_n(&site->key, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&site->real, real, __ATOMIC_RELEASE);
    __atomic_store_n(&site->key, key, __ATOMIC_RELEASE);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

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
    uint64_t key = site_key(hook, caller);
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

/* Behind a tool that is not linked to it the MPI is what the global scope has. Else what the MPI lacks is not looked
 * for elsewhere: another MPI may have it. */
void *resolve_in_provider(const char *name) {
    int saved = lookup_begin();
    void *pinned = resolve_in_pinned(name);
    bool lacks = !pinned && resolve_in_pinned(proof);
    void *global = lacks || (pinned && provider.local) ? NULL : linker_in_global_scope(name);
    lookup_end(saved);
    return global ? global : pinned;
}

void *resolve_in_job_mpi(const char *name) {
    int saved = lookup_begin();
    void *found = resolve_in_pinned(proof) && !resolve_in_pinned(name) ? NULL : find_real(name, NULL);
    lookup_end(saved);
    return found;
}

const char *resolve_provider_path(void) {
    return provider.path;
}

/* ---- functions with a row ---------------------------------------------------------------------- */

/* What a call returns that was not made: MPI_ERR_OTHER of Open MPI and the standard ABI; no MPI has it as success. */
static uintptr_t no_provider(void) {
    return 16;
}

/* ---- several libraries ------------------------------------------------------------------------ */

/* Is this what the job's MPI has under the name, or a tool's that goes on to that? A library with another MPI beneath,
 * or with a stand-in for one, is not recorded. */
static bool is_of_provider(const char *name, void *found) {
    char profiling[64] = "P";
    if (found == resolve_in_pinned(name))
        return true;
    copy_text(profiling + 1, sizeof profiling - 1, name);
    void *beneath = resolve_in_pinned(profiling);
    return beneath && beneath == linker_in_library_of(found, profiling);
}

/* Of a call site's function: it is not recorded. No address has this bit. */
#define NOT_RECORDED (1ull << 63)

/* What all callers reach goes into the slot. */
static uint64_t look_up(any_function *slot, const char *name, const void *caller) {
    uint32_t doubts = reached_doubts();
    void *found = find_real(name, caller);
    bool all = found && !provider.local && found == linker_next(name);
    bool recorded = found && (all ? !is_global_stand_in(found) : is_of_provider(name, found));
    if (recorded && (all || !linker_has_several(name)))
        reached_set(slot, (any_function)found, doubts);
    return (uintptr_t)found | (recorded ? 0 : NOT_RECORDED);
}

any_function resolve_shared(any_function *slot, const char *name, const void *caller, bool *recorded) {
    uint64_t key = site_key(slot, caller);
    uint64_t known = (uintptr_t)known_site(key);
    if (unlikely(!known)) {
        int saved = lookup_begin();
        known = look_up(slot, name, caller);
        absent_release();
        lookup_end(saved);
        if (known & ~NOT_RECORDED) /* else a library may still be loaded later */
            learn_site(key, (any_function)(uintptr_t)known);
    }
    *recorded = !(known & NOT_RECORDED);
    return (any_function)(uintptr_t)(known & ~NOT_RECORDED);
}

any_function resolve_call(unsigned index, bool profiling, const void *caller, bool *recorded) {
    char name[64] = "P";
    any_function *slot = profiling ? &real_profiling_functions[index] : &real_functions[index];
    any_function found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    *recorded = true;
    if (found)
        return found;
    copy_text(name + profiling, sizeof name - 1, commtap_calls[index].name);
    found = resolve_shared(slot, name, caller, recorded);
    return found ? found : resolve_absent(name, caller, (any_function)no_provider);
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
