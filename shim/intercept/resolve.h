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
#include "shim/intercept/reached.h"

/* The real function of a row for a call from `caller` (its return address). Never NULL: where nothing provides it, see
 * resolve_absent(). `recorded` becomes false where the call is not one of the job's MPI, but of another library in the
 * process, or is not made at all. */
any_function resolve_call(unsigned index, bool profiling, const void *caller, bool *recorded);

/* The same by name, for functions that have no row; `slot` becomes what all callers reach. NULL when nothing provides
 * it. */
any_function resolve_shared(any_function *slot, const char *name, const void *caller, bool *recorded);

/* A call of a function that nothing provides fails as the linker would have let it fail without us, which ends the
 * process or the dlopen() that it is part of. Where that cannot be done: `error`, a function that returns the API's. */
any_function resolve_absent(const char *name, const void *caller, any_function error);

/* Our own need of a function, by name; NULL when nothing provides it. */
void *resolve_name(const char *name, const void *caller);

/* The same where only what the job's MPI has will do. */
void *resolve_in_job_mpi(const char *name);

/* ---- functions without a row in calls.def ----------------------------------------------------- */

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
