/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries are only ever added; one that is gone stays, marked, since its successor at the same addresses is another
 * entry.
 */
#include "shim/stacks/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/linker.h"
#include "shim/base/unloads.h"
#include "shim/record/recorder.h"

static struct module table[MODULES];
static uint32_t table_used;     /* may run beyond MODULES */
static uint64_t checked_unload; /* the dynamic linker's own count of unloads at the last check */

void modules_begin(void) {
    memset(table, 0, sizeof table);
    table_used = 0;
    checked_unload = 0;
    modules_check(); /* nothing to find yet: takes the dynamic linker's count as it is now */
}

/* ---- what the dynamic linker says about one object ------------------------------------------- */

struct image {
    struct module module;
    const uint8_t *build_id; /* NULL: has none */
    uint32_t build_id_bytes;
    const char *path; /* "": the program itself */
};

static void find_build_id(struct image *image, const char *at, const char *end) {
    while (at + sizeof(ElfW(Nhdr)) <= end) {
        const ElfW(Nhdr) *note = (const void *)at;
        const char *name = at + sizeof *note, *value = name + ((note->n_namesz + 3u) & ~3u);
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(name, "GNU", 4) &&
            note->n_descsz <= (size_t)(end - value)) {
            image->build_id = (const uint8_t *)value;
            image->build_id_bytes = note->n_descsz;
            return;
        }
        at = value + ((note->n_descsz + 3u) & ~3u);
    }
}

static void describe(const struct dl_phdr_info *info, struct image *image) {
    struct module *m = &image->module;
    *image = (struct image){.path = info->dlpi_name ? info->dlpi_name : ""};
    m->start = UINTPTR_MAX;
    m->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + header->p_vaddr, to = from + header->p_memsz;
        if (header->p_type == PT_GNU_EH_FRAME)
            m->tables.header = (const uint8_t *)from;
        if (header->p_type != PT_LOAD)
            continue;
        m->start = from < m->start ? from : m->start;
        m->end = to > m->end ? to : m->end;
    }
}

/* The rest, for objects that matter: the segment of the unwind tables, the build id, the identity. */
static void describe_fully(const struct dl_phdr_info *info, struct image *image) {
    struct module *m = &image->module;
    uintptr_t tables = (uintptr_t)m->tables.header;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + header->p_vaddr, to = from + header->p_memsz;
        if (header->p_type == PT_LOAD && header->p_flags & PF_R && tables - from < header->p_filesz) {
            m->tables.start = (const uint8_t *)from;
            m->tables.end = m->tables.start + header->p_filesz;
        } else if (header->p_type == PT_NOTE && !image->build_id && from >= m->start && to <= m->end) {
            find_build_id(image, (const char *)from, (const char *)to);
        }
    }
    m->identity = hash_bytes(hash_text(m->base, image->path), image->build_id ? image->build_id : (const void *)"",
                             image->build_id_bytes);
}

/* ---- gone ------------------------------------------------------------------------------------ */

struct roll_call {
    bool present[MODULES];
    uint64_t unloads;
};

static int call_roll(struct dl_phdr_info *info, size_t size, void *data) {
    struct roll_call *roll = data;
    struct image image;
    bool full = false;
    roll->unloads = unloads_of_linker(info, size);
    describe(info, &image);
    for (uint32_t i = 0; i < MODULES && i < table_used; i++) {
        const struct module *m = &table[i];
        if (!__atomic_load_n(&m->ready, __ATOMIC_ACQUIRE) || m->base != image.module.base ||
            m->start != image.module.start || m->end != image.module.end)
            continue;
        if (!full)
            describe_fully(info, &image);
        full = true;
        roll->present[i] |= m->identity == image.module.identity;
    }
    return 0;
}

static void write_gone(const struct module *module) {
    struct module_gone_definition *d = definitions_reserve(&recorder.definitions, sizeof *d);
    if (!d)
        return;
    d->base = module->base;
    d->seen_ticks = ticks();
    definitions_commit(d, DEFINITION_MODULE_GONE);
}

