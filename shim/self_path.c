/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of self_path.h. The linker's own list is asked and not dladdr(), which searches all our symbols.
 */
#include "shim/self_path.h"

#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* What the constructor runs lies together: a page of code that only it needs is a page fault in every process. */
#define AT_START __attribute__((section(".text.startup")))

struct self_search {
    const char *name; /* as the linker knows us */
    bool libc_before; /* libc was seen first */
    bool found;
};

AT_START static bool is_self(const struct dl_phdr_info *info) {
    uintptr_t here = (uintptr_t)&is_self;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_LOAD && here - (info->dlpi_addr + header->p_vaddr) < header->p_memsz)
            return true;
    }
    return false;
}

AT_START static bool is_libc(const char *path) {
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    return !strncmp(base, "libc.so", 7) || !strncmp(base, "libc-2", 6);
}

AT_START static int find_self(struct dl_phdr_info *info, size_t size, void *data) {
    struct self_search *search = data;
    (void)size;
    if (is_self(info)) {
        search->name = info->dlpi_name;
        search->found = true;
    } else if (is_libc(info->dlpi_name)) {
        search->libc_before = true;
    }
    return search->found;
}

AT_START bool self_path(char *path, size_t size) {
    struct self_search search = {0};
    int saved = errno;
    dl_iterate_phdr(find_self, &search);
    if (!search.found || !search.name || !*search.name)
        return false;
    size_t name = strlen(search.name), folder = 0;
    /* A preload may be named relative to the directory the program starts in. */
    if (search.name[0] != '/') {
        bool known = getcwd(path, size) != NULL;
        errno = saved;
        folder = known ? strlen(path) + 1 : size;
    }
    if (folder + name >= size)
        return false;
    if (folder)
        path[folder - 1] = '/';
    memcpy(path + folder, search.name, name + 1);
    return true;
}

bool self_preloaded(void) {
    struct self_search search = {0};
    dl_iterate_phdr(find_self, &search);
    return search.found && !search.libc_before;
}

/* The program's environment and room for what is added to it, in one page. Adding in place and not by setenv() spares
 * every process below a preload the first use of the heap, which costs as much as all else that the library does there.
 * A later setenv() of the program copies a table that is not its own. */
static struct {
    char *table[380 + 3];
    char offers[2][512];
    unsigned offer_count;
} environment __attribute__((aligned(4096)));

#define ENVIRONMENT_MAX (sizeof environment.table / sizeof *environment.table - 2)
#define OFFERS_MAX      (sizeof environment.offers / sizeof *environment.offers)

extern char **environ;

/* Number of variables, or SIZE_MAX when `variable` is one of them. */
AT_START static size_t count_without(const char *variable) {
    size_t length = strlen(variable), n = 0;
    for (char **entry = environ; entry && *entry; entry++, n++)
        if (!strncmp(*entry, variable, length) && (*entry)[length] == '=')
            return SIZE_MAX;
    return n;
}

AT_START void self_offer(const char *variable) {
    size_t n = count_without(variable), length = strlen(variable);
    if (n >= ENVIRONMENT_MAX || environment.offer_count == OFFERS_MAX || length > 64)
        return;
    char *offer = environment.offers[environment.offer_count];
    memcpy(offer, variable, length);
    offer[length] = '=';
    if (!self_path(offer + length + 1, sizeof environment.offers[0] - length - 1))
        return;
    if (environ != environment.table && n)
        memcpy(environment.table, environ, n * sizeof *environ);
    environment.table[n] = offer;
    environment.table[n + 1] = NULL;
    environ = environment.table;
    environment.offer_count++;
}
