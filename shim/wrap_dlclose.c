/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook on dlclose: afterwards other code may lie where a remembered return address points.
 * Must not live here: finding out whether something went (base/unloads.h) and what (stacks/modules.h), or any change to
 * what the job asked for.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "shim/base/lookup.h"
#include "shim/base/unloads.h"
#include "shim/intercept/dependents.h"
#include "shim/intercept/reached.h"

__attribute__((visibility("default"))) int dlclose(void *handle) {
    static int (*real)(void *);
    int (*found)(void *) = __atomic_load_n(&real, __ATOMIC_RELAXED);
    if (!found) {
        found = (int (*)(void *))lookup_next("dlclose");
        __atomic_store_n(&real, found, __ATOMIC_RELAXED);
    }
    dependents_keep();
    int result = found ? found(handle) : -1;
    unloads_look();
    if (dependents_release())
        unloads_look();
    reached_look();
    return result;
}
