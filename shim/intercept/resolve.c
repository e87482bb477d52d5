/* SPDX-License-Identifier: Apache-2.0
 *
 * Order for a real function: the next definer in link order (which also chains other tools); the pinned provider; the
 * caller's own library and what it depends on (a module loaded RTLD_LOCAL); any loaded MPI library. dlopen is only ever
 * asked for what is loaded already.
 */
#include "shim/intercept/resolve.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "shim/intercept/absent.h"
#include "shim/base/linker.h"
#include "shim/nccl/nccl_copies.h"
#include "shim/base/os.h"
#include "shim/base/pending_error.h"
#include "shim/record/recorder.h"
#include "shim/stacks/modules.h"
#include "shim/base/tail_jump.h"

any_function real_functions[CALL_INDEX_COUNT];
any_function real_profiling_functions[CALL_INDEX_COUNT];

/* The library that provides the job's MPI, pinned at the first success. */
static struct {
    void *handle;
    char path[512];
} provider;

/* ---- which library --------------------------------------------------------------------------- */

/* The next definer behind this library: RTLD_NEXT means the one behind the caller, which is us. */
static void *next_after_us(const char *name) {
    return linker_dlsym(RTLD_NEXT, name);
}

static void *loaded(const char *path) {
    return linker_dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
}

/* A library of the job's that stayed open for us would never be unloaded, nor loaded afresh. */
static void give_back(void *handle) {
    if (handle)
        linker_dlclose(handle);
}

/* Around look-ups of ours: errno and the job's pending dlerror() stay what they are. Answers with errno. */
static int begin_search(void) {
    linker_bind_to_libc();
    int saved = errno;
    pending_error_hold();
    return saved;
}

static void end_search(int saved) {
    pending_error_release();
    errno = saved;
}

static void pin_provider(const void *function) {
    Dl_info info;
    if (provider.handle || !linker_dladdr(function, &info) || !info.dli_fname)
        return;
    copy_text(provider.path, sizeof provider.path, info.dli_fname);
    provider.handle = loaded(info.dli_fname);
}

static void *in_callers_library(const char *name, const void *caller) {
    Dl_info info;
    if (!caller || !linker_dladdr(caller, &info) || !info.dli_fname)
        return NULL;
    void *handle = loaded(info.dli_fname);
    void *found = handle ? linker_dlsym(handle, name) : NULL;
    give_back(handle);
    return found && !linker_is_ours(found) ? found : NULL;
}

#define LIBRARIES_MAX 16
struct library_list {
    char paths[LIBRARIES_MAX][512];
    int count;
};

static int collect_mpi_library(struct dl_phdr_info *info, size_t size, void *data) {
    struct library_list *list = data;
    (void)size;
    const char *base = strrchr(info->dlpi_name, '/');
    base = base ? base + 1 : info->dlpi_name;
    if (!strncmp(base, "libmpi", 6) && list->count < LIBRARIES_MAX)
        copy_text(list->paths[list->count++], sizeof list->paths[0], info->dlpi_name);
    return 0;
}

static void *in_any_mpi_library(const char *name) {
    struct library_list list;
    list.count = 0;
    linker_iterate(collect_mpi_library, &list);
    for (int i = 0; i < list.count; i++) {
        void *handle = loaded(list.paths[i]);
        void *found = handle ? linker_dlsym(handle, name) : NULL;
        if (found && !linker_is_ours(found))
            return found;
    }
    return NULL;
}

static void *find_real(const char *name, const void *caller) {
    void *found = next_after_us(name);
    if (!found && provider.handle)
        found = linker_dlsym(provider.handle, name);
    if (!found)
        found = in_callers_library(name, caller);
    if (!found)
        found = in_any_mpi_library(name);
    return found ? found : linker_symbol_elsewhere(name);
}

void *resolve_name(const char *name, const void *caller) {
    int saved = begin_search();
    void *found = find_real(name, caller);
    if (found)
        pin_provider(found);
    end_search(saved);
    return found;
}

void *resolve_next(const char *name) {
    int saved = begin_search();
    void *found = next_after_us(name);
    end_search(saved);
    return found;
}

void *resolve_in_callers_library(const char *name, const void *caller) {
    int saved = begin_search();
    void *found = in_callers_library(name, caller);
    end_search(saved);
    return found;
}

void *resolve_in_any_library(const char *name) {
    return linker_symbol_elsewhere(name);
}

void *resolve_handle(const char *path) {
    int saved = begin_search();
    void *handle = *path ? loaded(path) : NULL;
    end_search(saved);
    return handle;
}

void *resolve_by_handle(void *handle, const char *name) {
    int saved = begin_search();
    void *found = linker_dlsym(handle, name);
    end_search(saved);
    return found && !linker_is_ours(found) ? found : NULL;
}

any_function resolve_absent(const char *name, const void *caller, any_function error) {
    linker_bind_to_libc();
    linker_fail(linker_object_at(caller), name);
    return error;
}