void modules_check(void) {
    struct roll_call roll = {.unloads = 0};
    uint32_t known = __atomic_load_n(&table_used, __ATOMIC_ACQUIRE);
    bool ready[MODULES];
    known = known < MODULES ? known : MODULES;
    for (uint32_t i = 0; i < known; i++)
        ready[i] = __atomic_load_n(&table[i].ready, __ATOMIC_ACQUIRE) != 0;
    linker_iterate(call_roll, &roll);
    for (uint32_t i = 0; i < known; i++) {
        uint32_t loaded = 0, number = __atomic_load_n(&unloads_so_far, __ATOMIC_RELAXED);
        if (ready[i] && !roll.present[i] &&
            __atomic_compare_exchange_n(&table[i].gone_at, &loaded, number, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            write_gone(&table[i]);
    }
    __atomic_store_n(&checked_unload, roll.unloads, __ATOMIC_RELEASE);
}

void modules_each_gone(uint32_t since, void (*visit)(const struct module *module, void *data), void *data) {
    for (uint32_t i = 0; i < MODULES && i < __atomic_load_n(&table_used, __ATOMIC_ACQUIRE); i++)
        if (__atomic_load_n(&table[i].gone_at, __ATOMIC_ACQUIRE) > since)
            visit(&table[i], data);
}

/* ---- finding --------------------------------------------------------------------------------- */

struct module_search {
    uintptr_t address;
    const struct module *known; /* table's answer, right as long as nothing was unloaded */
    struct image image;
    char path[1024];
    bool found, unloaded;
};

static int visit_object(struct dl_phdr_info *info, size_t size, void *data) {
    struct module_search *search = data;
    if (unloads_of_linker(info, size) != __atomic_load_n(&checked_unload, __ATOMIC_ACQUIRE)) {
        search->unloaded = true;
        return 1;
    }
    if (search->known)
        return 1;
    describe(info, &search->image);
    if (search->address < search->image.module.start || search->address >= search->image.module.end)
        return 0;
    describe_fully(info, &search->image);
    copy_text(search->path, sizeof search->path, search->image.path);
    search->found = true;
    return 1;
}

static const struct module *known_module(uintptr_t address) {
    for (uint32_t i = 0; i < MODULES && i < __atomic_load_n(&table_used, __ATOMIC_ACQUIRE); i++) {
        const struct module *m = &table[i];
        if (__atomic_load_n(&m->ready, __ATOMIC_ACQUIRE) && address >= m->start && address < m->end &&
            !__atomic_load_n(&m->gone_at, __ATOMIC_ACQUIRE))
            return m;
    }
    return NULL;
}

static void define_module(const struct module_search *search) {
    const struct image *image = &search->image;
    uint32_t path_bytes = (uint32_t)strlen(search->path);
    struct module_definition *d =
        definitions_reserve(&recorder.definitions, sizeof *d + image->build_id_bytes + path_bytes);
    if (!d)
        return;
    d->start = image->module.start;
    d->end = image->module.end;
    d->base = image->module.base;
    d->seen_ticks = ticks();
    d->build_id_bytes = image->build_id_bytes;
    d->path_bytes = path_bytes;
    if (image->build_id)
        memcpy(d->data, image->build_id, image->build_id_bytes);
    memcpy(d->data + image->build_id_bytes, search->path, path_bytes);
    definitions_commit(d, DEFINITION_MODULE);
}

/* ---- where a file lies ----------------------------------------------------------------------- */

/* One line of /proc/self/maps as it comes in: "from-to perms offset dev inode   path". */
struct maps_line {
    uintptr_t from, to;
    unsigned field; /* 0: from, 1: to, 6: the path, blanks before it included */
    size_t path_bytes;
};

/* Takes a character of a line; of the path, what fits into `path`. */
static void take_maps_character(struct maps_line *line, char c, char *path, size_t size) {
    unsigned digit = c >= 'a' && c <= 'f' ? (unsigned)c - 'a' + 10 : (unsigned)c - '0';
    if (line->field == 6) {
        if ((c != ' ' || line->path_bytes > 0) && line->path_bytes + 1 < size)
            path[line->path_bytes++] = c;
    } else if (c == ' ' || (c == '-' && line->field == 0)) {
        line->field++;
    } else if (line->field == 0) {
        line->from = line->from << 4 | digit;
    } else if (line->field == 1) {
        line->to = line->to << 4 | digit;
    }
}

/* The path of the file mapped at `address`, as the kernel has it. False: there is none. */
static bool find_mapped_file(uintptr_t address, char *path, size_t size) {
    char buffer[1024];
    struct maps_line line = {0};
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    bool found = false;
    for (ssize_t n; file >= 0 && !found && (n = read(file, buffer, sizeof buffer)) > 0;)
        for (ssize_t i = 0; i < n && !found; i++) {
            if (buffer[i] != '\n') {
                take_maps_character(&line, buffer[i], path, size);
                continue;
            }
            path[line.path_bytes] = '\0';
            found = address >= line.from && address < line.to && path[0] == '/';
            line = (struct maps_line){0};
        }
    if (file >= 0)
        close(file);
    return found;
}

/* A library that was loaded by a relative path is known to the dynamic linker by it, and the job may have gone to
 * another directory since. What has no file keeps its name. */
static void complete_path(struct module_search *search) {
    char path[sizeof search->path];
    int before = errno;
    if (search->path[0] != '/' && find_mapped_file(search->image.module.start, path, sizeof path))
        copy_text(search->path, sizeof search->path, path);
    errno = before;
}

static void add_module(struct module_search *search) {
    uint32_t slot = __atomic_fetch_add(&table_used, 1, __ATOMIC_RELAXED);
    if (slot >= MODULES) {
        __atomic_store_n(&table_used, MODULES, __ATOMIC_RELAXED);
        return;
    }
    if (!search->path[0]) { /* the program itself has no name there */
        ssize_t n = readlink("/proc/self/exe", search->path, sizeof search->path - 1);
        search->path[n > 0 ? n : 0] = '\0';
    }
    complete_path(search);
    define_module(search);
    memcpy(&table[slot], &search->image.module, offsetof(struct module, ready));
    __atomic_store_n(&table[slot].ready, 1, __ATOMIC_RELEASE);
}

uint32_t modules_count(void) {
    return __atomic_load_n(&table_used, __ATOMIC_RELAXED);
}

bool modules_find(uintptr_t address, struct module *found) {
    struct module_search search = {.address = address, .known = known_module(address)};
    linker_iterate(visit_object, &search);
    if (search.unloaded) { /* by a way that does not pass the hook */
        unloads_count();
        modules_check();
        search = (struct module_search){.address = address, .known = known_module(address)};
        linker_iterate(visit_object, &search);
    }
    if (search.known && !search.unloaded) {
        *found = *search.known;
        return true;
    }
    if (!search.found)
        return false;
    add_module(&search);
    *found = search.image.module;
    return true;
}
