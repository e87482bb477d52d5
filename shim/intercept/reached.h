/* SPDX-License-Identifier: Apache-2.0
 *
 * What all callers of an intercepted function reach, where they all reach the same: calls need not ask who they are.
 * Lives here: the slots for it, the list of functions without a row, forgetting what no longer holds.
 * Must not live here: finding a function (resolve.h).
 */
#ifndef COMMTAP_SHIM_INTERCEPT_REACHED_H
#define COMMTAP_SHIM_INTERCEPT_REACHED_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/call.h"

/* Every argument is an integer or a pointer and travels unchanged. */
typedef uintptr_t (*any_function)();

/* Real MPI_X and PMPI_X of each row where all callers reach the same: NULL until first needed, and where several
 * libraries have it and none of them is in the global scope. */
extern any_function real_functions[CALL_INDEX_COUNT];
extern any_function real_profiling_functions[CALL_INDEX_COUNT];

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

/* The list of hooks. */
extern const struct hook __start_commtap_hooks[] __attribute__((visibility("hidden"), weak));
extern const struct hook __stop_commtap_hooks[] __attribute__((visibility("hidden"), weak));

/* Where the library is loaded that provides the job's MPI; NULL: none is known. Atomic. */
extern const void *reached_provider;

/* Counts what makes a look-up that is under way worthless: another library with the name, or one unloaded. */
uint32_t reached_doubts(void);

/* All callers reach `found`, if there has been no doubt since `doubts`. */
void reached_set(any_function *slot, any_function found, uint32_t doubts);

/* Another library with that name may have come: the answer may differ from caller to caller from now on. */
void reached_doubt(const char *name);

/* Libraries may have been unloaded (base/unloads.h): what was found in them is forgotten. */
void reached_look(void);

#endif
