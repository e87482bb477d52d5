/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/base/lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "shim/base/linker.h"
#include "shim/base/os.h"
#include "shim/base/pending_error.h"

int lookup_begin(void) {
    linker_bind_to_libc();
    int saved = errno;
    pending_error_hold();
    return saved;
}

void lookup_end(int saved) {
    pending_error_release();
    errno = saved;
}

void *lookup_next(const char *name) {
    int saved = lookup_begin();
    void *found = linker_next(name);
    lookup_end(saved);
    return found;
}

void *lookup_in_callers_library(const char *name, const void *caller) {
    int saved = lookup_begin();
    void *found = linker_in_library_of(caller, name);
    lookup_end(saved);
    return found;
}

void *lookup_in_any_library(const char *name) {
    return linker_symbol_elsewhere(name);
}

void *lookup_handle(const char *path) {
    int saved = lookup_begin();
    void *handle = *path ? linker_loaded(path) : NULL;
    lookup_end(saved);
    return handle;
}

void *lookup_by_handle(void *handle, const char *name) {
    int saved = lookup_begin();
    void *found = linker_dlsym(handle, name);
    lookup_end(saved);
    return found && !linker_is_ours(found) ? found : NULL;
}

void *lookup_in_loaded(const char *library, const char *name) {
    int saved = lookup_begin();
    void *handle = linker_loaded(library);
    void *found = handle ? linker_dlsym(handle, name) : NULL;
    lookup_end(saved);
    return found;
}

bool lookup_place(const void *address, struct lookup_place *place) {
    Dl_info info;
    if (!linker_dladdr(address, &info) || !info.dli_fname)
        return false;
    place->base = info.dli_fbase;
    copy_text(place->path, sizeof place->path, info.dli_fname);
    return true;
}
