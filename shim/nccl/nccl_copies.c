/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy is known by the address it is loaded at.
 */
#include "shim/nccl/nccl_copies.h"

#include <string.h>

#include "shim/base/lookup.h"
#include "shim/base/os.h"
#include "shim/nccl/nccl_abi.h"
#include "shim/record/recorder.h"

any_function nccl_global_functions[CALL_INDEX_COUNT];
any_function nccl_functions[NCCL_COPIES][CALL_INDEX_COUNT];

static struct copy {
    const void *base; /* claimed by compare-and-swap */
    void *handle;     /* NULL: only single functions of it are known */
    char path[256];
} copies[NCCL_COPIES];

static uintptr_t no_provider(void) {
    return NCCL_SYSTEM_ERROR;
}

/* The number of the library that a function lies in, -1 when the numbers are used up. `handle` is the job's: the only
 * way to a library in a name space of its own. */
static int copy_of(const void *function, void *handle) {
    struct lookup_place place;
    if (!lookup_place(function, &place))
        return -1;
    for (unsigned i = 0; i < NCCL_COPIES; i++) {
        struct copy *copy = &copies[i];
        const void *nobody = NULL;
        if (__atomic_load_n(&copy->base, __ATOMIC_ACQUIRE) == place.base)
            return (int)i;
        if (!__atomic_compare_exchange_n(&copy->base, &nobody, place.base, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            if (nobody == place.base)
                return (int)i;
            continue;
        }
        void *own = lookup_handle(place.path);
        copy_text(copy->path, sizeof copy->path, place.path);
        __atomic_store_n(&copy->handle, own ? own : handle, __ATOMIC_RELEASE);
        return (int)i;
    }
    return -1;
}

int nccl_copy_of_function(const void *function) {
    return copy_of(function, NULL);
}

void *nccl_copy_symbol(int copy, const char *name) {
    void *handle = copy >= 0 ? __atomic_load_n(&copies[copy].handle, __ATOMIC_ACQUIRE) : NULL;
    return handle ? lookup_by_handle(handle, name) : NULL;
}

const char *nccl_copy_path(int copy) {
    return copy >= 0 ? copies[copy].path : "";
}

static any_function function_of_copy(unsigned index, int copy) {
    any_function *slot = &nccl_functions[copy][index];
    any_function found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (!found && (found = (any_function)nccl_copy_symbol(copy, commtap_calls[index].name)))
        __atomic_store_n(slot, found, __ATOMIC_RELEASE);
    return found;
}

static any_function remember_function(unsigned index, void *found, int *copy) {
    *copy = copy_of(found, NULL);
    if (*copy >= 0)
        __atomic_store_n(&nccl_functions[*copy][index], (any_function)found, __ATOMIC_RELEASE);
    return (any_function)found;
}

/* ---- callers --------------------------------------------------------------------------------- */

/* Call sites repeat: address and verdict in one word. */
#define CALLERS 1024u
#define CALLER_HAS_NONE                                                                                                \
    0xffu /* its own library neither defines nor depends on NCCL: handed a pointer, or a tail call */

static uint64_t callers[CALLERS];

static uint64_t *caller_slot(const void *caller) {
    return &callers[hash_mix((uintptr_t)caller) % CALLERS];
}

static int known_caller(const void *caller) {
    uint64_t seen = __atomic_load_n(caller_slot(caller), __ATOMIC_RELAXED);
    return seen >> 8 == (uint64_t)(uintptr_t)caller && seen ? (int)(seen & 0xff) : -1;
}

static void learn_caller(const void *caller, unsigned verdict) {
    __atomic_store_n(caller_slot(caller), (uint64_t)(uintptr_t)caller << 8 | verdict, __ATOMIC_RELAXED);
}

static any_function of_any(unsigned index, int *copy) {
    for (int i = 0; i < (int)NCCL_COPIES; i++)
        if (__atomic_load_n(&copies[i].base, __ATOMIC_ACQUIRE)) {
            any_function found = function_of_copy(index, i);
            *copy = i;
            if (found)
                return found;
        }
    void *found = lookup_in_any_library(commtap_calls[index].name);
    return found ? remember_function(index, found, copy) : NULL;
}

/* A call site seen before: what its library is linked to does not change. */
static any_function of_known_caller(unsigned index, unsigned verdict, int made_by, int *copy) {
    if (verdict == CALLER_HAS_NONE && made_by < 0)
        return of_any(index, copy);
    *copy = verdict == CALLER_HAS_NONE ? made_by : (int)verdict;
    return function_of_copy(index, *copy);
}

/* As the dynamic linker would have bound the call: the global scope first, then what the caller's library brings. */
static any_function find_by_caller(unsigned index, const void *caller, int made_by, int *copy) {
    const char *name = commtap_calls[index].name;
    int verdict = known_caller(caller);
    if (verdict >= 0)
        return of_known_caller(index, (unsigned)verdict, made_by, copy);
    void *found = lookup_next(name);
    if (found) {
        remember_function(index, found, copy);
        __atomic_store_n(&nccl_global_functions[index], (any_function)found, __ATOMIC_RELEASE);
        return (any_function)found;
    }
    found = lookup_in_callers_library(name, caller);
    if (!found) {
        learn_caller(caller, CALLER_HAS_NONE);
        return of_known_caller(index, CALLER_HAS_NONE, made_by, copy);
    }
    remember_function(index, found, copy);
    if (*copy >= 0)
        learn_caller(caller, (unsigned)*copy);
    return (any_function)found;
}

any_function nccl_find_function(unsigned index, unsigned entry, const void *caller, int made_by, int *copy) {
    any_function found;
    *copy = -1;
    if (entry != NCCL_BY_CALLER) {
        *copy = (int)entry;
        found = function_of_copy(index, (int)entry);
    } else {
        found = find_by_caller(index, caller, made_by, copy);
    }
    return found ? found : resolve_absent(commtap_calls[index].name, caller, (any_function)no_provider);
}

/* ---- look-ups -------------------------------------------------------------------------------- */

/* Another library's function of that name need not even take the same arguments. */
static bool is_strange(void *handle, const void *found) {
    static const char proof[] = "ncclGetUniqueId";
    return !lookup_in_callers_library(proof, found) && !lookup_by_handle(handle, proof);
}

void *nccl_answer(unsigned index, void *handle, void *found, void *next) {
    if (found == next)
        return (void *)nccl_entry(index, NCCL_BY_CALLER);
    if (is_strange(handle, found))
        return found;
    int copy = copy_of(found, handle);
    if (copy < 0) {
        if (*recorder_armed)
            count_loss(&recorder.header->losses.providers_handed_raw);
        return found;
    }
    __atomic_store_n(&nccl_functions[copy][index], (any_function)found, __ATOMIC_RELEASE);
    return (void *)nccl_entry(index, (unsigned)copy);
}
