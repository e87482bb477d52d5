/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/intercept/dependents.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/base/elf_symbol.h"
#include "shim/base/linker.h"
#include "shim/base/lookup.h"
#include "shim/intercept/opening.h"

#define DEPENDENTS 64u
static struct dependent {
    const void *object; /* where it is loaded; NULL: the entry is free */
    const void *library;
    void *handle;
} dependents[DEPENDENTS];

/* One thread at a time looks through them: another one has nothing to add that the next look would not find. */
static bool busy;

static bool begin(void) {
    return !__atomic_exchange_n(&busy, true, __ATOMIC_ACQUIRE);
}

static void end(void) {
    __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
}

static void keep(const void *object, const char *path, const void *library) {
    struct dependent *free_entry = NULL;
    for (struct dependent *d = dependents; d < dependents + DEPENDENTS; d++) {
        if (d->object == object && d->library == library)
            return;
        if (!d->object && !free_entry)
            free_entry = d;
    }
    void *handle = free_entry && object != library ? linker_loaded(path) : NULL;
    if (handle)
        *free_entry = (struct dependent){object, library, handle};
}

void dependents_add(const void *caller, const void *found) {
    Dl_info object, library;
    if (!opening_global_came_later() || !begin())
        return;
    if (linker_dladdr(caller, &object) && linker_dladdr(found, &library))
        keep(object.dli_fbase, library.dli_fname, library.dli_fbase);
    end();
}

/* ---- who is bound ---------------------------------------------------------------------------- */

struct bound {
    size_t index, count;
    struct {
        size_t index; /* in the linker's list */
        const void *inside;
    } objects[DEPENDENTS];
};

/* Where the first reference is that is bound to us. */
static const void *reference_to_us(const struct elf_tables *object, const struct elf_relocations *list, size_t first) {
    for (size_t i = first; i < list->count; i++) {
        const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(list->entries[i].r_info)];
        const char *name = object->strings + symbol->st_name;
        void **slot = (void **)(object->base + list->entries[i].r_offset);
        if (ELF64_R_SYM(list->entries[i].r_info) && (*name == 'M' || *name == 'P') && linker_is_ours(*slot))
            return slot;
    }
    return NULL;
}

static int list_bound(struct dl_phdr_info *info, size_t size, void *data) {
    struct bound *bound = data;
    struct elf_tables object;
    size_t index = bound->index++;
    (void)size;
    if (bound->count == DEPENDENTS || info->dlpi_addr == linker_own_tables()->base || !elf_tables(info, &object))
        return 0;
    const void *reference = reference_to_us(&object, &object.data, object.relative);
    if (!reference)
        reference = reference_to_us(&object, &object.calls, 0);
    if (reference) {
        bound->objects[bound->count].index = index;
        bound->objects[bound->count++].inside = reference;
    }
    return 0;
}

void dependents_keep(void) {
    struct bound bound = {0};
    Dl_info object, library;
    void *found;
    if (!opening_global_came_later() || !(found = lookup_next("MPI_Init")) || !linker_dladdr(found, &library) ||
        !begin())
        return;
    int saved = lookup_begin();
    linker_iterate(list_bound, &bound);
    for (size_t i = 0; i < bound.count; i++)
        if (!opening_is_linked_to(bound.objects[i].index, "MPI_Init") &&
            linker_dladdr(bound.objects[i].inside, &object))
            keep(object.dli_fbase, library.dli_fname, library.dli_fbase);
    lookup_end(saved);
    end();
}

static bool is_loaded(const void *base) {
    Dl_info info;
    return linker_dladdr(base, &info) && info.dli_fbase == base;
}

bool dependents_release(void) {
    bool any = false;
    if (!begin())
        return false;
    for (struct dependent *d = dependents; d < dependents + DEPENDENTS; d++)
        if (d->object && !is_loaded(d->object)) {
            void *handle = d->handle;
            int saved = lookup_begin();
            *d = (struct dependent){0};
            linker_dlclose(handle);
            lookup_end(saved);
            any = true;
        }
    end();
    return any;
}
