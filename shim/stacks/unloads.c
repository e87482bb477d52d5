/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook on dlclose: afterwards other code may lie where a remembered return address points.
 * Must not live here: finding out what went (modules.c), or any change to what the job asked for.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "shim/resolve.h"
#include "shim/stacks/modules.h"

HOOK(dlclose, real_dlclose);

__attribute__((visibility("default"))) int dlclose(void *handle) {
    any_function real = resolve_hook(&hook_dlclose, __builtin_return_address(0));
    int result = real ? (int)real(handle) : -1;
    modules_unloaded();
    return result;
}
