/* SPDX-License-Identifier: Apache-2.0
 *
 * The C library is found once, in the list that the linker keeps for debuggers: before any library has started, when
 * there is one thread only (absent.c). From then on lists of objects come from its dl_iterate_phdr(), which holds the
 * linker's lock.
 */
#include "shim/base/linker.h"

#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/elf_symbol.h"
#include "shim/base/os.h"

typedef int (*object_visitor)(struct dl_phdr_info *, size_t, void *);

static struct {
    void *(*dlsym)(void *, const char *);
    void *(*dlvsym)(void *, const char *, const char *);
    void *(*dlopen)(const char *, int);
    int (*dlclose)(void *);
    char *(*dlerror)(void);
    int (*dladdr)(const void *, Dl_info *);
    int (*iterate)(object_visitor, void *);
} functions WRITTEN_AT_START;

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));
extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));
extern struct r_debug _r_debug __attribute__((weak));

/* The library is linked so that all it relocates stays writable; programs and libraries of tests are not. */
static bool is_writable(void) {
    const ElfW(Ehdr) *header = (const void *)__ehdr_start;
    const ElfW(Phdr) *segments = (const void *)(__ehdr_start + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_GNU_RELRO)
            return false;
    return true;
}

const struct elf_tables *linker_own_tables(void) {
    static struct elf_tables tables WRITTEN_AT_START; /* read before absent.c changes where the section points to */
    if (!tables.symbols && is_writable())
        elf_tables_at((uintptr_t)__ehdr_start, _DYNAMIC, &tables);
    return &tables;
}

bool linker_is_ours(const void *address) {
    return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

bool linker_file_begins(const char *path, const char *names) {
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    for (; *names; names += strlen(names) + 1)
        if (!strncmp(base, names, strlen(names)))
            return true;
    return false;
}

static bool is_libc(const char *path) {
    return linker_file_begins(path, "libc.so\0libc-2\0libdl.so\0libdl-2\0libpthread\0ld-linux\0ld-2\0");
}

/* ---- before the C library can be called ------------------------------------------------------ */

static void *find_in_libc(const char *name) {
    uint32_t hash = elf_hash(name);
    struct elf_tables tables;
    for (const struct link_map *map = &_r_debug ? _r_debug.r_map : NULL; map; map = map->l_next)
        if (is_libc(map->l_name) && elf_tables_at(map->l_addr, map->l_ld, &tables)) {
            void *found = elf_address(&tables, elf_definition(&tables, name, hash));
            if (found)
                return found;
        }
    return NULL;
}

/* Threads that come here at once store the same. */
#define FUNCTION(name, in_libc)                                                                                        \
    static __typeof__(functions.name) get_##name(void) {                                                               \
        __typeof__(functions.name) f = __atomic_load_n(&functions.name, __ATOMIC_ACQUIRE);                             \
        if (unlikely(!f)) {                                                                                            \
            f = (__typeof__(functions.name))find_in_libc(in_libc);                                                     \
            __atomic_store_n(&functions.name, f, __ATOMIC_RELEASE);                                                    \
        }                                                                                                              \
        return f;                                                                                                      \
    }
FUNCTION(dlsym, "dlsym")
FUNCTION(dlvsym, "dlvsym")
FUNCTION(dlopen, "dlopen")
FUNCTION(dlclose, "dlclose")
FUNCTION(dlerror, "dlerror")
FUNCTION(dladdr, "dladdr")
FUNCTION(iterate, "dl_iterate_phdr")

/* RTLD_NEXT and RTLD_DEFAULT are answered for the caller: never by a tail call, which would make our caller that. */
void *linker_dlsym(void *handle, const char *name) {
    void *found = get_dlsym() ? get_dlsym()(handle, name) : NULL;
    __asm__ volatile("" : "+r"(found));
    return found;
}

void *linker_dlvsym(void *handle, const char *name, const char *version) {
    void *found = get_dlvsym() ? get_dlvsym()(handle, name, version) : NULL;
    __asm__ volatile("" : "+r"(found));
    return found;
}

void *linker_dlopen(const char *path, int flags) {
    void *handle = get_dlopen() ? get_dlopen()(path, flags) : NULL;
    __asm__ volatile("" : "+r"(handle));
    return handle;
}

int linker_dlclose(void *handle) {
    return get_dlclose() ? get_dlclose()(handle) : -1;
}

char *linker_dlerror(void) {
    return get_dlerror() ? get_dlerror()() : NULL;
}

int linker_dladdr(const void *address, Dl_info *info) {
    return get_dladdr() ? get_dladdr()(address, info) : 0;
}

