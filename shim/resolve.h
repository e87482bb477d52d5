/* SPDX-License-Identifier: Apache-2.0
 *
 * From a wrapper to the function it stands for.
 * Lives here: finding the real function however the job reached its library; the dlsym hook; which library copy is the
 * job's. Must not live here: what a wrapper does around the call.
 */
#ifndef COMMTAP_RESOLVE_H
#define COMMTAP_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/call.h"

/* Every argument is an integer or a pointer and travels unchanged. */
typedef uintptr_t (*any_function)();

/* Real MPI_X and PMPI_X of each row, NULL until first needed. */
extern any_function real_functions[CALL_INDEX_COUNT];
extern any_function real_profiling_functions[CALL_INDEX_COUNT];

/* The real function of a row for a call from `caller` (its return address). When there is no provider at all: a
 * function that returns the API's error. Never NULL. */
any_function resolve_call(unsigned index, bool profiling, const void *caller);

/* The same by name, for functions that have no row; NULL when nothing provides it. */
void *resolve_name(const char *name, const void *caller);

/* A symbol that the job's MPI defines (a function or an object); NULL when it has none. Objects that the program has
 * copied (copy relocations) are found at their live place. */
void *resolve_in_provider(const char *name);

/* Path of the library that provides the job's MPI, "" before it is known. */
const char *resolve_provider_path(void);

/* True when the return address lies in a Fortran binding, which may call PMPI_ functions on the program's behalf. */
bool resolve_caller_is_fortran(const void *caller);

#endif
