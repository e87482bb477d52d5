/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook on dlclose: afterwards other code may lie where a remembered return address points.
 * Must not live here: finding out what went (modules.c), or any change to what the job asked for.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "shim/intercept/resolve.h"
#include "shim/stacks/modules.h"

__attribute__((visibility("default"))) int dlclose(void *handle) {
    static any_function real;
    any_function found = __atomic_load_n(&real, __ATOMIC_RELAXED);
    if (!found) {
        found = (any_function)resolve_next("dlclose");
        __atomic_store_n(&real, found, __ATOMIC_RELAXED);
    }
    int result = found ? (int)found(handle) : -1;
    modules_closed();
    return result;
}
