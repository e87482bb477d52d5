/* SPDX-License-Identifier: Apache-2.0
 *
 * The linker lists objects in the order in which they came. Nothing here calls the C library but the linker's own
 * functions, found in its tables (base/linker.h).
 */
#include "shim/intercept/opening.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "shim/base/elf_symbol.h"
#include "shim/base/linker.h"
#include "shim/base/lookup.h"

/* The last object that was there before; 0: this thread opens nothing. */
static __thread uintptr_t last_before;

static int note_last(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    *(uintptr_t *)data = (uintptr_t)info->dlpi_phdr;
    return 0;
}

/* When the global scope got an MPI: libraries may make themselves global while they start. */
enum scope { NOT_KNOWN, HAS_NONE, HAS_ONE };
static struct {
    enum scope scope;
    uintptr_t since; /* the last object there was then; 0: it has one from the start, or none */
} global_mpi;

static void look_at_global_scope(uintptr_t last) {
    enum scope before = __atomic_load_n(&global_mpi.scope, __ATOMIC_ACQUIRE);
    if (before == HAS_ONE)
        return;
    enum scope now = linker_has_elsewhere("MPI_Init") && lookup_next("MPI_Init") ? HAS_ONE : HAS_NONE;
    if (before == HAS_NONE && now == HAS_ONE)
        __atomic_store_n(&global_mpi.since, last, __ATOMIC_RELEASE);
    __atomic_store_n(&global_mpi.scope, now, __ATOMIC_RELEASE);
}

void opening_begins(void) {
    uintptr_t last = 0;
    linker_iterate(note_last, &last);
    look_at_global_scope(last);
    last_before = last;
}

bool opening_global_came_later(void) {
    uintptr_t last = 0;
    if (__atomic_load_n(&global_mpi.scope, __ATOMIC_ACQUIRE) == HAS_NONE) {
        linker_iterate(note_last, &last);
        look_at_global_scope(last);
    }
    return __atomic_load_n(&global_mpi.since, __ATOMIC_ACQUIRE) != 0;
}

struct order {
    uintptr_t caller, since;
    bool caller_seen, since_seen;
};

static int compare(struct dl_phdr_info *info, size_t size, void *data) {
    struct order *order = data;
    (void)size;
    order->caller_seen |= linker_contains(info, order->caller);
    order->since_seen |= (uintptr_t)info->dlpi_phdr == order->since;
    return order->since_seen;
}

bool opening_precedes_global(const void *caller) {
    struct order order = {(uintptr_t)caller, __atomic_load_n(&global_mpi.since, __ATOMIC_ACQUIRE), false, false};
    if (order.since)
        linker_iterate(compare, &order);
    return order.since_seen && order.caller_seen;
}

void opening_ends(void) {
    last_before = 0;
}

bool opening_all_see_global(void) {
    if (__atomic_load_n(&global_mpi.scope, __ATOMIC_ACQUIRE) == NOT_KNOWN)
        look_at_global_scope(0);
    return __atomic_load_n(&global_mpi.scope, __ATOMIC_ACQUIRE) == HAS_ONE &&
           !__atomic_load_n(&global_mpi.since, __ATOMIC_ACQUIRE);
}

#define OBJECTS 1024u
struct group {
    const char *name, *proof; /* what is referred to; what a library of that interface has in any case */
    uint32_t hash;
    const void *provider;
    size_t index;      /* of the object that is visited */
    bool passed;       /* the objects that are visited are new ones */
    bool refers, weak; /* one of them refers to the name; weakly */
    bool relocating;   /* one of them is not relocated yet */
    bool grown;
    bool sees_provider;
    bool proven; /* the definition is of a library of that interface */
    unsigned definitions;
    void *definition;
    const char *needed;
    uint64_t members[OBJECTS / 64], done[OBJECTS / 64];
};

static void walk(struct group *group, int (*visit)(struct dl_phdr_info *, size_t, void *)) {
    group->index = 0;
    group->passed = false;
    linker_iterate(visit, group);
}

/* What an object defines itself it refers to by the same way. */
static void note_references(struct group *group, const struct elf_tables *object) {
    size_t count = elf_reference_count(object);
    group->refers |= elf_definition(object, group->name, group->hash) != NULL;
    for (size_t i = 1; i < count; i++) {
        const ElfW(Sym) *symbol = &object->symbols[i];
        if (symbol->st_shndx != SHN_UNDEF || strcmp(object->strings + symbol->st_name, group->name) != 0)
            continue;
        group->refers = true;
        group->weak |= ELF64_ST_BIND(symbol->st_info) == STB_WEAK;
    }
}

/* The linker comes to an object's calls last: until then they are distances within the file. */
static bool is_relocating(const struct dl_phdr_info *info, const struct elf_tables *object) {
    const struct elf_relocations *calls = &object->calls;
    uintptr_t end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz > end)
            end = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    return calls->count > 0 && end <= object->base &&
           *(uintptr_t *)(object->base + calls->entries[calls->count - 1].r_offset) < end;
}

