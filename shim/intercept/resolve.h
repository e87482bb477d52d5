/* SPDX-License-Identifier: Apache-2.0
 *
 * From a wrapper to the function it stands for.
 * Lives here: finding the real function however the job reached its library; which library provides the job's MPI.
 * Must not live here: what a wrapper does around the call, answers to the job's own look-ups (wrap_dlsym.c), copies of
 * NCCL (nccl/nccl_copies.h).
 */
#ifndef COMMTAP_SHIM_INTERCEPT_RESOLVE_H
#define COMMTAP_SHIM_INTERCEPT_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/call.h"

/* Every argument is an integer or a pointer and travels unchanged. */
typedef uintptr_t (*any_function)();

/* Real MPI_X and PMPI_X of each row, NULL until first needed. */
extern any_function real_functions[CALL_INDEX_COUNT];
extern any_function real_profiling_functions[CALL_INDEX_COUNT];

/* The real function of a row for a call from `caller` (its return address). Never NULL: where nothing provides it, see
 * resolve_absent(). */
any_function resolve_call(unsigned index, bool profiling, const void *caller);

/* Was that a function which only returns an error? Then no call is made, and none is counted. */
bool resolve_is_absent(any_function function);

/* A call of a function that nothing provides fails as the linker would have let it fail without us, which ends the
 * process or the dlopen() that it is part of. Where that cannot be done: `error`, a function that returns the API's. */
any_function resolve_absent(const char *name, const void *caller, any_function error);

/* The same by name, for functions that have no row; NULL when nothing provides it. */
void *resolve_name(const char *name, const void *caller);

/* ---- functions without a row in calls.def ----------------------------------------------------- */

/* One function that is intercepted though it is no communication call: by its exported name where the job is linked to
 * it, and where the job looks it up with dlsym. */
struct hook {
    /* Distances from the field itself: pointers would be relocations in every process below a preload. */
    int32_t name;
    int32_t wrapper; /* what such a look-up is answered with */
    int32_t real;    /* any_function: what look-ups were answered for where the global scope has none */
};

static inline void *hook_target(const int32_t *field) {
    return (char *)(uintptr_t)field + *field;
}

/* Registers `function`, beside the definition of the exported wrapper of that name; `slot` is a static any_function,
 * declared here. The linker collects the list: nothing runs for it at start. */
#define HOOK(function, slot)                                                                                           \
    static any_function slot __attribute__((used));                                                                    \
    extern const struct hook hook_##function __attribute__((visibility("hidden")));                                    \
    __asm__(".set wrapper_" #function ", " #function "\n"                                                              \
            ".pushsection commtap_names,\"a\"\nname_" #function ":\n.asciz \"" #function "\"\n.popsection\n"           \
            ".pushsection commtap_hooks,\"a\"\n.balign 4\n.globl hook_" #function "\n.hidden hook_" #function "\n"     \
            "hook_" #function ":\n.long name_" #function " - .\n.long wrapper_" #function " - .\n.long " #slot         \
            " - .\n"                                                                                                   \
            ".popsection\n")

/* The real function of a hook for a call from `caller` that came in by the wrapper: the next definer in link order,
 * unless the caller's library brings another version of that library; else what was looked up, else any loaded
 * library's. Remembered per call site. NULL when nothing provides it. */
any_function resolve_hook(const struct hook *hook, const void *caller);

/* A symbol that the job's MPI defines (a function or an object); NULL when it has none. Objects that the program has
 * copied (copy relocations) are found at their live place. */
void *resolve_in_provider(const char *name);

/* For look-ups of the job's that found an MPI function, which the global scope does not have: the library that the
 * first of them found is the job's MPI. `handle` is the job's, the only way to a library in a name space of its own. */
void resolve_pin_provider(const void *function, void *handle);
bool resolve_has_provider(void);
void *resolve_in_pinned(const char *name); /* as the job's own look-up there would; NULL before one is known */

/* Path of the library that provides the job's MPI, "" before it is known. */
const char *resolve_provider_path(void);

/* Who calls PMPI_X, by its return address. */
enum resolved_caller {
    CALLER_OTHER,   /* the program or a tool of its own */
    CALLER_FORTRAN, /* a Fortran binding, on the program's behalf */
    CALLER_LIBRARY, /* the MPI library itself */
};
enum resolved_caller resolve_caller(const void *caller);

#endif
