/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory of dumps: which files there are, in an order that does not depend on the file system, and what stands
 * for dumps that were not collected.
 * Lives here: listing, stubs, duplicates.
 * Must not live here: what is inside a dump.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/statistics.h"
#include "analyzer/load/dump.h"
#include "analyzer/load/mapping.h"
#include "analyzer/load/stub.h"
#include "analyzer/base/regular_file.h"

enum { OPENERS_MAX = 8 };

struct names {
    char **items; /* full paths */
    size_t count;
};

static void sort_names(struct names *names) {
    if (names->count > 0)
        qsort(names->items, names->count, sizeof *names->items, compare_text);
}

static bool add_path_name(struct names *names, char *name) {
    if (!name || !grow_list(names->items, names->count)) {
        free(name);
        return false;
    }
    names->items[names->count++] = name;
    return true;
}

static void free_names(struct names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
}

static char *join_path(const char *directory, const char *name) {
    char *path;
    return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

static bool ends_with(const char *text, const char *suffix) {
    size_t length = strlen(text), end = strlen(suffix);
    return length > end && strcmp(text + length - end, suffix) == 0;
}

static enum dump_set_result list_directory(const char *directory, struct names *dumps, struct names *stubs) {
    DIR *stream = opendir(directory);
    if (!stream)
        return DUMP_SET_NO_DIRECTORY;
    enum dump_set_result result = DUMP_SET_OK;
    for (struct dirent *entry; result == DUMP_SET_OK && (entry = readdir(stream));) {
        struct names *to = ends_with(entry->d_name, FORMAT_FILE_SUFFIX) ? dumps
                           : stub_is_one(entry->d_name)                 ? stubs
                                                                        : NULL;
        if (to && !add_path_name(to, join_path(directory, entry->d_name)))
            result = DUMP_SET_NO_MEMORY;
    }
    closedir(stream);
    sort_names(dumps);
    sort_names(stubs);
    return result;
}

/* ---- stubs ----------------------------------------------------------------------------------- */

static void free_stub(struct dump_stub *stub) {
    free(stub->path);
    free(stub->staged_path);
}

/* Takes what the stub says, sound or not. Returns false when memory is short. */
static bool take_stub(struct dump_stub *to, const char *path, const struct stub *from, const char *damage) {
    *to = (struct dump_stub){.rank = from->rank, .pid = from->pid, .damage = damage};
    memcpy(to->host, from->host, sizeof to->host);
    memcpy(to->boot_id, from->boot_id, sizeof to->boot_id);
    to->path = strdup(path);
    to->staged_path = strdup(from->path);
    if (to->path && to->staged_path)
        return true;
    free_stub(to);
    return false;
}

static void read_boot_id(char boot_id[65]) {
    boot_id[0] = '\0';
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file)
        return;
    if (fgets(boot_id, 65, file))
        boot_id[strcspn(boot_id, "\n")] = '\0';
    fclose(file);
}

/* The dump that a stub stands for was copied beside it. */
static bool is_collected(const char *stub_path) {
    char *path;
    struct stat status;
    int stem = (int)(strlen(stub_path) - strlen(FORMAT_STUB_SUFFIX));
    if (asprintf(&path, "%.*s%s", stem, stub_path, FORMAT_FILE_SUFFIX) < 0)
        return false;
    bool found = stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
    free(path);
    return found;
}

/* Whether the staged dump can be opened where it is. */
static bool is_here(const struct stub *stub, const char *boot_id) {
    int file =
        boot_id[0] && strcmp(stub->boot_id, boot_id) == 0 ? regular_file_open(AT_FDCWD, stub->path, O_NOFOLLOW) : -1;
    if (file >= 0)
        close(file);
    return file >= 0;
}

/* Keeps stubs whose dump is elsewhere; those staged on this host join `staged`. */
static bool read_stubs(struct dump_set *set, const struct names *stubs, struct names *staged) {
    char here[65];
    read_boot_id(here);
    set->stubs = calloc(stubs->count ? stubs->count : 1, sizeof *set->stubs);
    if (!set->stubs)
        return false;
    for (size_t i = 0; i < stubs->count; i++) {
        struct stub stub;
        if (is_collected(stubs->items[i]))
            continue;
        const char *damage = stub_read(AT_FDCWD, stubs->items[i], &stub);
        if (!damage && is_here(&stub, here)) {
            if (!add_path_name(staged, strdup(stub.path)))
                return false;
        } else if (!take_stub(&set->stubs[set->stub_count++], stubs->items[i], &stub, damage)) {
            set->stub_count--;
            return false;
        }
    }
    return true;
}

/* ---- opening --------------------------------------------------------------------------------- */

struct opening {
    char **paths;
    struct dump **dumps;
    struct dump *(*open)(const char *path);
    size_t count, next;
};

static void *open_some(void *argument) {
    struct opening *opening = argument;
    for (size_t i; (i = __atomic_fetch_add(&opening->next, 1, __ATOMIC_RELAXED)) < opening->count;)
        opening->dumps[i] = opening->open(opening->paths[i]);
    return NULL;
}

/* Opening scans every ring: as many at a time as there are processors. */
static void open_all(struct opening *opening) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[OPENERS_MAX];
    size_t started = 0;
    size_t wanted = processors > OPENERS_MAX ? OPENERS_MAX : processors > 0 ? (size_t)processors : 1;
    if (wanted > opening->count)
        wanted = opening->count;
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, open_some, opening) == 0)
        started++;
    open_some(opening);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

static int compare_numbers(int64_t a, int64_t b) {
    return a < b ? -1 : a > b;
}

