/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of stacks.h: open addressing, a slot claimed by compare-and-swap and never given up.
 */
#include "shim/stacks/stacks.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "shim/recorder.h"

#define MODULES 1024u

struct stack_slot *stack_slots;
static uint32_t next_id;

/* Address ranges of modules already defined; entries are published by their `end`. */
static struct { uintptr_t start, end; } modules[MODULES];
static uint32_t module_count;

bool stacks_begin(const char *mode) {
    stack_slots = NULL;
    next_id = module_count = 0;
    memset(modules, 0, sizeof modules);
    if (!strcmp(mode, "off"))
        return true;
    if (strcmp(mode, "site"))
        return false;
    stack_slots = os_memory(STACK_SLOTS * sizeof *stack_slots);
    return stack_slots != NULL;
}

/* ---- modules --------------------------------------------------------------------------------- */

struct module_search {
    uintptr_t address;
    uintptr_t start, end, base;
    const uint8_t *build_id; /* NULL: has none */
    uint32_t build_id_bytes;
    char path[1024];
};

static void find_build_id(const struct dl_phdr_info *info, const ElfW(Phdr) * notes, struct module_search *search) {
    const char *at = (const char *)(info->dlpi_addr + notes->p_vaddr), *end = at + notes->p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
        const ElfW(Nhdr) *note = (const void *)at;
        const char *name = at + sizeof *note, *value = name + ((note->n_namesz + 3u) & ~3u);
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
            search->build_id = (const uint8_t *)value;
            search->build_id_bytes = note->n_descsz;
            return;
        }
        at = value + ((note->n_descsz + 3u) & ~3u);
    }
}

static int match_module(struct dl_phdr_info *info, size_t size, void *data) {
    struct module_search *search = data;
    uintptr_t start = UINTPTR_MAX, end = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD)
            continue;
        uintptr_t from = info->dlpi_addr + header->p_vaddr, to = from + header->p_memsz;
        start = from < start ? from : start;
        end = to > end ? to : end;
    }
    if (search->address < start || search->address >= end)
        return 0;
    search->start = start;
    search->end = end;
    search->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum && !search->build_id; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE)
            find_build_id(info, &info->dlpi_phdr[i], search);
    copy_text(search->path, sizeof search->path, info->dlpi_name);
    return 1;
}

static void write_module(const struct module_search *search) {
    uint32_t path_bytes = (uint32_t)strlen(search->path);
    struct module_definition *d =
        definitions_reserve(&recorder.definitions, sizeof *d + search->build_id_bytes + path_bytes);
    if (!d)
        return;
    d->start = search->start;
    d->end = search->end;
    d->base = search->base;
    d->seen_ticks = ticks();
    d->build_id_bytes = search->build_id_bytes;
    d->path_bytes = path_bytes;
    if (search->build_id_bytes)
        memcpy(d->data, search->build_id, search->build_id_bytes);
    memcpy(d->data + search->build_id_bytes, search->path, path_bytes);
    definitions_commit(d, DEFINITION_MODULE);
}

static bool is_known(uintptr_t address) {
    uint32_t count = __atomic_load_n(&module_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count && i < MODULES; i++)
        if (address >= modules[i].start && address < __atomic_load_n(&modules[i].end, __ATOMIC_ACQUIRE))
            return true;
    return false;
}

static void define_module(uintptr_t address) {
    struct module_search search = {.address = address};
    if (is_known(address) || !dl_iterate_phdr(match_module, &search))
        return;
    if (!search.path[0]) { /* the program itself has no name there */
        ssize_t n = readlink("/proc/self/exe", search.path, sizeof search.path - 1);
        search.path[n > 0 ? n : 0] = '\0';
    }
    write_module(&search);
    uint32_t slot = __atomic_fetch_add(&module_count, 1, __ATOMIC_RELAXED);
    if (slot < MODULES) {
        modules[slot].start = search.start;
        __atomic_store_n(&modules[slot].end, search.end, __ATOMIC_RELEASE);
    }
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static void define(struct stack_slot *slot, uintptr_t address) {
    int saved = errno;
    uint32_t id = __atomic_add_fetch(&next_id, 1, __ATOMIC_RELAXED);
    struct stack_definition *d = definitions_reserve(&recorder.definitions, sizeof *d + sizeof d->entries[0]);
    define_module(address);
    if (d) {
        d->id = id;
        d->depth = 1;
        d->entries[0] = address;
        definitions_commit(d, DEFINITION_STACK);
        __atomic_store_n(&slot->id, id, __ATOMIC_RELEASE);
    }
    errno = saved;
}

uint32_t stack_define_site(uintptr_t address) {
    uint32_t at = (uint32_t)(address * 0x9e3779b97f4a7c15u >> 40);
    for (uint32_t i = 0; i < STACK_SLOTS; i++) {
        struct stack_slot *slot = &stack_slots[(at + i) % STACK_SLOTS];
        uintptr_t free = 0;
        if (__atomic_compare_exchange_n(&slot->address, &free, address, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            define(slot, address);
        else if (free != address)
            continue;
        return __atomic_load_n(&slot->id, __ATOMIC_ACQUIRE);
    }
    return STACK_NONE;
}
