/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of self_path.h. The linker's own list is asked and not dladdr(), which searches all our symbols.
 */
#include "shim/self_path.h"

#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/os.h"

struct self_search {
    const char *name; /* as the linker knows us */
    bool libc_before; /* libc was seen first */
    bool found;
};

static bool is_self(const struct dl_phdr_info *info) {
    uintptr_t here = (uintptr_t)&is_self;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_LOAD && here - (info->dlpi_addr + header->p_vaddr) < header->p_memsz)
            return true;
    }
    return false;
}

static bool is_libc(const char *path) {
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    return !strncmp(base, "libc.so", 7) || !strncmp(base, "libc-2", 6);
}

static int find_self(struct dl_phdr_info *info, size_t size, void *data) {
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

bool self_path(char *path, size_t size) {
    struct self_search search = {0};
    struct text t;
    int saved = errno;
    dl_iterate_phdr(find_self, &search);
    if (!search.found || !search.name || !*search.name || size < 2)
        return false;
    path[0] = '\0';
    /* A preload may be named relative to the directory the program starts in. */
    if (search.name[0] != '/' && !getcwd(path, size - 1))
        path[0] = '\0';
    errno = saved;
    size_t length = strlen(path);
    if (search.name[0] != '/' && length == 0)
        return false;
    text_begin(&t, path + length, size - length);
    if (length)
        text_add(&t, "/");
    text_add(&t, search.name);
    return length + t.length + 1 < size;
}

bool self_preloaded(void) {
    struct self_search search = {0};
    dl_iterate_phdr(find_self, &search);
    return search.found && !search.libc_before;
}

void self_offer(const char *variable) {
    char path[4096];
    int saved = errno;
    if (!getenv(variable) && self_path(path, sizeof path))
        setenv(variable, path, 1);
    errno = saved;
}