int linker_iterate(object_visitor callback, void *data) {
    int result = get_iterate() ? get_iterate()(callback, data) : 0;
    __asm__ volatile("" : "+r"(result)); /* it lists the objects of its caller's name space */
    return result;
}

void *linker_next(const char *name) {
    return linker_dlsym(RTLD_NEXT, name);
}

/* Opening a library that the process starts with runs its constructors, and those of what it needs, before their turn:
 * the C library's own would begin without arguments and environment. It has not begun as long as it has neither. */
extern char **environ __attribute__((weak)); /* weak: of no address while this library is not relocated itself */
extern char *program_invocation_name __attribute__((weak));

static bool libc_has_begun(void) {
    static bool begun;
    if (likely(__atomic_load_n(&begun, __ATOMIC_RELAXED)))
        return true;
    if (!&environ || !&program_invocation_name || (!environ && !*program_invocation_name))
        return false;
    __atomic_store_n(&begun, true, __ATOMIC_RELAXED);
    return true;
}

void *linker_loaded(const char *path) {
    return libc_has_begun() ? linker_dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

static void *in_handle(void *handle, const char *name) {
    void *found = handle ? linker_dlsym(handle, name) : NULL;
    if (handle) /* a library of the job's that stayed open for us would never be unloaded, nor loaded afresh */
        linker_dlclose(handle);
    return found && !linker_is_ours(found) ? found : NULL;
}

void *linker_in_loaded(const char *path, const char *name) {
    return in_handle(linker_loaded(path), name);
}

/* Not by RTLD_DEFAULT: what that finds for us, who never go, is never unloaded either. */
void *linker_in_global_scope(const char *name) {
    return in_handle(linker_dlopen(NULL, RTLD_LAZY), name);
}

void *linker_in_library_of(const void *address, const char *name) {
    Dl_info info;
    if (!address || !linker_dladdr(address, &info) || !info.dli_fname)
        return NULL;
    return linker_in_loaded(info.dli_fname, name);
}

void *linker_dlsym_address(void) {
    return (void *)get_dlsym();
}

void *linker_dlvsym_address(void) {
    return (void *)get_dlvsym();
}

/* ---- symbols of loaded objects --------------------------------------------------------------- */

struct search {
    const char *name, *object;
    uint32_t hash;
    bool (*admits)(const struct dl_phdr_info *);
    void *found;
    bool defined;
    unsigned wanted; /* definitions to be seen before the search ends */
};

static int search_object(struct dl_phdr_info *info, size_t size, void *data) {
    struct search *search = data;
    struct elf_tables tables;
    (void)size;
    if (!search->admits(info) || !elf_tables(info, &tables))
        return 0;
    const ElfW(Sym) *symbol = elf_definition(&tables, search->name, search->hash);
    if (!symbol)
        return 0;
    search->defined = true;
    search->found = elf_address(&tables, symbol);
    search->object = info->dlpi_name;
    return --search->wanted == 0;
}

/* The kernel's own object has no names of interest. */
static bool is_anybodys(const struct dl_phdr_info *info) {
    return strncmp(info->dlpi_name, "linux-vdso", 10) != 0;
}

static bool is_elsewhere(const struct dl_phdr_info *info) {
    return info->dlpi_addr != (uintptr_t)__ehdr_start && is_anybodys(info);
}

static bool is_in_libc(const struct dl_phdr_info *info) {
    return is_libc(info->dlpi_name);
}

static struct search search_for(const char *name, bool (*admits)(const struct dl_phdr_info *)) {
    struct search search = {.name = name, .hash = elf_hash(name), .admits = admits, .wanted = 1};
    linker_iterate(search_object, &search);
    return search;
}

void *linker_symbol_anywhere(const char *name, const char **object) {
    struct search search = search_for(name, is_anybodys);
    if (object)
        *object = search.found ? search.object : NULL;
    return search.found;
}

void *linker_symbol_elsewhere(const char *name) {
    return search_for(name, is_elsewhere).found;
}

bool linker_has_elsewhere(const char *name) {
    return search_for(name, is_elsewhere).defined;
}

bool linker_has_several(const char *name) {
    struct search search = {.name = name, .hash = elf_hash(name), .admits = is_elsewhere, .wanted = 2};
    linker_iterate(search_object, &search);
    return search.wanted == 0;
}

void *linker_symbol_in_libc(const char *name) {
    return search_for(name, is_in_libc).found;
}

/* ---- one object among the others ------------------------------------------------------------- */

struct reference {
    uintptr_t address; /* in the object that is looked for */
    const char *prefix;
    bool found;
};

bool linker_contains(const struct dl_phdr_info *object, uintptr_t address) {
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_LOAD &&
            address - (object->dlpi_addr + object->dlpi_phdr[i].p_vaddr) < object->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

static int look_for_reference(struct dl_phdr_info *info, size_t size, void *data) {
    struct reference *wanted = data;
    struct elf_tables tables;
    (void)size;
    if (!linker_contains(info, wanted->address))
        return 0;
    size_t count = elf_tables(info, &tables) ? elf_symbol_count(&tables) : 0;
    for (size_t i = 1; i < count; i++)
        wanted->found |= tables.symbols[i].st_shndx == SHN_UNDEF &&
                         !strncmp(tables.strings + tables.symbols[i].st_name, wanted->prefix, strlen(wanted->prefix));
    return 1;
}

bool linker_refers_to(const void *address, const char *prefix) {
    struct reference wanted = {(uintptr_t)address, prefix, false};
    linker_iterate(look_for_reference, &wanted);
    return wanted.found;
}

struct next {
    uintptr_t address;
    const char *name;
    uint32_t hash;
    bool passed, ours;
};

static int look_for_next(struct dl_phdr_info *info, size_t size, void *data) {
    struct next *next = data;
    struct elf_tables tables;
    (void)size;
    if (info->dlpi_addr == (uintptr_t)__ehdr_start) {
        next->ours = next->passed;
        return 1;
    }
    if (next->passed)
        return elf_tables(info, &tables) && elf_definition(&tables, next->name, next->hash);
    next->passed = linker_contains(info, next->address);
    return 0;
}

bool linker_is_next_to(const void *address, const char *name) {
    struct next next = {(uintptr_t)address, name, elf_hash(name), false, false};
    linker_iterate(look_for_next, &next);
    return next.ours;
}

/* ---- our own calls --------------------------------------------------------------------------- */

static void bind_to(const struct elf_tables *libc, const struct elf_tables *ours, const ElfW(Rela) * r) {
    const ElfW(Sym) *symbol = &ours->symbols[ELF64_R_SYM(r->r_info)];
    const char *name = ours->strings + symbol->st_name;
    if (!ELF64_R_SYM(r->r_info) || symbol->st_shndx != SHN_UNDEF || !strcmp(name, "pthread_create"))
        return;
    const ElfW(Sym) *function = elf_definition(libc, name, elf_hash(name));
    if (function && ELF64_ST_TYPE(function->st_info) == STT_FUNC)
        __atomic_store_n((void **)(ours->base + r->r_offset), elf_address(libc, function), __ATOMIC_RELAXED);
}

/* Functions only: the C library's objects, `environ` for one, stay those that the process has. */
static int bind_to_object(struct dl_phdr_info *info, size_t size, void *data) {
    const struct elf_tables *ours = linker_own_tables();
    struct elf_tables libc;
    (void)size, (void)data;
    if (!is_in_libc(info) || !elf_tables(info, &libc))
        return 0;
    for (size_t i = ours->relative; i < ours->data.count; i++)
        bind_to(&libc, ours, &ours->data.entries[i]);
    for (size_t i = 0; i < ours->calls.count; i++)
        bind_to(&libc, ours, &ours->calls.entries[i]);
    return 0;
}

void linker_bind_to_libc(void) {
    static bool done;
    if (__atomic_load_n(&done, __ATOMIC_ACQUIRE))
        return;
    if (linker_own_tables()->symbols)
        linker_iterate(bind_to_object, NULL);
    __atomic_store_n(&done, true, __ATOMIC_RELEASE);
}

/* ---- failing --------------------------------------------------------------------------------- */

const char *linker_object_name(const char *name) {
    if (*name)
        return name;
    char ***arguments = linker_symbol_in_libc("_dl_argv");
    return arguments && *arguments && **arguments ? **arguments : "<main program>";
}

const char *linker_object_at(const void *address) {
    Dl_info info;
    return linker_object_name(linker_dladdr(address, &info) && info.dli_fname ? info.dli_fname : "");
}

const char *linker_object_of_handle(const void *handle) {
    return linker_object_name(((const struct link_map *)handle)->l_name);
}

/* Where the C library has functions of this kind it puts them in place of the linker's own ("Interposes the functions
 * in ld.so": glibc, elf/Versions); the order of objects is that of the look-up. */
void linker_fail(const char *object, const char *name) {
    typedef void (*signal_function)(int, const char *, const char *, const char *);
    char text[256];
    struct text t;
    signal_function fail = (signal_function)linker_symbol_in_libc("_dl_signal_error");
    text_begin(&t, text, sizeof text);
    text_add(&t, "undefined symbol: ");
    text_add(&t, name);
    if (fail)
        fail(0, object, "symbol lookup error", text);
}
