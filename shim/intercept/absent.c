/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs before this library's own relocations are complete and before sanitizers are up: no call of the C library but
 * the linker's dl_iterate_phdr(), found in its tables; the kernel is called directly.
 */
#include "shim/intercept/absent.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/base/elf_symbol.h"
#include "shim/base/linker.h"
#include "shim/base/os.h"
#include "shim/base/system_call.h"
#include "shim/intercept/opening.h"
#include "shim/intercept/reached.h"

/* Resolvers of indirect functions have no argument that tells which one is asked for: one short piece of code each, by
 * the symbol's number. */
#define RESOLVERS      1024
#define RESOLVER_BYTES 16

#if defined(__x86_64__)
#define REFERENCE_TYPES R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, R_X86_64_64
__asm__(".pushsection commtap_resolvers,\"ax\"\n.balign 16\nabsent_resolvers:\n.set number, 0\n.rept 1024\n"
        "endbr64\nmov $number,%edi\njmp absent_resolve\n.balign 16\n.set number, number + 1\n.endr\n.popsection\n");
#else
#define REFERENCE_TYPES R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT, R_AARCH64_ABS64
__asm__(".pushsection commtap_resolvers,\"ax\"\n.balign 16\nabsent_resolvers:\n.set number, 0\n.rept 1024\n"
        "hint #34\nmov w0,#number\nb absent_resolve\n.balign 16\n.set number, number + 1\n.endr\n.popsection\n");
#endif
extern const char absent_resolvers[] __attribute__((visibility("hidden")));

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

/* ---- the kernel ------------------------------------------------------------------------------ */

static bool protect(uintptr_t page, size_t bytes, int rights) {
    return system_call(SYS_mprotect, (long)page, (long)bytes, rights, 0) == 0;
}

/* ---- which functions ------------------------------------------------------------------------- */

/* Quick, and wrong in one direction only: nearly every name is none of ours. */
static bool may_be_ours(const char *name) {
    switch (*name) {
    case 'M':
    case 'P':
        return name[1] == 'P' || name[1] == 'M'; /* MPI_ PMPI_ */
    case 'n':
        return name[1] == 'c'; /* nccl */
    case 'c':
        return name[1] == 'u'; /* cuda cu */
    case 'h':
        return name[1] == 'i'; /* hip */
    }
    return false;
}

/* Not the hooks on the linker's functions, which the C library has, nor the interfaces for plugins, which are ours. */
static bool can_be_absent(const ElfW(Sym) * symbol) {
    return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
           may_be_ours(linker_own_tables()->strings + symbol->st_name);
}

static const ElfW(Sym) * our_function(const char *name) {
    if (!may_be_ours(name))
        return NULL;
    const ElfW(Sym) *symbol = elf_definition(linker_own_tables(), name, elf_hash(name));
    return symbol && can_be_absent(symbol) ? symbol : NULL;
}

static void *wrapper_of(const ElfW(Sym) * symbol) {
    return (void *)(linker_own_tables()->base + symbol->st_value);
}

/* ---- references of objects that are relocated already ------------------------------------------ */

static const ElfW(Phdr) * header_of(const struct dl_phdr_info *info, uintptr_t slot, uint32_t type) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == type && slot - (info->dlpi_addr + header->p_vaddr) < header->p_memsz)
            return header;
    }
    return NULL;
}

/* The size of pages is not known yet: a wrong guess is refused. A page that ends behind `end` stays writable: the
 * linker protects whole pages only, and what else lies there is data. */
static void store_in_page(void **slot, void *value, int rights, uintptr_t end) {
    for (uintptr_t bytes = 4096; bytes <= 65536; bytes *= 4) {
        uintptr_t page = (uintptr_t)slot & ~(bytes - 1);
        if (!protect(page, bytes, PROT_READ | PROT_WRITE))
            continue;
        __atomic_store_n(slot, value, __ATOMIC_RELEASE);
        if (page + bytes <= end)
            protect(page, bytes, rights);
        return;
    }
}

/* What the linker has made read-only after relocating it is so again afterwards. */
static void store(const struct dl_phdr_info *info, void **slot, void *value) {
    const ElfW(Phdr) *segment = header_of(info, (uintptr_t)slot, PT_LOAD);
    const ElfW(Phdr) *read_only = header_of(info, (uintptr_t)slot, PT_GNU_RELRO);
    if (!segment)
        return;
    if (read_only)
        store_in_page(slot, value, PROT_READ, info->dlpi_addr + read_only->p_vaddr + read_only->p_memsz);
    else if (segment->p_flags & PF_W)
        __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    else
        store_in_page(slot, value, segment->p_flags & PF_X ? PROT_READ | PROT_EXEC : PROT_READ, UINTPTR_MAX);
}

