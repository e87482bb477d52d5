/* SPDX-License-Identifier: Apache-2.0
 *
 * The descriptor is never kept: a job that closes everything from 3 up and opens files of its own must not find us
 * growing one of them. Growth opens the path again, and looks whether it is still the same file.
 */
#include "shim/record/dump_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/base/os.h"
#include "shim/base/planted_link.h"
#include "shim/record/storage.h"

static bool join_path(char *to, size_t size, const char *directory, const char *run_id, uint64_t unique,
                      const char *suffix) {
    struct text t;
    text_begin(&t, to, size);
    text_add(&t, directory);
    text_add(&t, "/" FORMAT_FILE_PREFIX);
    text_add(&t, run_id);
    text_add(&t, ".");
    text_add_hex16(&t, unique);
    text_add(&t, suffix);
    return t.length + 1 < size;
}

void dumpfile_give_mode(int fd, uint32_t mode) {
    if (mode != 0600)
        fchmod(fd, mode);
}

/* What is made below a directory with the set-group-id bit has it, too, and keeps it. */
static void open_to_group(const char *path) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && os_fstat(fd, &status))
        fchmod(fd, 0750 | (status.st_mode & S_ISGID));
    if (fd >= 0)
        close(fd);
}

static bool make_directory(const char *path, uint32_t mode) {
    if (mkdir(path, 0700) != 0)
        return errno == EEXIST;
    if (mode != 0600)
        open_to_group(path);
    return true;
}

/* What is there itself where `how` has O_NOFOLLOW, else what a link leads to. */
static bool look_at(const char *path, int how, struct stat *status) {
    int fd = open(path, O_PATH | O_CLOEXEC | how);
    bool known = fd >= 0 && os_fstat(fd, status);
    if (fd >= 0)
        close(fd);
    return known;
}

/* `above` becomes what `path` leads to. */
static bool is_planted(const char *path, struct stat *above) {
    struct stat itself;
    bool planted = look_at(path, O_NOFOLLOW, &itself) && is_planted_link(&itself, above);
    if (!look_at(path, 0, above))
        above->st_mode = 0;
    return planted;
}

static bool make_and_enter(const char *path, uint32_t mode, struct stat *above) {
    bool made = make_directory(path, mode);
    int why = errno;
    bool planted = is_planted(path, above);
    errno = planted ? EXDEV : why;
    return made && !planted;
}

bool dumpfile_make_directories(char *path, uint32_t mode) {
    struct stat above = {.st_mode = 0};
    look_at("/", 0, &above);
    for (char *slash = path + 1; *slash; slash++)
        if (*slash == '/') {
            *slash = '\0';
            bool entered = make_and_enter(path, mode, &above);
            *slash = '/';
            if (!entered && errno == EXDEV)
                return false;
        }
    return make_and_enter(path, mode, &above);
}

int dumpfile_open(const struct dumpfile *file) {
    struct stat status;
    int fd = open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    if (os_fstat(fd, &status) && status.st_dev == file->device && status.st_ino == file->inode)
        return fd;
    close(fd);
    errno = ESTALE;
    return -1;
}

/* ---- room ------------------------------------------------------------------------------------ */

#define ROOM_PAGES  (8u << 20)    /* pages of which it can be noted that they have room: 32 GiB of 4 KiB each */
#define FULL_FOR_NS 1000000000ull /* a full file is not asked again before that */

static uint64_t pages_of(uint64_t bytes) {
    return (bytes + storage_page_bytes() - 1) / storage_page_bytes();
}

static bool has_room(const struct dumpfile *file, uint64_t page) {
    return __atomic_load_n(&file->room[page / 64], __ATOMIC_ACQUIRE) >> page % 64 & 1;
}

/* Kernels before 5.14 are asked by the file's path. */
static bool take_blocks(const struct dumpfile *file, uint64_t offset, uint64_t bytes) {
    int fd = dumpfile_open(file);
    if (fd < 0)
        return false;
    bool taken = storage_take(fd, offset, bytes);
    close(fd);
    return taken;
}

/* Whether the quota, where there is one, leaves so many pages more; counts that it does not. */
static bool quota_leaves(struct dumpfile *file, uint64_t pages) {
    uint64_t quota = __atomic_load_n(&file->quota, __ATOMIC_RELAXED);
    if (!quota || __atomic_load_n(&file->taken, __ATOMIC_RELAXED) + pages <= quota)
        return true;
    __atomic_fetch_add(&file->header->losses.quota_refusals, 1, __ATOMIC_RELAXED);
    return false;
}