static int compare_identity(const struct dump *a, const struct dump *b) {
    int order = strcmp(a->run_id, b->run_id);
    if (order == 0 && a->header->world_id != b->header->world_id)
        order = a->header->world_id < b->header->world_id ? -1 : 1;
    if (order == 0)
        order = compare_numbers(a->header->generation, b->header->generation);
    if (order == 0)
        order = compare_numbers(a->header->rank, b->header->rank);
    return order;
}

static int compare_dumps(const void *a, const void *b) {
    const struct dump *left = *(struct dump *const *)a, *right = *(struct dump *const *)b;
    int order = compare_identity(left, right);
    return order != 0 ? order : strcmp(left->path, right->path);
}

/* Parts usable from unusable dumps and marks duplicates. `dumps` is in the order of the paths. */
static bool sort_out(struct dump_set *set, struct dump **dumps, size_t count) {
    set->dumps = calloc(count ? count : 1, sizeof *set->dumps);
    set->unusable = calloc(count ? count : 1, sizeof *set->unusable);
    set->duplicate = calloc(count ? count : 1, sizeof *set->duplicate);
    bool complete = set->dumps && set->unusable && set->duplicate;
    for (size_t i = 0; i < count; i++) {
        if (!dumps[i] || !set->dumps || !set->unusable) {
            complete = false;
            dump_close(dumps[i]);
        } else if (dumps[i]->header) {
            set->dumps[set->count++] = dumps[i];
        } else {
            set->unusable[set->unusable_count++] = dumps[i];
        }
    }
    if (!complete)
        return false;
    qsort(set->dumps, set->count, sizeof *set->dumps, compare_dumps);
    for (size_t i = 1; i < set->count; i++)
        set->duplicate[i] =
            set->dumps[i]->header->rank != RANK_UNKNOWN && compare_identity(set->dumps[i - 1], set->dumps[i]) == 0;
    return true;
}

/* What the files take in memory when they are read into it: holes take nothing. */
static uint64_t bytes_of_files(const struct names *paths) {
    uint64_t sum = 0;
    struct stat status;
    for (size_t i = 0; i < paths->count; i++)
        if (stat(paths->items[i], &status) == 0 && S_ISREG(status.st_mode))
            sum += (uint64_t)status.st_blocks * 512;
    return sum;
}

/* What the kernel could free counts as free. */
static uint64_t memory_there_is(void) {
    unsigned long long kb = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && kb == 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kb) != 1)
            kb = 0;
    if (file)
        fclose(file);
    return kb * 1024;
}

/* More dumps than can be mapped are read into memory, if they fit. */
static bool choose_way(struct opening *opening, const struct names *paths, size_t mapped_most,
                       struct dump_set_excess *excess) {
    *excess = (struct dump_set_excess){.dumps = paths->count, .mapped_most = mapped_most};
    opening->open = dump_open;
    if (paths->count <= mapped_most)
        return true;
    opening->open = dump_open_copied;
    excess->bytes = bytes_of_files(paths);
    excess->memory = memory_there_is();
    return excess->bytes <= excess->memory / 2;
}

static enum dump_set_result open_paths(struct dump_set *set, struct names *paths, size_t mapped_most) {
    struct opening opening = {.paths = paths->items, .count = paths->count};
    if (!choose_way(&opening, paths, mapped_most, &set->excess))
        return DUMP_SET_TOO_MANY;
    opening.dumps = calloc(paths->count ? paths->count : 1, sizeof *opening.dumps);
    if (!opening.dumps)
        return DUMP_SET_NO_MEMORY;
    sort_names(paths);
    open_all(&opening);
    bool complete = sort_out(set, opening.dumps, opening.count);
    free(opening.dumps);
    return complete ? DUMP_SET_OK : DUMP_SET_NO_MEMORY;
}

/* Moves the names of `from` behind those of `to`. */
static bool append_names(struct names *to, struct names *from) {
    while (from->count > 0)
        if (!add_path_name(to, from->items[--from->count]))
            return false;
    return true;
}

enum dump_set_result dump_set_open(const char *directory, struct dump_set *set) {
    return dump_set_open_within(directory, set, mapping_limit() / 2); /* memory and threads need mappings, too */
}

enum dump_set_result dump_set_open_within(const char *directory, struct dump_set *set, size_t mapped_most) {
    struct names dumps = {0}, stubs = {0}, staged = {0};
    *set = (struct dump_set){.directory = strdup(directory)};
    enum dump_set_result result = set->directory ? list_directory(directory, &dumps, &stubs) : DUMP_SET_NO_MEMORY;
    if (result == DUMP_SET_OK && (!read_stubs(set, &stubs, &staged) || !append_names(&dumps, &staged)))
        result = DUMP_SET_NO_MEMORY;
    if (result == DUMP_SET_OK)
        result = open_paths(set, &dumps, mapped_most);
    if (result == DUMP_SET_OK && set->count + set->unusable_count + set->stub_count == 0)
        result = DUMP_SET_EMPTY;
    free_names(&dumps);
    free_names(&stubs);
    free_names(&staged);
    if (result != DUMP_SET_OK) {
        struct dump_set_excess excess = set->excess;
        dump_set_close(set);
        set->excess = excess;
    }
    return result;
}

void dump_set_close(struct dump_set *set) {
    for (size_t i = 0; i < set->count; i++)
        dump_close(set->dumps[i]);
    for (size_t i = 0; i < set->unusable_count; i++)
        dump_close(set->unusable[i]);
    for (size_t i = 0; i < set->stub_count; i++)
        free_stub(&set->stubs[i]);
    free(set->dumps);
    free(set->unusable);
    free(set->stubs);
    free(set->duplicate);
    free(set->directory);
    memset(set, 0, sizeof *set);
}
