/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects that need a library which they reach through our wrappers alone.
 * Lives here: keeping such a library loaded as long as they are. Must not live here: finding a real function
 * (resolve.h).
 *
 * The linker keeps a library loaded for an object that was bound to it, or found something in it by RTLD_DEFAULT, even
 * where it is not linked to it (add_dependency() in glibc's elf/dl-lookup.c). What is bound to us depends on us alone.
 */
#ifndef COMMTAP_SHIM_INTERCEPT_DEPENDENTS_H
#define COMMTAP_SHIM_INTERCEPT_DEPENDENTS_H

#include <stdbool.h>

/* `caller` was answered with our wrapper for `found`, which the global scope has. */
void dependents_add(const void *caller, const void *found);

/* The job is about to close a library: what others are bound to stays. */
void dependents_keep(void);

/* Closes what was kept for objects that are gone. Returns whether there was any. */
bool dependents_release(void);

#endif
