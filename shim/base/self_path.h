/* SPDX-License-Identifier: Apache-2.0
 *
 * This library's own file, as others are told to load it.
 * Lives here: finding that path, and offering it in an environment variable. Must not live here: what for.
 */
#ifndef COMMTAP_SHIM_BASE_SELF_PATH_H
#define COMMTAP_SHIM_BASE_SELF_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* The absolute path of this library into `path`; false when it is unknown or does not fit. errno is kept. */
bool self_path(char *path, size_t size);

/* True when the dynamic linker loaded this library with the program (LD_PRELOAD, or linked in), ahead of libc: only
 * then do its wrappers stand before the job's calls. False when it was opened later, which is what happens in a child
 * that inherited a variable set below, but not the preload. */
bool self_preloaded(void);

/* Sets `variable` to the library's own path unless the environment has it already: what the user or a profiler has
 * chosen stays. For the constructor: libc only. errno is kept. */
void self_offer(const char *variable);

#endif