/* Room for `count` pages from `page` of the file on, which are mapped at `at`. Other threads may do the same. */
static bool give_room(struct dumpfile *file, char *at, uint64_t page, uint64_t count) {
    uint64_t step = storage_page_bytes();
    if (!quota_leaves(file, count))
        return false;
    enum storage_answer answer = storage_populate(at, count * step);
    if (answer == STORAGE_NOT_KNOWN && take_blocks(file, page * step, count * step))
        answer = STORAGE_ROOM;
    for (uint64_t i = page; answer == STORAGE_ROOM && i < page + count; i++)
        if (!(__atomic_fetch_or(&file->room[i / 64], 1ull << i % 64, __ATOMIC_RELEASE) >> i % 64 & 1))
            __atomic_fetch_add(&file->taken, 1, __ATOMIC_RELAXED);
    return answer == STORAGE_ROOM;
}

/* The section that an address lies in; SECTIONS_MAX: none. */
static uint32_t section_at(const struct dumpfile *file, const void *at) {
    uint32_t count = __atomic_load_n(&file->section_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count && i < SECTIONS_MAX; i++) {
        const char *contents = __atomic_load_n(&file->contents[i], __ATOMIC_ACQUIRE);
        if (contents && (uintptr_t)at - (uintptr_t)contents < file->header->sections[i].bytes)
            return i;
    }
    return SECTIONS_MAX;
}

static bool is_in_memory(const struct dumpfile *file, uint32_t slot) {
    return file->place == PLACE_MEMORY || __atomic_load_n(&file->kept[slot], __ATOMIC_RELAXED);
}

/* A page is left to the file system, which lists somewhere where the file's pages are. */
void dumpfile_set_quota(struct dumpfile *file, uint64_t bytes) {
    uint64_t pages = bytes / storage_page_bytes();
    __atomic_store_n(&file->quota, pages > 1 ? pages - 1 : 1, __ATOMIC_RELAXED);
}

bool dumpfile_has_room(const struct dumpfile *file, uint32_t slot, uint64_t offset) {
    return is_in_memory(file, slot) ||
           has_room(file, (file->header->sections[slot].offset + offset) / storage_page_bytes());
}

/* ext4 may wait for its journal before it says that it is full: too slow for every call that would like some room. */
static bool was_full_just_now(const struct dumpfile *file) {
    uint64_t full_at = __atomic_load_n(&file->full_at, __ATOMIC_RELAXED);
    return full_at && os_monotonic_ns() - full_at < FULL_FOR_NS;
}

bool dumpfile_make_room(struct dumpfile *file, const void *at, uint64_t bytes) {
    uint32_t slot = section_at(file, at);
    if (slot == SECTIONS_MAX)
        return false;
    if (is_in_memory(file, slot))
        return true;
    char *contents = file->contents[slot];
    uint64_t step = storage_page_bytes(), offset = file->header->sections[slot].offset;
    uint64_t from = (uint64_t)((const char *)at - contents), page = (offset + from) / step;
    uint64_t end = pages_of(offset + from + bytes);
    while (page < end && has_room(file, page))
        page++;
    if (page == end)
        return true;
    if (was_full_just_now(file))
        return false;
    int saved = errno;
    bool made = give_room(file, contents + (page * step - offset), page, end - page);
    if (!made)
        __atomic_store_n(&file->full_at, os_monotonic_ns(), __ATOMIC_RELAXED);
    errno = saved;
    return made;
}

/* ---- creation -------------------------------------------------------------------------------- */

/* The new file behind `fd`: sees whether there is room for all that activation will ask for, and maps the header. */
static bool begin_file(struct dumpfile *file, int fd, uint64_t bytes) {
    struct stat status;
    if (!os_fstat(fd, &status) || (file->place == PLACE_STAGED && !storage_is_shared_fairly(fd, bytes)) ||
        !storage_begin(fd, bytes))
        return false;
    file->device = status.st_dev;
    file->inode = status.st_ino;
    file->header = storage_map(fd, 0, SECTION_ALIGN);
    file->end = SECTION_ALIGN;
    if (file->header && give_room(file, (char *)file->header, 0, pages_of(sizeof *file->header)))
        return true;
    if (file->header)
        os_unmap(file->header, SECTION_ALIGN);
    return false;
}

