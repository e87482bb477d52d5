/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory of dumps: which files there are, in an order that does not depend on the file system, and what stands
 * for dumps that were not collected.
 * Lives here: opening what is listed, stubs, the order of the dumps.
 * Must not live here: what is inside a dump.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/text.h"
#include "analyzer/dumps/directories.h"
#include "analyzer/dumps/set.h"
#include "analyzer/load/dump.h"
#include "analyzer/dumps/lifetime.h"
#include "analyzer/dumps/process.h"
#include "analyzer/load/mapping.h"
#include "analyzer/archive/archive.h"
#include "analyzer/base/hash.h"
#include "analyzer/dumps/starts.h"
#include "analyzer/dumps/stub.h"
#include "analyzer/base/regular_file.h"
#include "analyzer/base/side_by_side.h"

enum { OPENERS_MAX = 8 };

static char *join_path(const char *directory, const char *name) {
    char *path;
    return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

/* ---- archives ---------------------------------------------------------------------------------- */

/* Of a dump that is there unpacked as well, the packed one is left out. */
static enum dump_set_result list_member(struct dump_set *set, const char *directory, const char *archive,
                                        const struct archive_entry *entry, struct names *dumps) {
    struct stat status;
    char *path = join_path(directory, entry->name), *packed = NULL;
    bool loose = path && lstat(path, &status) == 0;
    free(path);
    if (loose || !text_ends_in(entry->name, FORMAT_FILE_SUFFIX))
        return DUMP_SET_OK;
    if (!path || asprintf(&packed, "%s/%s:%s", directory, archive, entry->name) < 0 || !names_add(dumps, packed))
        return DUMP_SET_NO_MEMORY;
    set->excess.packed++;
    set->excess.packed_bytes += entry->data_bytes;
    return DUMP_SET_OK;
}

/* An archive that cannot be read stands in the list itself: opening it then tells why. */
static enum dump_set_result list_archive(struct dump_set *set, const char *directory, const char *name,
                                         struct names *dumps) {
    struct archive archive;
    struct archive_entry entry;
    enum dump_set_result result = DUMP_SET_OK;
    char *path = join_path(directory, name);
    if (!path)
        return DUMP_SET_NO_MEMORY;
    bool sound = archive_open(&archive, AT_FDCWD, path, 0) && archive_check_index(&archive);
    for (uint64_t i = 0; sound && result == DUMP_SET_OK && i < archive.count; i++)
        if (archive_entry_at(&archive, i, &entry))
            result = list_member(set, directory, name, &entry, dumps);
    archive_close(&archive);
    if (sound)
        free(path);
    else if (!names_add(dumps, path))
        result = DUMP_SET_NO_MEMORY;
    return result;
}

static enum dump_set_result list_directory(struct dump_set *set, const char *directory, struct names *dumps,
                                           struct names *stubs) {
    DIR *stream = opendir(directory);
    if (!stream)
        return DUMP_SET_NO_DIRECTORY;
    enum dump_set_result result = DUMP_SET_OK;
    for (struct dirent *entry; result == DUMP_SET_OK && (entry = readdir(stream));) {
        struct names *to = text_ends_in(entry->d_name, FORMAT_FILE_SUFFIX) ? dumps
                           : stub_is_one(entry->d_name)                    ? stubs
                                                                           : NULL;
        set->unfinished += text_ends_in(entry->d_name, FORMAT_FILE_SUFFIX FORMAT_UNFINISHED_SUFFIX);
        if (to && !names_add(to, join_path(directory, entry->d_name)))
            result = DUMP_SET_NO_MEMORY;
        else if (archive_is_one(entry->d_name))
            result = list_archive(set, directory, entry->d_name, dumps);
    }
    closedir(stream);
    return result;
}

struct seen_directory {
    dev_t device;
    ino_t inode;
};

/* Moves what was found to `to`, each directory once, however it is written. */
static bool keep_different(struct names *to, const struct names *all) {
    struct seen_directory *seen = calloc(all->count + 1, sizeof *seen);
    bool done = seen != NULL;
    for (size_t i = 0; done && i < all->count; i++) {
        struct stat status = {0};
        size_t same = 0;
        if (stat(all->items[i], &status) != 0)
            continue;
        while (same < to->count && (seen[same].device != status.st_dev || seen[same].inode != status.st_ino))
            same++;
        if (same < to->count)
            continue;
        seen[to->count] = (struct seen_directory){status.st_dev, status.st_ino};
        done = names_add(to, strdup(all->items[i]));
    }
    free(seen);
    return done;
}

static enum dump_set_result find_directories(struct dump_set *set, char *const *places, size_t count,
                                             struct names *found) {
    struct names all = {0};
    enum dump_set_result result = DUMP_SET_OK;
    for (size_t i = 0; result == DUMP_SET_OK && i < count; i++) {
        enum directories_result search = directories_find(places[i], &all);
        result = search == DIRECTORIES_FOUND        ? DUMP_SET_OK
                 : search == DIRECTORIES_UNREADABLE ? DUMP_SET_NO_DIRECTORY
                                                    : DUMP_SET_NO_MEMORY;
        if (result == DUMP_SET_NO_DIRECTORY)
            set->refused = places[i];
    }
    int error = errno;
    if (result == DUMP_SET_OK && !keep_different(found, &all))
        result = DUMP_SET_NO_MEMORY;
    names_free(&all);
    errno = error;
    return result;
}

static enum dump_set_result list_all(struct dump_set *set, char *const *places, size_t count, struct names *dumps,
                                     struct names *stubs) {
    struct names directories = {0};
    enum dump_set_result result = find_directories(set, places, count, &directories);
    for (size_t i = 0; result == DUMP_SET_OK && i < directories.count; i++)
        result = list_directory(set, directories.items[i], dumps, stubs);
    int error = errno;
    names_free(&directories);
    names_sort(dumps);
    names_sort(stubs);
    errno = error;
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

/* What it takes in memory: holes take nothing. */
static uint64_t bytes_of(const struct stat *status) {
    return S_ISREG(status->st_mode) ? (uint64_t)status->st_blocks * 512 : 0;
}

/* Whether the staged dump can be opened where it is: 0, or what it takes in memory, and one. */
static uint64_t is_here(const struct stub *stub, const char *boot_id) {
    struct stat status;
    int file =
        boot_id[0] && strcmp(stub->boot_id, boot_id) == 0 ? regular_file_open(AT_FDCWD, stub->path, O_NOFOLLOW) : -1;
    bool here = file >= 0 && fstat(file, &status) == 0;
    if (file >= 0)
        close(file);
    return here ? bytes_of(&status) + 1 : 0;
}

static uint64_t fingerprint_of(const struct dump_stub *stub) {
    uint64_t told = hash_mix_text(hash_mix_text(1, stub->path), stub->staged_path);
    return hash_mix_text(hash_mix_text(told, stub->host), stub->boot_id);
}

/* Damaged ones last. */
static int compare_stubs(const void *a, const void *b) {
    const struct dump_stub *left = a, *right = b;
    if (!left->damage != !right->damage)
        return left->damage ? 1 : -1;
    int host = strcmp(left->host, right->host), staged = strcmp(left->staged_path, right->staged_path);
    return host ? host : staged ? staged : strcmp(left->path, right->path);
}

/* Of those that stand for the same dump, as a copy of a directory has them, the first stays. */
static void drop_twins(struct dump_set *set) {
    size_t kept = 0;
    qsort(set->stubs, set->stub_count, sizeof *set->stubs, compare_stubs);
    for (size_t i = 0; i < set->stub_count; i++) {
        const struct dump_stub *before = kept > 0 ? &set->stubs[kept - 1] : NULL;
        if (before && !before->damage && !set->stubs[i].damage && strcmp(before->host, set->stubs[i].host) == 0 &&
            strcmp(before->staged_path, set->stubs[i].staged_path) == 0)
            free_stub(&set->stubs[i]);
        else
            set->stubs[kept++] = set->stubs[i];
    }
    set->stub_count = kept;
}

/* Takes the stubs whose dumps were not collected, and of each what becomes of its dump: set->stubs[i] is
 * staged->dumps[i]. */
static bool read_stubs(struct dump_set *set, const struct names *stubs, struct staged *staged) {
    char here[65];
    if (!process_boot_id(here, sizeof here))
        here[0] = '\0';
    set->stubs = calloc(stubs->count ? stubs->count : 1, sizeof *set->stubs);
    if (!staged_begin(staged, stubs->count) || !set->stubs)
        return false;
    for (size_t i = 0; i < stubs->count; i++) {
        struct stub stub;
        struct dump_stub *taken = &set->stubs[set->stub_count];
        if (is_collected(stubs->items[i]))
            continue;
        const char *damage = stub_read(AT_FDCWD, stubs->items[i], &stub);
        if (!take_stub(taken, stubs->items[i], &stub, damage))
            return false;
        struct staged_dump *dump = &staged->dumps[set->stub_count++];
        dump->path = taken->staged_path;
        dump->fingerprint = fingerprint_of(taken);
        dump->here = damage ? 0 : is_here(&stub, here);
    }
    staged->count = set->stub_count;
    return true;
}

/* What this process can open itself is among the files to open. */
static bool list_staged(const struct staged *staged, struct names *dumps) {
    bool done = true;
    for (size_t i = 0; done && i < staged->count; i++)
        done = staged->dumps[i].here == 0 || names_add(dumps, strdup(staged->dumps[i].path));
    return done;
}

/* Once their dumps are open: keeps stubs whose dump no process can open. */
static bool keep_stubs(struct dump_set *set, const struct staged *staged) {
    size_t kept = 0;
    bool done = true;
    for (size_t i = 0; i < set->stub_count; i++) {
        const struct staged_dump *dump = &staged->dumps[i];
        if (dump->from != STAGED_NOWHERE) {
            done = done && names_add(&set->by_stub, strdup(dump->path));
            free_stub(&set->stubs[i]);
        } else {
            set->stubs[kept++] = set->stubs[i];
        }
    }
    set->stub_count = kept;
    names_sort(&set->by_stub);
    drop_twins(set);
    return done;
}

/* ---- opening --------------------------------------------------------------------------------- */

struct opening {
    char **paths;
    struct dump **dumps;
    size_t count, mapped_most; /* the first ones are mapped, the others read into memory */
};

static void open_one(void *context, size_t number) {
    struct opening *opening = context;
    bool mapped = number < opening->mapped_most;
    opening->dumps[number] = mapped ? dump_open(opening->paths[number]) : dump_open_copied(opening->paths[number]);
}

/* Opening scans every ring: as many at a time as there are processors. */
static unsigned count_openers(void) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > OPENERS_MAX ? OPENERS_MAX : processors > 0 ? (unsigned)processors : 1;
}

static int compare_numbers(int64_t a, int64_t b) {
    return a < b ? -1 : a > b;
}

static int compare_identity(const struct dump *a, const struct dump *b) {
    int order = strcmp(a->run_id, b->run_id);
    if (order == 0 && a->world_id != b->world_id)
        order = a->world_id < b->world_id ? -1 : 1;
    if (order == 0)
        order = compare_numbers(a->generation, b->generation);
    if (order == 0)
        order = compare_numbers(a->launch, b->launch);
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
    if (!launches_part(set->dumps, set->count))
        return false;
    qsort(set->dumps, set->count, sizeof *set->dumps, compare_dumps); /* by launch, too */
    if (!starts_join(set->dumps, set->count))
        return false;
    qsort(set->dumps, set->count, sizeof *set->dumps, compare_dumps);
    for (size_t i = 0; i < set->count; i++)
        set->duplicate[i] = set->dumps[i]->is_duplicate;
    return true;
}

/* What the files from the one numbered `first` on take in memory when they are read into it. */
static uint64_t bytes_of_files(const struct names *paths, size_t first) {
    uint64_t sum = 0;
    struct stat status;
    for (size_t i = first; i < paths->count; i++)
        if (stat(paths->items[i], &status) == 0)
            sum += bytes_of(&status);
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

static bool can_all_be_mapped(const struct dump_set_excess *excess) {
    return excess->dumps - excess->packed <= excess->mapped_most;
}

/* Of more dumps than can be mapped the others are read into memory, if they fit. Packed ones always are. */
static bool fits(const struct names *paths, size_t mapped_most, struct dump_set_excess *excess) {
    excess->dumps = paths->count;
    excess->mapped_most = mapped_most;
    if (!can_all_be_mapped(excess))
        excess->bytes = bytes_of_files(paths, mapped_most);
    else if (excess->packed == 0)
        return true;
    excess->bytes += excess->packed_bytes;
    excess->memory = memory_there_is();
    return excess->bytes <= excess->memory / 2;
}

/* How a set is opened. */
struct manner {
    size_t mapped_most;
    struct team *team; /* NULL: nobody else */
    bool for_first;
};

static const char *scratch_directory(void) {
    const char *named = getenv("TMPDIR");
    return named && named[0] ? named : "/tmp";
}

/* Gets what other processes can open, and hands out what they cannot. */
static enum dump_set_result bring(struct dump_set *set, struct staged *staged, const struct manner *manner) {
    staged->bytes = set->excess.bytes;
    staged->memory = memory_there_is();
    staged->disk = scratch_directory();
    staged->processes = "/proc";
    staged->for_first = manner->for_first;
    staged->openers = count_openers();
    staged->round_bytes = STAGED_ROUND_BYTES;
    enum staged_result result = staged_agree(manner->team, staged);
    if (result == STAGED_DONE)
        result = staged_exchange(manner->team, staged);
    set->excess.staged = staged->need;
    static const enum dump_set_result results[] = {[STAGED_DONE] = DUMP_SET_OK,
                                                   [STAGED_NO_MEMORY] = DUMP_SET_NO_MEMORY,
                                                   [STAGED_TOO_MUCH] = DUMP_SET_TOO_MUCH_STAGED,
                                                   [STAGED_CANNOT_PACK] = DUMP_SET_CANNOT_SEND,
                                                   [STAGED_PARTED] = DUMP_SET_PARTED};
    return results[result];
}

static int compare_paths(const void *a, const void *b) {
    const struct dump *left = *(struct dump *const *)a, *right = *(struct dump *const *)b;
    return strcmp(left ? left->path : "", right ? right->path : "");
}

/* Opens the files, and puts what came from other hosts among them. */
static enum dump_set_result open_paths(struct dump_set *set, struct names *paths, struct staged *staged,
                                       size_t mapped_most) {
    struct opening opening = {.paths = paths->items,
                              .count = paths->count,
                              .mapped_most = can_all_be_mapped(&set->excess) ? paths->count : mapped_most};
    opening.dumps = calloc(paths->count + staged->count + 1, sizeof *opening.dumps);
    if (!opening.dumps)
        return DUMP_SET_NO_MEMORY;
    side_by_side(count_openers(), opening.count, open_one, &opening);
    for (size_t i = 0; i < staged->count; i++) {
        if (staged->dumps[i].wanted)
            opening.dumps[opening.count++] = staged->dumps[i].dump;
        staged->dumps[i].dump = NULL;
    }
    qsort(opening.dumps, opening.count, sizeof *opening.dumps, compare_paths);
    bool complete = sort_out(set, opening.dumps, opening.count);
    free(opening.dumps);
    return complete && keep_stubs(set, staged) ? DUMP_SET_OK : DUMP_SET_NO_MEMORY;
}

static enum dump_set_result open_listed(struct dump_set *set, struct names *paths, struct staged *staged,
                                        const struct manner *manner) {
    names_sort(paths);
    if (!fits(paths, manner->mapped_most, &set->excess))
        return DUMP_SET_TOO_MANY;
    enum dump_set_result result = bring(set, staged, manner);
    return result == DUMP_SET_OK ? open_paths(set, paths, staged, manner->mapped_most) : result;
}

/* For messages, and to be typed again. */
static char *join_places(char *const *places, size_t count) {
    size_t bytes = 1;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(places[i]) + 1;
    char *all = calloc(bytes, 1), *end = all;
    for (size_t i = 0; all && i < count; i++)
        end += sprintf(end, "%s%s", i ? " " : "", places[i]);
    return all;
}

/* Closes it but for what the caller is told of why nothing was opened. */
static void leave_told(struct dump_set *set) {
    const struct dump_set told = *set;
    dump_set_close(set);
    *set = (struct dump_set){.excess = told.excess, .unfinished = told.unfinished, .refused = told.refused};
}

static enum dump_set_result open_places(char *const *places, size_t count, struct dump_set *set,
                                        const struct manner *manner) {
    struct names dumps = {0}, stubs = {0};
    struct staged staged = {0};
    *set = (struct dump_set){.directory = join_places(places, count)};
    bool named = set->directory != NULL;
    for (size_t i = 0; named && i < count; i++)
        named = names_add(&set->places, strdup(places[i]));
    enum dump_set_result result = named ? list_all(set, places, count, &dumps, &stubs) : DUMP_SET_NO_MEMORY;
    int error = errno;
    if (result == DUMP_SET_OK && (!read_stubs(set, &stubs, &staged) || !list_staged(&staged, &dumps)))
        result = DUMP_SET_NO_MEMORY;
    if (result == DUMP_SET_OK)
        result = open_listed(set, &dumps, &staged, manner);
    if (result == DUMP_SET_OK && set->count + set->unusable_count + set->stub_count == 0)
        result = DUMP_SET_EMPTY;
    names_free(&dumps);
    names_free(&stubs);
    staged_free(&staged);
    if (result != DUMP_SET_OK) {
        leave_told(set);
        errno = error;
    }
    return result;
}

enum dump_set_result dump_set_open_together(struct team *team, bool for_first, char *const *directories, size_t count,
                                            struct dump_set *set) {
    /* memory and threads need mappings, too: a few thousand blocks too large for the heap at most */
    const struct manner manner = {mapping_limit() / 4 * 3, team, for_first};
    return open_places(directories, count, set, &manner);
}

enum dump_set_result dump_set_open_all(char *const *directories, size_t count, struct dump_set *set) {
    return dump_set_open_together(NULL, false, directories, count, set);
}

enum dump_set_result dump_set_lend(struct team *team, char *const *directories, size_t count, struct dump_set *set) {
    const struct manner manner = {.team = team, .for_first = true};
    struct names dumps = {0}, stubs = {0};
    struct staged staged = {0};
    *set = (struct dump_set){0};
    enum dump_set_result result = list_all(set, directories, count, &dumps, &stubs);
    int error = errno;
    if (result == DUMP_SET_OK)
        result = read_stubs(set, &stubs, &staged) ? bring(set, &staged, &manner) : DUMP_SET_NO_MEMORY;
    names_free(&dumps);
    names_free(&stubs);
    staged_free(&staged);
    leave_told(set);
    errno = error;
    return result;
}

enum dump_set_result dump_set_open(const char *directory, struct dump_set *set) {
    return dump_set_open_all((char *[]){(char *)directory}, 1, set);
}

enum dump_set_result dump_set_open_within(const char *directory, struct dump_set *set, size_t mapped_most) {
    const struct manner manner = {.mapped_most = mapped_most};
    return open_places((char *[]){(char *)directory}, 1, set, &manner);
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
    names_free(&set->by_stub);
    names_free(&set->places);
    memset(set, 0, sizeof *set);
}

static int compare_path(const void *path, const void *item) {
    return strcmp(path, *(char *const *)item);
}

bool dump_set_is_staged(const struct dump_set *set, const struct dump *dump) {
    return dump->header->place == PLACE_STAGED && !(dump->header->state & STATE_COPIED) && set->by_stub.count > 0 &&
           bsearch(dump->path, set->by_stub.items, set->by_stub.count, sizeof *set->by_stub.items, compare_path);
}

char *dump_set_beside(const struct dump *dump, const char *suffix) {
    char *path = NULL;
    const char *slash = strrchr(dump->path, '/');
    if (strchr(dump->run_id, '/') ||
        asprintf(&path, "%.*s" FORMAT_FILE_PREFIX "%s%s", slash ? (int)(slash - dump->path + 1) : 0, dump->path,
                 dump->run_id, suffix) < 0)
        return NULL;
    return path;
}