static int find_new(struct dl_phdr_info *info, size_t size, void *data) {
    struct group *group = data;
    struct elf_tables object;
    size_t index = group->index++;
    (void)size;
    if (group->passed && index < OBJECTS && elf_tables(info, &object)) {
        group->members[index / 64] |= 1ull << index % 64;
        note_references(group, &object);
        group->relocating |= is_relocating(info, &object);
    }
    group->passed |= (uintptr_t)info->dlpi_phdr == last_before;
    return 0;
}

/* ---- what they are linked to ------------------------------------------------------------------- */

static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *info) {
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return NULL;
}

static bool is_called(const struct dl_phdr_info *info, const struct elf_tables *object, const char *name) {
    const char *slash = strrchr(info->dlpi_name, '/');
    if (!strcmp(info->dlpi_name, name) || (slash && !strcmp(slash + 1, name)))
        return true;
    for (const ElfW(Dyn) *d = dynamic_of(info); d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_SONAME)
            return !strcmp(object->strings + d->d_un.d_val, name);
    return false;
}

static int add_needed(struct dl_phdr_info *info, size_t size, void *data) {
    struct group *group = data;
    struct elf_tables object;
    size_t index = group->index++;
    (void)size;
    if (index >= OBJECTS || !elf_tables(info, &object) || !is_called(info, &object, group->needed))
        return 0;
    group->grown |= !(group->members[index / 64] >> index % 64 & 1);
    group->members[index / 64] |= 1ull << index % 64;
    return 1;
}

static void note_definition(struct group *group, const struct dl_phdr_info *info, const struct elf_tables *object) {
    const ElfW(Sym) *symbol = elf_definition(object, group->name, group->hash);
    group->sees_provider |= group->provider && linker_contains(info, (uintptr_t)group->provider);
    if (!symbol || object->base == linker_own_tables()->base)
        return;
    group->definitions++;
    group->definition = elf_address(object, symbol);
    group->proven |= elf_definition(object, group->proof, elf_hash(group->proof)) != NULL;
}

/* Adds what one member is linked to, and sees whether it has the name itself. */
static int expand(struct dl_phdr_info *info, size_t size, void *data) {
    struct group *group = data;
    struct elf_tables object;
    size_t index = group->index++;
    (void)size;
    if (index >= OBJECTS || !(group->members[index / 64] & ~group->done[index / 64] & 1ull << index % 64) ||
        !elf_tables(info, &object))
        return 0;
    group->done[index / 64] |= 1ull << index % 64;
    note_definition(group, info, &object);
    for (const ElfW(Dyn) *d = dynamic_of(info); d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED) {
            group->needed = object.strings + d->d_un.d_val;
            group->index = 0;
            linker_iterate(add_needed, group);
        }
    group->index = index + 1;
    return 0;
}

/* A failed look-up leaves a message, which is read once: to be read twice it would have to be the job's. */
static bool is_global(const char *name) {
    if (linker_next(name))
        return true;
    linker_dlerror();
    return false;
}

/* Those of CUDA's have none: which library is called is decided at each call. */
static const char *proof_of(const char *name) {
    return *name == 'n' ? "ncclGetUniqueId" : *name == 'c' || *name == 'h' ? name : "PMPI_Comm_group";
}

/* Of MPI one library is recorded, of the others all. */
static bool is_strange(const struct group *group) {
    bool is_mpi = *group->name == 'M' || *group->name == 'P';
    bool recorded = is_mpi ? group->sees_provider || (group->proven && !group->provider) : group->proven;
    return group->definitions == 1 && group->definition && !recorded;
}

/* Most references are strong and only one library has the function: no more need be known. */
static bool is_plain(const struct group *group) {
    return !group->weak && !linker_has_several(group->name) && linker_has_elsewhere(group->proof);
}

static struct group group_about(const char *name, const void *provider) {
    return (struct group){.name = name, .proof = proof_of(name), .hash = elf_hash(name), .provider = provider};
}

static void expand_all(struct group *group) {
    do {
        group->grown = false;
        walk(group, expand);
    } while (group->grown);
}

bool opening_is_linked_to(size_t index, const char *name) {
    struct group group = group_about(name, NULL);
    if (index >= OBJECTS)
        return true;
    group.members[index / 64] = 1ull << index % 64;
    expand_all(&group);
    return group.definitions > 0;
}

void *opening_stranger_to(size_t index, const void *inside, const char *name, const void *provider) {
    struct group group = group_about(name, provider);
    bool global = __atomic_load_n(&global_mpi.scope, __ATOMIC_ACQUIRE) == HAS_ONE && !opening_precedes_global(inside);
    if (global || index >= OBJECTS)
        return NULL;
    group.members[index / 64] = 1ull << index % 64;
    expand_all(&group);
    return is_strange(&group) ? group.definition : NULL;
}

enum opening_sight opening_look(const char *name, const void *provider, void **stranger) {
    if (!last_before)
        return OPENING_NOTHING;
    struct group group = group_about(name, provider);
    walk(&group, find_new);
    if (!group.refers || !group.relocating || group.index > OBJECTS || is_plain(&group))
        return OPENING_NOTHING;
    expand_all(&group);
    bool lacks = group.definitions == 0 && group.weak;
    if ((!lacks && !is_strange(&group)) || is_global(name))
        return OPENING_NOTHING;
    *stranger = group.definition;
    return lacks ? OPENING_LACKS : OPENING_STRANGER;
}