bool resolve_place(const void *address, struct resolve_place *place) {
    Dl_info info;
    if (!linker_dladdr(address, &info) || !info.dli_fname)
        return false;
    place->base = info.dli_fbase;
    copy_text(place->path, sizeof place->path, info.dli_fname);
    return true;
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
    uint32_t unloads = __atomic_load_n(&modules_unloads, __ATOMIC_ACQUIRE);
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
    struct resolve_place first, second;
    if (!resolve_place(a, &first) || !resolve_place(b, &second) || first.base == second.base)
        return false;
    const char *x = strrchr(first.path, '/'), *y = strrchr(second.path, '/');
    const char *end = x ? strstr(x, ".so") : NULL;
    return end && y && !strncmp(x, y, (size_t)(end - x) + 3);
}

/* As the dynamic linker would have bound the call, were we not there: by link order, but not to another version of the
 * library that the caller brings itself. */
static any_function find_for_caller(const struct hook *hook, const void *caller) {
    const char *name = hook_target(&hook->name);
    void *next = next_after_us(name), *own = in_callers_library(name, caller);
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
    int saved = begin_search();
    found = find_for_caller(hook, caller);
    end_search(saved);
    if (found)
        learn_site(key, found);
    return found;
}

void *resolve_in_provider(const char *name) {
    int saved = begin_search();
    void *found = linker_dlsym(RTLD_DEFAULT, name);
    if ((!found || linker_is_ours(found)) && provider.handle)
        found = linker_dlsym(provider.handle, name);
    end_search(saved);
    return found && !linker_is_ours(found) ? found : NULL;
}

void *resolve_in_loaded(const char *library, const char *name) {
    int saved = begin_search();
    void *handle = loaded(library);
    void *found = handle ? linker_dlsym(handle, name) : NULL;
    end_search(saved);
    return found;
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

/* ---- Fortran bindings ------------------------------------------------------------------------ */

static bool is_fortran_library(const char *path) {
    static const char *const names[] = {"libmpi_mpifh", "libmpi_usempi", "libmpichfort", "libmpifort", "libmpichf90"};
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(base, names[i], strlen(names[i])))
            return true;
    return false;
}

/* mpi_send_, mpi_send__, MPI_Send_f08, mpi_send_f08ts_: bindings that live in other libraries (Cray and others). */
static bool is_fortran_symbol(const char *name) {
    if (!name || (strncmp(name, "mpi_", 4) && strncmp(name, "MPI_", 4) && strncmp(name, "pmpi_", 5)))
        return false;
    return strstr(name, "_f08") || name[strlen(name) - 1] == '_';
}

#define FORTRAN_CACHE 256u
bool resolve_caller_is_fortran(const void *caller) {
    /* Call sites repeat: address and verdict in one word (text addresses have the top bit clear). */
    static uint64_t cache[FORTRAN_CACHE];
    uint64_t *slot = &cache[hash_mix((uintptr_t)caller) % FORTRAN_CACHE];
    uint64_t seen = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (seen << 1 == (uint64_t)(uintptr_t)caller << 1 && seen)
        return seen >> 63;
    Dl_info info;
    bool fortran = linker_dladdr(caller, &info) && info.dli_fname &&
                   (is_fortran_library(info.dli_fname) || is_fortran_symbol(info.dli_sname));
    __atomic_store_n(slot, (uint64_t)(uintptr_t)caller | (uint64_t)fortran << 63, __ATOMIC_RELAXED);
    return fortran;
}

/* ---- the dlsym hook -------------------------------------------------------------------------- */

extern const struct hook __start_commtap_hooks[] __attribute__((visibility("hidden")));
extern const struct hook __stop_commtap_hooks[] __attribute__((visibility("hidden")));

/* What a looked-up name is to us: a row of the table, or a hook, or neither. */
struct target {
    int row; /* -1: none */
    const struct hook *hook;
};

/* Quick and wrong in one direction only: most look-ups of a job are none of ours. */
static bool is_candidate(const char *name) {
    return name && (name[0] == 'M' || name[0] == 'P' || name[0] == 'n' || name[0] == 'c' || name[0] == 'h');
}

static struct target find_target(const char *name) {
    struct target target = {-1, NULL};
    const char *plain = name[0] == 'P' ? name + 1 : name;
    if (!strncmp(plain, "MPI_", 4) || !strncmp(name, "nccl", 4))
        for (unsigned i = 0; i < commtap_call_count; i++)
            if (!strcmp(commtap_calls[i].name, plain)) {
                target.row = (int)i;
                return target;
            }
    for (const struct hook *hook = __start_commtap_hooks; hook < __stop_commtap_hooks; hook++)
        if (!strcmp(hook_target(&hook->name), name))
            target.hook = hook;
    return target;
}

/* Any other name must be looked up for its true caller: RTLD_DEFAULT includes what a library loaded RTLD_LOCAL sees. */
static bool is_hooked(const char *name) {
    if (!is_candidate(name))
        return false;
    struct target target = find_target(name);
    return target.row >= 0 || target.hook;
}

/* A look-up that found an MPI function elsewhere than in ourselves. The first such library is the job's; a second copy
 * in the process (a translation layer's, say) is handed over raw: its calls must not run in the first. */
