/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the job's libraries lack stay invisible, though this library exports them.
 * Lives here: hiding them from references, letting go of references to a library that is not recorded. Must not live
 * here: answers to dlsym() (wrap_dlsym.c).
 *
 * This library exports every function it knows; the job's MPI, NCCL or CUDA may lack some, or not be there at all.
 * Callers that refer to a function weakly take a reference that is not NULL for "it is there", and call it.
 *
 * Most is done while the linker relocates this library, before any library or the program has started.
 *   - Objects relocated before this library: their weak references to what nobody else defines become NULL.
 *   - Objects relocated later: our functions are turned into indirect ones, which the linker asks for their address at
 *     each reference. They answer with the wrapper where another object has the function; else NULL to a weak
 * reference, and to a strong one the linker's own failure. (In the file they are plain functions: of indirect ones in
 * libraries not relocated yet the linker warns on stderr.) A process that refers to none of them is spared the cost
 * until it opens a library.
 */
#ifndef COMMTAP_SHIM_INTERCEPT_ABSENT_H
#define COMMTAP_SHIM_INTERCEPT_ABSENT_H

/* Before any object is opened, or a function of ours is looked up. */
void absent_prepare(void);

/* Between these, a look-up of `name` by this thread that finds our function fails on behalf of `object`, its caller,
 * even where a library that the caller cannot see has it. */
void absent_begin_failing(const char *name, const char *object);
void absent_end_failing(void);

/* Where one library is recorded and another has MPI's functions, too, references of objects that see only the other are
 * bound to that itself. Calls through them need not say who calls, which a tail call hides. */
void absent_release(void);

#endif
