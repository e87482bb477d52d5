/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of resolve.h.
 * Order for a real function: the next definer in link order (which also chains other tools); the pinned provider; the
 * caller's own library and what it depends on (a module loaded RTLD_LOCAL); any loaded MPI library. dlopen is only ever
 * asked for what is loaded already.
 */
#include "shim/resolve.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "shim/elf_symbol.h"
#include "shim/nccl/nccl_copies.h"
#include "shim/os.h"
#include "shim/pending_error.h"
#include "shim/recorder.h"
#include "shim/stacks/modules.h"
#include "shim/tail_jump.h"

extern void *os_dlopen(const char *, int) __attribute__((weak));
extern int os_dladdr(const void *, Dl_info *) __attribute__((weak));
__asm__(".symver os_dlopen,dlopen@" OLD_GLIBC);
extern char *os_dlerror(void) __attribute__((weak));
__asm__(".symver os_dladdr,dladdr@" OLD_GLIBC);
__asm__(".symver os_dlerror,dlerror@" OLD_GLIBC);

typedef void *(*dlsym_function)(void *, const char *);
typedef void *(*dlvsym_function)(void *, const char *, const char *);

any_function real_functions[CALL_INDEX_COUNT];
any_function real_profiling_functions[CALL_INDEX_COUNT];

static dlsym_function real_dlsym;
static dlvsym_function real_dlvsym;

/* The library that provides the job's MPI, pinned at the first success. */
static struct {
    void *handle;
    char path[512];
} provider;

/* ---- the dynamic linker's own functions ------------------------------------------------------ */

static dlsym_function get_dlsym(void) {
    dlsym_function f = __atomic_load_n(&real_dlsym, __ATOMIC_ACQUIRE);
    if (unlikely(!f)) {
        f = (dlsym_function)elf_symbol_in_libc("dlsym");
        __atomic_store_n(&real_dlsym, f, __ATOMIC_RELEASE);
    }
    return f;
}

static dlvsym_function get_dlvsym(void) {
    dlvsym_function f = __atomic_load_n(&real_dlvsym, __ATOMIC_ACQUIRE);
    if (unlikely(!f)) {
        f = (dlvsym_function)elf_symbol_in_libc("dlvsym");
        __atomic_store_n(&real_dlvsym, f, __ATOMIC_RELEASE);
    }
    return f;
}

/* The next definer behind this library. RTLD_NEXT means the one behind the caller: never by a tail call, which would
 * make our caller the one who asks. */
static void *next_after_us(const char *name) {
    void *found = get_dlsym()(RTLD_NEXT, name);
    __asm__ volatile("" : "+r"(found));
    return found;
}