static void *answer_foreign(void *handle, void *found, void *next, const char *name, int row) {
    void *expected = next ? next : provider.handle ? linker_dlsym(provider.handle, name) : found;
    if (expected != found) {
        if (*recorder_armed)
            count_loss(&recorder.header->losses.providers_handed_raw);
        return found;
    }
    void *wrapper = linker_dlsym(RTLD_DEFAULT, name);
    if (!wrapper || !linker_is_ours(wrapper))
        return found;
    pin_provider(found);
    if (!provider.handle) /* in a name space of its own (dlmopen), which only the job's handle reaches */
        provider.handle = handle;
    any_function none = NULL;
    __atomic_compare_exchange_n(&real_functions[row], &none, (any_function)found, false, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
    return wrapper;
}

/* The same for a hook: what the global scope has, or else the first library's; another's is handed over raw. */
static void *answer_hook(const struct hook *hook, void *found, void *next) {
    any_function none = NULL, *slot = hook_target(&hook->real);
    bool first = !next && __atomic_compare_exchange_n(slot, &none, (any_function)found, false, __ATOMIC_ACQ_REL,
                                                      __ATOMIC_ACQUIRE);
    if (first || found == (next ? next : (void *)none))
        return hook_target(&hook->wrapper);
    if (*recorder_armed)
        count_loss(&recorder.header->losses.providers_handed_raw);
    return found;
}

/* Fails as the look-up would without us, the message of dlerror() included: our mere presence must not make a function
 * seem present. */
static void *fail(void *handle, const char *name, const void *caller) {
    absent_prepare();
    bool of_caller = handle == RTLD_DEFAULT || handle == RTLD_NEXT;
    absent_begin_failing(name, of_caller ? linker_object_at(caller) : linker_object_of_handle(handle));
    if (linker_dlsym(handle == RTLD_NEXT ? RTLD_DEFAULT : handle, name))
        next_after_us(name); /* leaves a message at least */
    absent_end_failing();
    return NULL;
}

/* `found` is what the job would have got: the answer is that, our wrapper for it, or nothing. Anything but a failure
 * leaves no dlerror(). */
static void *answer(void *handle, void *found, const char *name, const void *caller) {
    struct target target = find_target(name);
    void *next = next_after_us(name);
    if (!found || (linker_is_ours(found) && !next && !in_callers_library(name, caller)))
        return fail(handle, name, caller);
    if (!linker_is_ours(found)) {
        if (target.hook)
            found = answer_hook(target.hook, found, next);
        else if (commtap_calls[target.row].api == API_NCCL)
            found = nccl_answer((unsigned)target.row, handle, found, next);
        else if (name[0] != 'P')
            found = answer_foreign(handle, found, next, name, target.row);
    }
    linker_dlerror();
    return found;
}

static void *hooked_dlsym(void *handle, const char *name) {
    linker_bind_to_libc();
    return answer(handle, linker_dlsym(handle, name), name, __builtin_return_address(0));
}

static void *hooked_dlvsym(void *handle, const char *name, const char *version) {
    linker_bind_to_libc();
    return answer(handle, linker_dlvsym(handle, name, version), name, __builtin_return_address(0));
}

static void *finds_nothing(void) {
    return NULL;
}

/* RTLD_NEXT must be looked up for the true caller, so it is never answered from here; but a program's "next" may be
 * ourselves, and where nothing stands behind us the truth is that there is none. */
static bool stands_alone(const char *name) {
    return is_hooked(name) && !next_after_us(name) && !(provider.handle && linker_dlsym(provider.handle, name));
}

__attribute__((visibility("hidden"), used)) void *choose_dlsym(void *handle, const char *name, uintptr_t a3,
                                                               const void *caller) {
    (void)a3;
    if (handle == RTLD_NEXT && stands_alone(name))
        fail(handle, name, caller);
    else if (handle != RTLD_NEXT && is_hooked(name))
        return (void *)hooked_dlsym;
    else if (linker_dlsym_address())
        return linker_dlsym_address();
    return (void *)finds_nothing;
}

/* Our own functions have no version, and are never found by one. */
__attribute__((visibility("hidden"), used)) void *choose_dlvsym(void *handle, const char *name, const char *version) {
    if (handle != RTLD_NEXT && is_hooked(name) && linker_dlvsym(handle, name, version))
        return (void *)hooked_dlvsym;
    return linker_dlvsym_address() ? linker_dlvsym_address() : (void *)finds_nothing;
}

TAIL_JUMP(dlsym, choose_dlsym);
TAIL_JUMP(dlvsym, choose_dlvsym);

/* ---- the dlopen hook ------------------------------------------------------------------------- */

/* A jump again: a library is looked for where its caller's own path says. */
__attribute__((visibility("hidden"), used)) void *choose_dlopen(void) {
    static void *real;
    void *found = __atomic_load_n(&real, __ATOMIC_ACQUIRE);
    absent_prepare();
    if (!found) {
        found = resolve_next("dlopen");
        __atomic_store_n(&real, found, __ATOMIC_RELEASE);
    }
    return found ? found : (void *)finds_nothing;
}

TAIL_JUMP(dlopen, choose_dlopen);
