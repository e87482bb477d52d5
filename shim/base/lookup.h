/* SPDX-License-Identifier: Apache-2.0
 *
 * Look-ups of ours in the libraries of the process, which the job never notices: none of them touches errno, loads a
 * library, or finds this one, and the job's dlerror() tells afterwards what it would have told before
 * (pending_error.h).
 * Lives here: the single steps of a search. Must not live here: which library is meant (intercept/resolve.h).
 */
#ifndef COMMTAP_SHIM_BASE_LOOKUP_H
#define COMMTAP_SHIM_BASE_LOOKUP_H

#include <stdbool.h>

void *lookup_next(const char *name); /* the next definer in link order: what the global scope has without us */
void *lookup_in_callers_library(const char *name, const void *caller); /* with all it depends on */
void *lookup_in_any_library(const char *name);
void *lookup_handle(const char *path); /* of a library that is loaded already; it then stays loaded */
void *lookup_by_handle(void *handle, const char *name);

/* A symbol of one library, named by its soname, as that library itself defines it; NULL when the process has not loaded
 * the library or it has no such symbol. */
void *lookup_in_loaded(const char *library, const char *name);

struct lookup_place {
    const void *base; /* where the library is loaded */
    char path[512];
};
/* The library that an address lies in; false when it lies in none. */
bool lookup_place(const void *address, struct lookup_place *place);

/* Several steps as one search. lookup_begin answers with errno, which lookup_end sets again. Pairs may be nested. */
int lookup_begin(void);
void lookup_end(int saved);

#endif
