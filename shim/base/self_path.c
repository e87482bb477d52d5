/* SPDX-License-Identifier: Apache-2.0
 *
 * The linker's own list is asked and not dladdr(), which searches all our symbols.
 */
#include "shim/base/self_path.h"

#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/linker.h"
#include "shim/base/os.h"

struct self_search {
    const char *name; /* as the linker knows us */
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

AT_START static int find_self(struct dl_phdr_info *info, size_t size, void *data) {
    struct self_search *search = data;
    (void)size;
    search->name = info->dlpi_name;
    search->found = is_self(info);
    return search->found;
}

/* Ends at us or at libc, whichever comes first. */
static int find_first(struct dl_phdr_info *info, size_t size, void *data) {
    return find_self(info, size, data) || linker_file_begins(info->dlpi_name, "libc.so\0libc-2\0");
}

AT_START bool self_path(char *path, size_t size) {
    struct self_search search = {0};
    int saved = errno;
    linker_iterate(find_self, &search);
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
    linker_iterate(find_first, &search);
    return search.found;
}

/* The program's environment and room for what is added to it. Adding in place and not by setenv() spares every process
 * below a preload the first use of the heap, which costs as much as all else that the library does there. A later
 * setenv() of the program copies a table that is not its own. Usual ones fit into the page of data that is written at
 * start anyway. */
#define OFFERS_MAX 2u
static struct {
    char *table[128];
    char offers[OFFERS_MAX][400];
    unsigned offer_count;
} environment __attribute__((section(".data")));
static char *large_table[4096];

#define ROOM(table) (sizeof(table) / sizeof *(table)-2)

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
    if (n > ROOM(large_table) || environment.offer_count == OFFERS_MAX || length > 64)
        return;
    char **table = n > ROOM(environment.table) ? large_table : environment.table;
    char *offer = environment.offers[environment.offer_count];
    memcpy(offer, variable, length);
    offer[length] = '=';
    if (!self_path(offer + length + 1, sizeof environment.offers[0] - length - 1))
        return;
    for (size_t i = 0; environ != table && i < n; i++)
        table[i] = environ[i];
    table[n] = offer;
    table[n + 1] = NULL;
    environ = table;
    environment.offer_count++;
}