/* ---- which library --------------------------------------------------------------------------- */

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static bool is_ours(const void *address) {
    return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

static void *loaded(const char *path) {
    return os_dlopen ? os_dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

/* A library of the job's that stayed open for us would never be unloaded, nor loaded afresh. */
static void give_back(void *handle) {
    static int (*real_dlclose)(void *);
    if (!handle)
        return;
    if (!__atomic_load_n(&real_dlclose, __ATOMIC_RELAXED))
        __atomic_store_n(&real_dlclose, (int (*)(void *))elf_symbol_in_libc("dlclose"), __ATOMIC_RELAXED);
    if (real_dlclose)
        real_dlclose(handle);
}

static void pin_provider(const void *function) {
    Dl_info info;
    if (provider.handle || !os_dladdr || !os_dladdr(function, &info) || !info.dli_fname)
        return;
    copy_text(provider.path, sizeof provider.path, info.dli_fname);
    provider.handle = loaded(info.dli_fname);
}

static void *in_callers_library(const char *name, const void *caller) {
    Dl_info info;
    if (!caller || !os_dladdr || !os_dladdr(caller, &info) || !info.dli_fname)
        return NULL;
    void *handle = loaded(info.dli_fname);
    void *found = handle ? get_dlsym()(handle, name) : NULL;
    give_back(handle);
    return found && !is_ours(found) ? found : NULL;
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
    dl_iterate_phdr(collect_mpi_library, &list);
    for (int i = 0; i < list.count; i++) {
        void *handle = loaded(list.paths[i]);
        void *found = handle ? get_dlsym()(handle, name) : NULL;
        if (found && !is_ours(found))
            return found;
    }
    return NULL;
}

/* The job's dlsym succeeded: what we looked up on its account must not be what its next dlerror() tells. */
static void forget_failed_lookups(void) {
    if (os_dlerror)
        os_dlerror();
}

struct symbol_search {
    const char *name;
    void *found;
};

static int search_others(struct dl_phdr_info *info, size_t size, void *data) {
    struct symbol_search *search = data;
    void *found = elf_symbol(info, search->name);
    (void)size;
    if (found && !is_ours(found))
        search->found = found;
    return search->found != NULL;
}

/* Any loaded library that defines the name, in the order in which they were loaded. */
static void *in_any_library(const char *name) {
    struct symbol_search search = {.name = name};
    dl_iterate_phdr(search_others, &search);
    return search.found;
}

static void *find_real(const char *name, const void *caller) {
    void *found = next_after_us(name);
    if (!found && provider.handle)
        found = get_dlsym()(provider.handle, name);
    if (!found)
        found = in_callers_library(name, caller);
    if (!found)
        found = in_any_mpi_library(name);
    return found;
}

void *resolve_name(const char *name, const void *caller) {
    int saved = errno;
    pending_error_hold();
    void *found = get_dlsym() ? find_real(name, caller) : NULL;
    if (found)
        pin_provider(found);
    pending_error_release();
    errno = saved;
    return found;
}

void *resolve_next(const char *name) {
    int saved = errno;
    pending_error_hold();
    void *found = get_dlsym() ? next_after_us(name) : NULL;
    pending_error_release();
    errno = saved;
    return found;
}

void *resolve_in_callers_library(const char *name, const void *caller) {
    int saved = errno;
    pending_error_hold();
    void *found = get_dlsym() ? in_callers_library(name, caller) : NULL;
    pending_error_release();
    errno = saved;
    return found;
}

void *resolve_in_any_library(const char *name) {
    return in_any_library(name);
}

void *resolve_handle(const char *path) {
    int saved = errno;
    pending_error_hold();
    void *handle = *path ? loaded(path) : NULL;
    pending_error_release();
    errno = saved;
    return handle;
}

void *resolve_by_handle(void *handle, const char *name) {
    int saved = errno;
    pending_error_hold();
    void *found = get_dlsym() ? get_dlsym()(handle, name) : NULL;
    pending_error_release();
    errno = saved;
    return found && !is_ours(found) ? found : NULL;
}

bool resolve_place(const void *address, struct resolve_place *place) {
    Dl_info info;
    if (!os_dladdr || !os_dladdr(address, &info) || !info.dli_fname)
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
    return (any_function)in_any_library(name);
}

any_function resolve_hook(const struct hook *hook, const void *caller) {
    uint64_t key = hook_key(hook, caller);
    any_function found = known_site(key);
    if (likely(found != NULL) || !get_dlsym())
        return found;
    int saved = errno;
    pending_error_hold();
    found = find_for_caller(hook, caller);
    pending_error_release();
    errno = saved;
    if (found)
        learn_site(key, found);
    return found;
}

void *resolve_in_provider(const char *name) {
    pending_error_hold();
    void *found = get_dlsym() ? get_dlsym()(RTLD_DEFAULT, name) : NULL;
    if ((!found || is_ours(found)) && provider.handle)
        found = get_dlsym()(provider.handle, name);
    pending_error_release();
    return found && !is_ours(found) ? found : NULL;
}

void *resolve_in_loaded(const char *library, const char *name) {
    int saved = errno;
    pending_error_hold();
    void *handle = loaded(library);
    void *found = handle && get_dlsym() ? get_dlsym()(handle, name) : NULL;
    pending_error_release();
    errno = saved;
    return found;
}

const char *resolve_provider_path(void) {
    return provider.path;
}

/* What a call without any provider returns: MPI_ERR_OTHER of Open MPI and the standard ABI; no MPI has it as success.
 */
static uintptr_t no_provider(void) {
    return 16;
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
        return (any_function)no_provider; /* not remembered: a library may still be loaded */
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
    bool fortran = os_dladdr && os_dladdr(caller, &info) && info.dli_fname &&
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
    void *expected = next ? next : provider.handle ? get_dlsym()(provider.handle, name) : found;
    if (expected != found) {
        if (*recorder_armed)
            count_loss(&recorder.header->losses.providers_handed_raw);
        return found;
    }
    void *wrapper = get_dlsym()(RTLD_DEFAULT, name);
    if (!wrapper || !is_ours(wrapper))
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

/* `found` is what the job would have got: the answer is that, our wrapper for it, or nothing. A NULL leaves the failed
 * look-up's dlerror, anything else leaves none. */
static void *answer(void *handle, void *found, const char *name, const void *caller) {
    struct target target = find_target(name);
    if (!found)
        return NULL;
    void *next = next_after_us(name);
    if (is_ours(found)) { /* our mere presence must not make a library seem present */
        if (!next && !in_callers_library(name, caller))
            return next_after_us(name); /* fails again, and leaves the dlerror that belongs to it */
    } else if (target.hook) {
        found = answer_hook(target.hook, found, next);
    } else if (commtap_calls[target.row].api == API_NCCL) {
        found = nccl_answer((unsigned)target.row, handle, found, next);
    } else if (name[0] != 'P') {
        found = answer_foreign(handle, found, next, name, target.row);
    }
    forget_failed_lookups();
    return found;
}

static void *hooked_dlsym(void *handle, const char *name) {
    return answer(handle, get_dlsym()(handle, name), name, __builtin_return_address(0));
}

static void *hooked_dlvsym(void *handle, const char *name, const char *version) {
    return answer(handle, get_dlvsym()(handle, name, version), name, __builtin_return_address(0));
}

/* RTLD_NEXT must be looked up for the true caller, so it is never answered from here; but a program's "next" may be
 * ourselves, and where nothing stands behind us the truth is that there is none. The failed look-up has set dlerror. */
static bool stands_alone(const char *name) {
    return is_hooked(name) && !next_after_us(name) && !(provider.handle && get_dlsym()(provider.handle, name));
}

/* On a libc whose tables cannot be read every look-up fails; better than a jump to nowhere. */
static void *finds_nothing(void) {
    return NULL;
}

__attribute__((visibility("hidden"), used)) void *choose_dlsym(void *handle, const char *name) {
    if (!get_dlsym() || (handle == RTLD_NEXT && stands_alone(name)))
        return (void *)finds_nothing;
    return handle != RTLD_NEXT && is_hooked(name) ? (void *)hooked_dlsym : (void *)get_dlsym();
}

__attribute__((visibility("hidden"), used)) void *choose_dlvsym(void *handle, const char *name) {
    if (!get_dlsym() || !get_dlvsym() || (handle == RTLD_NEXT && stands_alone(name)))
        return (void *)finds_nothing;
    return handle != RTLD_NEXT && is_hooked(name) ? (void *)hooked_dlvsym : (void *)get_dlvsym();
}

TAIL_JUMP(dlsym, choose_dlsym);
TAIL_JUMP(dlvsym, choose_dlvsym);