static bool is_reference(uint64_t type) {
    static const uint64_t types[] = {REFERENCE_TYPES};
    return type == types[0] || type == types[1] || type == types[2];
}

/* True when the object refers to a function of ours at all. */
static bool hide_in_list(const struct dl_phdr_info *info, const struct elf_tables *object,
                         const struct elf_relocations *list, size_t first) {
    bool any = false;
    for (size_t i = first; i < list->count; i++) {
        const ElfW(Rela) *r = &list->entries[i];
        const ElfW(Sym) *reference = &object->symbols[ELF64_R_SYM(r->r_info)];
        if (reference->st_shndx != SHN_UNDEF || !is_reference(ELF64_R_TYPE(r->r_info)))
            continue;
        const char *name = object->strings + reference->st_name;
        const ElfW(Sym) *function = our_function(name);
        void **slot = (void **)(object->base + r->r_offset);
        if (function && ELF64_ST_BIND(reference->st_info) == STB_WEAK && *slot == wrapper_of(function) &&
            !linker_has_elsewhere(name))
            store(info, slot, NULL);
        any |= function != NULL;
    }
    return any;
}

static int hide_in_object(struct dl_phdr_info *info, size_t size, void *data) {
    struct elf_tables object;
    bool *any = data;
    (void)size;
    if (info->dlpi_addr == linker_own_tables()->base || !elf_tables(info, &object))
        return 0;
    *any |= hide_in_list(info, &object, &object.data, object.relative);
    *any |= hide_in_list(info, &object, &object.calls, 0);
    return 0;
}

/* ---- references of objects that are relocated later -------------------------------------------- */

static __thread struct { const char *name, *object; } failing;

void absent_begin_failing(const char *name, const char *object) {
    failing.name = name;
    failing.object = object;
}

void absent_end_failing(void) {
    failing.name = NULL;
}

struct references {
    const char *name;
    size_t (*count)(const struct elf_tables *); /* of an object's symbols that are looked at */
    bool weak;
    const char *strong; /* an object with a strong one */
};

static int look_for_references(struct dl_phdr_info *info, size_t size, void *data) {
    struct references *found = data;
    struct elf_tables object;
    (void)size;
    if (info->dlpi_addr == linker_own_tables()->base || !elf_tables(info, &object))
        return 0;
    size_t count = found->count(&object);
    for (size_t i = 1; i < count; i++) {
        const ElfW(Sym) *symbol = &object.symbols[i];
        if (symbol->st_shndx != SHN_UNDEF || strcmp(object.strings + symbol->st_name, found->name) != 0)
            continue;
        if (ELF64_ST_BIND(symbol->st_info) == STB_WEAK)
            found->weak = true;
        else
            found->strong = info->dlpi_name;
    }
    return found->weak;
}

/* A program that takes the address of a function may have its reference among its definitions. */
static struct references references_to(const char *name) {
    struct references references = {.name = name, .count = elf_reference_count};
    linker_iterate(look_for_references, &references);
    if (references.weak || references.strong)
        return references;
    references.count = elf_symbol_count;
    linker_iterate(look_for_references, &references);
    return references;
}

/* ---- references that are bound to us, or not yet, and need not be ------------------------------- */

/* What the linker is going to make read-only still is not: then it is not done with the object. Adding nothing to a
 * word tells, without harm. */
static bool is_settled(const struct dl_phdr_info *info, void **slot) {
    enum { ADD_NOTHING = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0) };
    uint32_t nobody = 0;
    return !header_of(info, (uintptr_t)slot, PT_GNU_RELRO) ||
           system_call_of_six(SYS_futex, (long)&nobody, FUTEX_WAKE_OP_PRIVATE, 0, 0, (long)slot, ADD_NOTHING) ==
               -EFAULT;
}

struct release {
    size_t index; /* of the object that is visited */
    const void *provider;
};

static void release_in_list(const struct release *release, const struct dl_phdr_info *info,
                            const struct elf_tables *object, const struct elf_relocations *list, size_t first) {
    for (size_t i = first; i < list->count; i++) {
        const ElfW(Rela) *r = &list->entries[i];
        const char *name = object->strings + object->symbols[ELF64_R_SYM(r->r_info)].st_name;
        if (!is_reference(ELF64_R_TYPE(r->r_info)) || (*name != 'M' && *name != 'P'))
            continue;
        const ElfW(Sym) *function = our_function(name);
        void **slot = (void **)(object->base + r->r_offset), *now = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
        bool to_be_bound = list == &object->calls && header_of(info, (uintptr_t)now, PT_LOAD);
        if (!function || (now != wrapper_of(function) && !to_be_bound) || !is_settled(info, slot))
            continue;
        void *stranger = opening_stranger_to(release->index, slot, name, release->provider);
        if (stranger)
            store(info, slot, stranger);
    }
}

