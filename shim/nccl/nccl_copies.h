/* SPDX-License-Identifier: Apache-2.0
 *
 * The copies of NCCL (or RCCL) in this process, and which of them a call is for.
 * Several are common: a framework brings one, an extension module another. A communicator of one means nothing to the
 * other, so each call must reach the copy that it would have reached without us.
 * Lives here: telling copies apart, their functions, the entry through which a looked-up function is handed out.
 * Must not live here: what is done around a call (wrap_nccl.c).
 */
#ifndef COMMTAP_NCCL_COPIES_H
#define COMMTAP_NCCL_COPIES_H

#include <stdint.h>

#include "shim/call.h"
#include "shim/intercept/resolve.h"

#define NCCL_COPIES 4u /* more than these are handed out raw and counted */

/* Entry number of the exported function: its caller decides which copy is meant. Entries 0 .. NCCL_COPIES - 1 are bound
 * to one copy each. */
#define NCCL_BY_CALLER NCCL_COPIES

/* What a job gets when it looks a function up, by entry number (wrap_nccl.c); NULL for rows that are not NCCL's. */
any_function nccl_entry(unsigned index, unsigned entry);

/* Functions that every caller reaches, since a library in the global scope has them; NULL until known, and where
 * callers differ. */
extern any_function nccl_global_functions[CALL_INDEX_COUNT];

/* The functions of each copy, NULL until first needed. */
extern any_function nccl_functions[NCCL_COPIES][CALL_INDEX_COUNT];

/* The real function for a call that came in by `entry` from `caller`. `made_by` is the copy that made the communicator
 * argument, -1 when that is unknown: it decides where the caller does not. *copy becomes the copy's number, -1 when it
 * has none. Never NULL: without any provider the function returns ncclSystemError. */
any_function nccl_find_function(unsigned index, unsigned entry, const void *caller, int made_by, int *copy);

/* The number of the copy that a function belongs to, -1 when it has none. */
int nccl_copy_of_function(const void *function);

/* A function of a copy by name, for those without a row; NULL when it has none of that name. */
void *nccl_copy_symbol(int copy, const char *name);

/* Path of a copy's library, "" when unknown. */
const char *nccl_copy_path(int copy);

/* A job's look-up on `handle` found `found`, outside of this library; `next` is what the global scope has. Returns what
 * the job gets: the entry bound to the library that `found` lies in, or `found` itself when the entries are used up. */
void *nccl_answer(unsigned index, void *handle, void *found, void *next);

#endif
