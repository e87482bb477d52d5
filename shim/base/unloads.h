/* SPDX-License-Identifier: Apache-2.0
 *
 * How often a library was unloaded: what is remembered of an address holds only until the next time.
 * Must not live here: which library went (stacks/modules.h), what is forgotten for it.
 */
#ifndef COMMTAP_SHIM_BASE_UNLOADS_H
#define COMMTAP_SHIM_BASE_UNLOADS_H

#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* Unloads so far: threads compare it with what they have seen before they trust anything remembered of an address. */
extern uint32_t unloads_so_far;

/* dlclose has returned: a library may just have been unloaded. Most that are closed stay loaded for others, and nothing
 * need be forgotten. */
void unloads_look(void);

/* One was found out in some other way. */
void unloads_count(void);

/* The dynamic linker's own count, as it tells it with each object. */
uint64_t unloads_of_linker(const struct dl_phdr_info *info, size_t size);

#endif