static int release_in_object(struct dl_phdr_info *info, size_t size, void *data) {
    struct release *release = data;
    struct elf_tables object;
    (void)size;
    if (info->dlpi_addr != linker_own_tables()->base && elf_tables(info, &object)) {
        release_in_list(release, info, &object, &object.data, object.relative);
        release_in_list(release, info, &object, &object.calls, 0);
    }
    release->index++;
    return 0;
}

void absent_release(void) {
    static bool busy;
    struct release release = {0, __atomic_load_n(&reached_provider, __ATOMIC_ACQUIRE)};
    if (!release.provider || !linker_has_several("MPI_Init") || opening_all_see_global() ||
        __atomic_exchange_n(&busy, true, __ATOMIC_ACQUIRE))
        return;
    linker_iterate(release_in_object, &release);
    __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
}

/* ---- what is answered -------------------------------------------------------------------------- */

/* What others have is called through the wrapper, but for what the objects that refer to it do not see, or see only in
 * a library that is not recorded. */
static void *present(const char *name, void *wrapper) {
    void *stranger = NULL;
    if (linker_has_several(name)) {
        reached_doubt(name);
        absent_release();
    }
    switch (opening_look(name, __atomic_load_n(&reached_provider, __ATOMIC_ACQUIRE), &stranger)) {
    case OPENING_LACKS:
        return NULL;
    case OPENING_STRANGER:
        return stranger;
    default:
        return wrapper;
    }
}

/* The linker asks for the address of our function of that number. Which reference it is about it does not say: a strong
 * one is told from a weak one by there being no weak one at all, a look-up by there being none. */
__attribute__((visibility("hidden"), used)) void *absent_resolve(unsigned number) {
    const ElfW(Sym) *symbol = &linker_own_tables()->symbols[number];
    const char *name = linker_own_tables()->strings + symbol->st_name;
    if (failing.name && !strcmp(failing.name, name)) {
        linker_fail(failing.object, name);
        return NULL;
    }
    if (linker_has_elsewhere(name))
        return present(name, wrapper_of(symbol));
    struct references references = references_to(name);
    if (references.weak)
        return NULL;
    linker_fail(linker_object_name(references.strong ? references.strong : ""), name);
    return references.strong ? wrapper_of(symbol) : NULL;
}

/* A copy of our symbols, in which the functions are indirect: the file's own lies among code, which stays as it is. */
static ElfW(Sym) indirect[RESOLVERS];

static ElfW(Sym) indirect_form(size_t i) {
    const struct elf_tables *ours = linker_own_tables();
    ElfW(Sym) symbol = ours->symbols[i];
    if (can_be_absent(&symbol)) {
        symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC);
        symbol.st_value = (uintptr_t)absent_resolvers + i * RESOLVER_BYTES - ours->base;
        symbol.st_size = RESOLVER_BYTES;
    }
    return symbol;
}

/* Threads that come here at once all store the same. */
void absent_prepare(void) {
    static bool done;
    const struct elf_tables *ours = linker_own_tables();
    if (__atomic_load_n(&done, __ATOMIC_ACQUIRE) || !ours->symbols)
        return;
    size_t count = elf_symbol_count(ours);
    if (count > RESOLVERS)
        return;
    for (size_t i = 0; i < count; i++)
        indirect[i] = indirect_form(i);
    for (ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_SYMTAB) /* an address once the linker has relocated it, else a distance */
            __atomic_store_n(&d->d_un.d_ptr, (uintptr_t)indirect - (d->d_un.d_ptr < ours->base ? ours->base : 0),
                             __ATOMIC_RELEASE);
    __atomic_store_n(&done, true, __ATOMIC_RELEASE);
}

static void nothing_to_do(void) {
}

/* Asked for the address of an indirect function of our own, the linker comes here while it relocates us. */
__attribute__((used)) static void (*hide_absent(void))(void) {
    bool any = false;
    if (linker_own_tables()->symbols)
        linker_iterate(hide_in_object, &any);
    if (any)
        absent_prepare();
    return nothing_to_do;
}

static void at_relocation(void) __attribute__((ifunc("hide_absent")));
__attribute__((used)) static void (*const relocated)(void) = at_relocation;
