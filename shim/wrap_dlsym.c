/* SPDX-License-Identifier: Apache-2.0
 *
 * The hooks on dlsym, dlvsym and dlopen: a job that looks a function up gets our wrapper where it would have got the
 * function, and nothing where it would have got nothing.
 * Must not live here: finding a real function for a wrapper (intercept/resolve.h), which entry of a copy of NCCL is
 * handed out (nccl/nccl_copies.h).
 */
#include <dlfcn.h>
#include <string.h>

#include "shim/base/linker.h"
#include "shim/base/lookup.h"
#include "shim/base/tail_jump.h"
#include "shim/base/unloads.h"
#include "shim/intercept/absent.h"
#include "shim/intercept/dependents.h"
#include "shim/intercept/opening.h"
#include "shim/intercept/resolve.h"
#include "shim/nccl/nccl_copies.h"
#include "shim/record/recorder.h"

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
 * in the process (a translation layer's, say) is handed over raw: its calls must not run in the first. So is a function
 * that is not the one that the caller itself is linked to, for our wrapper goes by the caller. */
static void *answer_foreign(void *handle, void *found, void *next, const char *name, const void *caller) {
    void *expected = next ? next : resolve_has_provider() ? resolve_in_pinned(name) : found;
    void *own = next ? NULL : linker_in_library_of(caller, name);
    if (expected != found || (own && own != found)) {
        if (*recorder_armed)
            count_loss(&recorder.header->losses.providers_handed_raw);
        return found;
    }
    void *wrapper = linker_dlsym(RTLD_DEFAULT, name);
    if (!wrapper || !linker_is_ours(wrapper))
        return found;
    if (!next)
        resolve_pin_provider(found, handle);
    return next || resolve_has_provider() ? wrapper : found;
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
    void *ours = linker_loaded(linker_object_at((const void *)fail)); /* never closed: that would clear the message */
    absent_begin_failing(name, of_caller ? linker_object_at(caller) : linker_object_of_handle(handle));
    if (linker_dlsym(ours ? ours : RTLD_DEFAULT, name))
        linker_next(name); /* leaves a message at least */
    absent_end_failing();
    return NULL;
}

/* `found` is what the job would have got: the answer is that, our wrapper for it, or nothing. Anything but a failure
 * leaves no dlerror(). */
static void *answer(void *handle, void *found, const char *name, const void *caller) {
    struct target target = find_target(name);
    void *next = linker_next(name);
    if (!found || (linker_is_ours(found) && !next && !linker_in_library_of(caller, name)))
        return fail(handle, name, caller);
    if (!linker_is_ours(found)) {
        if (target.row >= 0 && commtap_calls[target.row].api == API_NCCL)
            found = nccl_answer((unsigned)target.row, handle, found, next);
        else if (name[0] == 'M')
            found = answer_foreign(handle, found, next, name, caller);
        else if (target.hook && name[0] != 'P')
            found = answer_hook(target.hook, found, next);
    }
    if (handle == RTLD_DEFAULT && next && (name[0] == 'M' || name[0] == 'P'))
        dependents_add(caller, next);
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

/* RTLD_NEXT must be looked up for the true caller, so it is never answered from here; but what comes next after the
 * program, or after a tool before us, may be ourselves, and where nothing stands behind us the truth is that there is
 * none. */
static bool is_last(const char *name, const void *caller) {
    return is_hooked(name) && linker_is_next_to(caller, name) && !linker_next(name);
}

__attribute__((visibility("hidden"), used)) void *choose_dlsym(void *handle, const char *name, uintptr_t a3,
                                                               const void *caller) {
    (void)a3;
    opening_ends();
    if (handle == RTLD_NEXT && is_last(name, caller))
        fail(handle, name, caller);
    else if (handle != RTLD_NEXT && is_hooked(name))
        return (void *)hooked_dlsym;
    else if (linker_dlsym_address())
        return linker_dlsym_address();
    return (void *)finds_nothing;
}

/* Our own functions have no version, and are never found by one. */
__attribute__((visibility("hidden"), used)) void *choose_dlvsym(void *handle, const char *name, const char *version) {
    opening_ends();
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
    unloads_look();
    reached_look();
    if (!found) {
        found = lookup_next("dlopen");
        __atomic_store_n(&real, found, __ATOMIC_RELEASE);
    }
    opening_begins();
    return found ? found : (void *)finds_nothing;
}

TAIL_JUMP(dlopen, choose_dlopen);
