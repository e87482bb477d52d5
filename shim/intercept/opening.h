/* SPDX-License-Identifier: Apache-2.0
 *
 * The objects that a dlopen() of this thread brings, while the linker binds their references.
 * Lives here: telling that this is under way, what those objects see of the others, and what earlier ones saw.
 * Must not live here: what a reference is answered with (absent.h).
 *
 * The linker asks for the address of an indirect function without saying for whom. But objects that come together all
 * see the same: the global scope, each other, and what any of them is linked to.
 */
#ifndef COMMTAP_SHIM_INTERCEPT_OPENING_H
#define COMMTAP_SHIM_INTERCEPT_OPENING_H

#include <stdbool.h>
#include <stddef.h>

/* This thread is about to call dlopen(); it looks a name up, so that what it opened is complete. */
void opening_begins(void);
void opening_ends(void);

/* Did the object that `caller` lies in come before a library with an MPI was made global that had been local? Then its
 * references are bound to what it is linked to itself. */
bool opening_precedes_global(const void *caller);

/* Has the global scope had an MPI from the start? Then all objects see that one, or the tool's that stands before it.
 * Not while the linker's list is gone through: it looks a name up. */
bool opening_all_see_global(void);

/* Has the global scope got an MPI since the process started, by a dlopen()? Looks a name up. */
bool opening_global_came_later(void);

/* Does the object at `index` in the linker's list, or anything that it is linked to, define the name? */
bool opening_is_linked_to(size_t index, const char *name);

/* How a reference of objects that just come is to be bound. */
enum opening_sight {
    OPENING_NOTHING,  /* no such reference, or in doubt */
    OPENING_LACKS,    /* they refer to the name weakly, and see nobody who has it */
    OPENING_STRANGER, /* they see one definition only, of a library that is not recorded */
};

/* The reference that is being bound now, to a name that some library has. `provider`: an address in the library that is
 * recorded, NULL while none is known. `stranger` becomes the one definition. */
enum opening_sight opening_look(const char *name, const void *provider, void **stranger);

/* References bound before, of the object at `index` in the linker's list, which `inside` lies in: what it sees under
 * the name where that is one definition only, of a library that is not recorded; else NULL. */
void *opening_stranger_to(size_t index, const void *inside, const char *name, const void *provider);

#endif
