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

bool dumpfile_make_directories(char *path, uint32_t mode) {
    for (char *slash = path + 1; *slash; slash++)
        if (*slash == '/') {
            *slash = '\0';
            make_directory(path, mode);
            *slash = '/';
        }
    return make_directory(path, mode);
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

/* ---- creation -------------------------------------------------------------------------------- */

/* The new file behind `fd`: reserves all that activation will ask for, and maps the header. */
static bool begin_file(struct dumpfile *file, int fd, uint64_t bytes) {
    struct stat status;
    if (!os_fstat(fd, &status) || (file->place == PLACE_STAGED && !storage_is_shared_fairly(fd, bytes)) ||
        !storage_reserve(fd, 0, bytes))
        return false;
    file->device = status.st_dev;
    file->inode = status.st_ino;
    file->header = storage_map(fd, 0, SECTION_ALIGN);
    file->end = SECTION_ALIGN;
    return file->header != NULL;
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
    close(fd);
    if (!begun)
        unlink(file->path);
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
        return *full ? NULL : "the output directory cannot be created";
    }
    *full = false;
    return access(output, W_OK | X_OK) == 0 ? NULL : "the output directory cannot be written to";
}

static const char *choose_place(struct dumpfile *file, const char *output, bool full, const char *run_id,
                                uint64_t unique, uint64_t bytes, const char **note) {
    if (!full && create_in(file, output, run_id, unique, bytes, PLACE_OUTPUT))
        return NULL;
    if (stage(file, run_id, unique, bytes))
        return NULL;
    *note = "no room for a mapped dump: it is kept in memory and written at exit; a killed process leaves none";
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

static void *map_section(struct dumpfile *file, uint64_t offset, uint64_t bytes) {
    void *mapping = NULL;
    int fd = dumpfile_open(file);
    if (fd < 0)
        return NULL;
    if ((file->place != PLACE_STAGED || storage_is_shared_fairly(fd, bytes)) && storage_reserve(fd, offset, bytes))
        mapping = storage_map(fd, offset, bytes);
    close(fd);
    return mapping;
}

void *dumpfile_section(struct dumpfile *file, enum section_kind kind, uint32_t index, uint32_t count,
                       uint32_t item_bytes) {
    uint64_t bytes = section_bytes(count, item_bytes);
    uint32_t slot = __atomic_fetch_add(&file->section_count, 1, __ATOMIC_RELAXED);
    if (slot >= SECTIONS_MAX) {
        __atomic_store_n(&file->section_count, SECTIONS_MAX, __ATOMIC_RELAXED);
        return NULL;
    }
    uint64_t offset = __atomic_fetch_add(&file->end, bytes, __ATOMIC_RELAXED);
    void *mapping = file->place == PLACE_MEMORY ? NULL : map_section(file, offset, bytes);
    bool listed = mapping || file->place == PLACE_MEMORY;
    if (!mapping)
        mapping = os_memory(bytes);
    if (!mapping)
        return NULL;
    file->contents[slot] = mapping;
    struct section *entry = &file->header->sections[slot];
    entry->index = index;
    entry->offset = offset;
    entry->bytes = bytes;
    entry->count = count;
    entry->item_bytes = item_bytes;
    if (!listed)
        __atomic_fetch_add(&file->header->losses.tables_in_memory, 1, __ATOMIC_RELAXED);
    __atomic_store_n(listed ? &entry->kind : &file->kept[slot], kind, __ATOMIC_RELEASE);
    return mapping;
}