static bool create_in(struct dumpfile *file, const char *directory, const char *run_id, uint64_t unique, uint64_t bytes,
                      enum dump_place place) {
    file->place = place;
    if (!storage_is_mappable(directory) || !join_path(file->path, sizeof file->path, directory, run_id, unique,
                                                      FORMAT_FILE_SUFFIX FORMAT_UNFINISHED_SUFFIX))
        return false;
    int fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    dumpfile_give_mode(fd, file->mode);
    bool begun = begin_file(file, fd, bytes);
    int why = errno;
    close(fd);
    if (!begun)
        unlink(file->path);
    errno = why;
    return begun;
}

static bool stage(struct dumpfile *file, const char *run_id, uint64_t unique, uint64_t bytes) {
    static const char places[][12] = {FORMAT_STAGING_DIRECTORIES};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (create_in(file, places[i], run_id, unique, bytes, PLACE_STAGED))
            return true;
    return false;
}

static bool keep_in_memory(struct dumpfile *file) {
    file->place = PLACE_MEMORY;
    file->header = os_memory(SECTION_ALIGN);
    file->end = SECTION_ALIGN;
    return file->header != NULL;
}

static bool absolute(char *to, size_t size, const char *directory) {
    struct text t;
    text_begin(&t, to, size);
    if (directory[0] != '/') {
        char cwd[1024];
        if (!getcwd(cwd, sizeof cwd))
            return false;
        text_add(&t, cwd);
        text_add(&t, "/");
    }
    text_add(&t, directory);
    return t.length + 1 < size;
}

/* Makes the directory. One that only finds no room now may be made at exit: until then it counts as full. */
static const char *prepare(char *output, uint32_t mode, bool *full) {
    if (!dumpfile_make_directories(output, mode)) {
        *full = errno == ENOSPC || errno == EDQUOT;
        return *full            ? NULL
               : errno == EXDEV ? "the output directory is behind a link that another user has put there"
                                : "the output directory cannot be created";
    }
    *full = false;
    return access(output, W_OK | X_OK) == 0 ? NULL : "the output directory cannot be written to";
}

#define KEPT_IN_MEMORY ": it is kept in memory and written at exit; a killed process leaves none"

/* Why neither the output directory nor the node took the dump; `why`: errno of the last try. */
static const char *why_in_memory(const char *output, bool full, int why) {
    if (why == EFBIG)
        return "the limit on the size of files (ulimit -f) is too low for a dump" KEPT_IN_MEMORY;
    if (why == ENOSYS || why == EPERM)
        return "the system refuses to set room aside for a dump (fallocate)" KEPT_IN_MEMORY;
    if (!full && !storage_is_mappable(output))
        return "no dump can be mapped in the output directory's file system, and the node's storage has no "
               "room" KEPT_IN_MEMORY;
    return "neither the output directory nor the node's storage has room for a dump" KEPT_IN_MEMORY;
}

static const char *choose_place(struct dumpfile *file, const char *output, bool full, const char *run_id,
                                uint64_t unique, uint64_t bytes, const char **note) {
    if (!full && create_in(file, output, run_id, unique, bytes, PLACE_OUTPUT))
        return NULL;
    errno = 0;
    if (stage(file, run_id, unique, bytes))
        return NULL;
    *note = why_in_memory(output, full, errno);
    return keep_in_memory(file) ? NULL : "no memory for the dump";
}

const char *dumpfile_create(struct dumpfile *file, const char *directory, const char *run_id, uint32_t mode,
                            uint64_t bytes, const char **note) {
    char output[1152];
    uint64_t unique;
    bool full;
    *note = NULL;
    memset(file, 0, sizeof *file);
    file->mode = mode;
    file->room = os_memory(ROOM_PAGES / 8);
    if (!file->room)
        return "no memory for the dump";
    if (getrandom(&unique, sizeof unique, GRND_NONBLOCK) != (ssize_t)sizeof unique)
        unique = hash_combine(os_realtime_ns(), (uint64_t)getpid() << 32 ^ (uint64_t)os_thread_id());
    if (!absolute(output, sizeof output, directory))
        return "the output directory cannot be created";
    const char *trouble = prepare(output, mode, &full);
    if (trouble)
        return trouble;
    if (!join_path(file->final_path, sizeof file->final_path, output, run_id, unique, FORMAT_FILE_SUFFIX) ||
        !join_path(file->stub_path, sizeof file->stub_path, output, run_id, unique, FORMAT_STUB_SUFFIX))
        return "the output directory's name is too long";
    return choose_place(file, output, full, run_id, unique, bytes, note);
}

