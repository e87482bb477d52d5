/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking for debug data.
 * Lives here: the places, in their order.
 * Must not live here: what is in the files.
 */
#include "analyzer/symbols/debug_files.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool same_build(const struct ran *ran, const struct elf_file *file) {
    return ran->build_id_bytes == file->build_id_bytes &&
           memcmp(ran->build_id, file->build_id, ran->build_id_bytes) == 0;
}

enum file_state debug_files_open(struct elf_file *file, const struct ran *ran) {
    if (ran->path[0] != '/' || access(ran->path, F_OK) != 0)
        return FILE_GONE;
    if (!elf_open(file, ran->path))
        return FILE_REPLACED;
    if (ran->build_id_bytes > 0
            ? same_build(ran, file)
            : file->build_id_bytes == 0 && file->low < file->high && file->high - file->low == ran->extent)
        return FILE_SOUND;
    elf_close(file);
    return FILE_REPLACED;
}

/* Where there is no build-id to compare, the link's checksum has to do. */
static bool is_debug_file(const struct elf_file *candidate, const struct ran *ran, const struct elf_file *file) {
    uint32_t crc;
    if (!candidate->has_symtab && !candidate->has_lines)
        return false;
    if (ran->build_id_bytes > 0)
        return same_build(ran, candidate);
    return file && elf_crc(candidate, &crc) && crc == file->debug_link_crc;
}

static bool try_file(struct elf_file *found, const char *path, const struct ran *ran, const struct elf_file *file) {
    if (!elf_open(found, path))
        return false;
    if (is_debug_file(found, ran, file))
        return true;
    elf_close(found);
    return false;
}

static bool find_by_build_id(struct elf_file *found, char path[PATH_MAX], const struct ran *ran,
                             const struct elf_file *file, const char *directory) {
    if (ran->build_id_bytes < 2)
        return false;
    int length = snprintf(path, PATH_MAX, "%s/.build-id/%02x/", directory, ran->build_id[0]);
    for (uint32_t i = 1; i < ran->build_id_bytes && length > 0 && length < PATH_MAX - 16; i++)
        length += snprintf(path + length, PATH_MAX - (size_t)length, "%02x", ran->build_id[i]);
    if (length <= 0 || length >= PATH_MAX - 16)
        return false;
    strcpy(path + length, ".debug");
    return try_file(found, path, ran, file);
}

static bool find_by_link(struct elf_file *found, char path[PATH_MAX], const struct ran *ran,
                         const struct elf_file *file, const char *directory) {
    if (!file || !file->debug_link[0])
        return false;
    int folder = (int)(strrchr(ran->path, '/') - ran->path);
    const struct { const char *before, *after; } places[] = {{"", ""}, {"", "/.debug"}, {directory, ""}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int length = snprintf(path, PATH_MAX, "%s%.*s%s/%s", places[i].before, folder, ran->path, places[i].after,
                              file->debug_link);
        if (length > 0 && length < PATH_MAX && try_file(found, path, ran, file))
            return true;
    }
    return false;
}

/* The client library is looked for when it is asked for: who names no server needs none. */
static bool find_by_server(struct elf_file *found, char path[PATH_MAX], const struct ran *ran,
                           const struct elf_file *file) {
    const char *servers = getenv("DEBUGINFOD_URLS");
    if (!servers || !*servers || ran->build_id_bytes == 0)
        return false;
    void *library = dlopen("libdebuginfod.so.1", RTLD_NOW);
    if (!library)
        return false;
    void *(*begin)(void) = (void *(*)(void))dlsym(library, "debuginfod_begin");
    void (*end)(void *) = (void (*)(void *))dlsym(library, "debuginfod_end");
    int (*fetch)(void *, const unsigned char *, int, char **) =
        (int (*)(void *, const unsigned char *, int, char **))dlsym(library, "debuginfod_find_debuginfo");
    void *client = begin && end && fetch ? begin() : NULL;
    char *fetched = NULL;
    bool sound = false;
    if (client) {
        int fd = fetch(client, ran->build_id, (int)ran->build_id_bytes, &fetched);
        if (fd >= 0)
            close(fd);
        sound = fd >= 0 && fetched && snprintf(path, PATH_MAX, "%s", fetched) < PATH_MAX &&
                try_file(found, path, ran, file);
        free(fetched);
        end(client);
    }
    return sound; /* the library stays: it may have threads */
}

bool debug_files_find(struct elf_file *found, char path[PATH_MAX], const struct ran *ran, const struct elf_file *file,
                      const char *directory) {
    return find_by_build_id(found, path, ran, file, directory) || find_by_link(found, path, ran, file, directory) ||
           find_by_server(found, path, ran, file);
}