void dumpfile_discard(struct dumpfile *file) {
    os_unmap(file->header, SECTION_ALIGN);
    os_unmap(file->room, ROOM_PAGES / 8);
    file->header = NULL;
    if (file->place != PLACE_MEMORY)
        unlink(file->path);
}

bool dumpfile_publish(struct dumpfile *file) {
    char finished[sizeof file->path];
    size_t length = strlen(file->path), suffix = strlen(FORMAT_UNFINISHED_SUFFIX);
    if (file->place == PLACE_MEMORY || strcmp(file->path + length - suffix, FORMAT_UNFINISHED_SUFFIX) != 0)
        return true;
    copy_text(finished, length - suffix + 1, file->path);
    if (rename(file->path, finished) != 0)
        return false;
    copy_text(file->path, sizeof file->path, finished);
    return true;
}

/* ---- sections -------------------------------------------------------------------------------- */

/* Growing takes a page, which counts. */
static bool extend(struct dumpfile *file, int fd, uint64_t bytes) {
    uint64_t pages = storage_is_as_long(fd, bytes) ? 0 : 1;
    if (!storage_extend(fd, bytes))
        return false;
    __atomic_fetch_add(&file->taken, pages, __ATOMIC_RELAXED);
    return true;
}

static void *map_section(struct dumpfile *file, uint64_t offset, uint64_t bytes, uint64_t used) {
    void *mapping = NULL;
    int fd = offset + bytes <= ROOM_PAGES * storage_page_bytes() ? dumpfile_open(file) : -1;
    if (fd < 0)
        return NULL;
    if ((file->place != PLACE_STAGED || storage_is_shared_fairly(fd, bytes)) && extend(file, fd, offset + bytes))
        mapping = storage_map(fd, offset, bytes);
    close(fd);
    if (mapping && used > 0 && !give_room(file, mapping, offset / storage_page_bytes(), pages_of(used))) {
        os_unmap(mapping, bytes);
        mapping = NULL;
    }
    return mapping;
}

static void *add_section(struct dumpfile *file, enum section_kind kind, uint32_t index, uint32_t count,
                         uint32_t item_bytes, uint64_t used) {
    uint64_t bytes = section_bytes(count, item_bytes);
    uint32_t slot = __atomic_fetch_add(&file->section_count, 1, __ATOMIC_RELAXED);
    if (slot >= SECTIONS_MAX) {
        __atomic_store_n(&file->section_count, SECTIONS_MAX, __ATOMIC_RELAXED);
        return NULL;
    }
    uint64_t offset = __atomic_fetch_add(&file->end, bytes, __ATOMIC_RELAXED);
    void *mapping = file->place == PLACE_MEMORY ? NULL : map_section(file, offset, bytes, used);
    bool listed = mapping || file->place == PLACE_MEMORY;
    if (!mapping)
        mapping = os_memory(bytes);
    if (!mapping)
        return NULL;
    struct section *entry = &file->header->sections[slot];
    entry->index = index;
    entry->offset = offset;
    entry->bytes = bytes;
    entry->count = count;
    entry->item_bytes = item_bytes;
    if (!listed)
        __atomic_fetch_add(&file->header->losses.tables_in_memory, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&file->contents[slot], mapping, __ATOMIC_RELEASE);
    __atomic_store_n(listed ? &entry->kind : &file->kept[slot], kind, __ATOMIC_RELEASE);
    return mapping;
}

void *dumpfile_section(struct dumpfile *file, enum section_kind kind, uint32_t index, uint32_t count,
                       uint32_t item_bytes) {
    return add_section(file, kind, index, count, item_bytes, 0);
}

void *dumpfile_next_section(struct dumpfile *file, enum section_kind kind, uint32_t index, uint32_t count,
                            uint32_t item_bytes) {
    bool bounded = __atomic_load_n(&file->quota, __ATOMIC_RELAXED) != 0; /* memory would come to the disk at exit */
    return add_section(file, kind, index, count, item_bytes, bounded ? 0 : item_bytes);
}

void *dumpfile_further_section(struct dumpfile *file, enum section_kind kind, uint32_t index, uint32_t count,
                               uint32_t item_bytes) {
    uint64_t length = 1, first_items = 1;
    return quota_leaves(file, length + first_items) ? dumpfile_next_section(file, kind, index, count, item_bytes)
                                                    : NULL;
}

void *dumpfile_full_section(struct dumpfile *file, enum section_kind kind, uint32_t index, uint32_t count,
                            uint32_t item_bytes) {
    return add_section(file, kind, index, count, item_bytes, (uint64_t)count * item_bytes);
}
