/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of dumpfile.h.
 * The descriptor is never kept: a job that closes everything from 3 up and opens files of its own must not find us
 * growing one of them. Growth opens the path again.
 */
#include "shim/dumpfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shim/os.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Where a shared mapping is as crash-proof as a file and a store never waits for a network. linux/magic.h */
static const struct {
    long magic;
    bool counts_as_memory; /* at most an eighth of what is free: NCCL and MPI need it */
} mappable[] = {
    {0x01021994, true},  /* tmpfs */
    {0xEF53, false},     /* ext2/3/4 */
    {0x58465342, false}, /* xfs */
    {0x9123683E, false}, /* btrfs */
};

/* Whether `directory` may hold the mapped file, with room for `bytes`. */
static bool directory_fits(const char *directory, uint64_t bytes, bool for_staging) {
    struct statfs fs;
    if (statfs(directory, &fs) != 0)
        return false;
    for (size_t i = 0; i < sizeof mappable / sizeof *mappable; i++)
        if ((long)fs.f_type == mappable[i].magic) {
            uint64_t room = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
            return !(for_staging && mappable[i].counts_as_memory) || bytes <= room / 8;
        }
    return false;
}

static bool directory_is_mappable(const char *directory) {
    return directory_fits(directory, 0, false);
}

static bool join(char *to, size_t size, const char *directory, const char *run_id, uint64_t unique,
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

static bool make_directories(char *path) {
    for (char *slash = path + 1; *slash; slash++)
        if (*slash == '/') {
            *slash = '\0';
            mkdir(path, 0777);
            *slash = '/';
        }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static bool reserve(int fd, uint64_t offset, uint64_t bytes) {
    struct held_signals held;
    signals_hold(&held);
    bool done = fallocate(fd, 0, (off_t)offset, (off_t)bytes) == 0;
    signals_release(&held);
    return done;
}

static bool allocate(const char *path, uint64_t offset, uint64_t bytes, int flags, void **mapping) {
    bool done = false;
    int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd < 0)
        return false;
    /* Blocks must exist before the first store: a full disk is an error here and SIGBUS later. */
    if (reserve(fd, offset, bytes)) {
        *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
        done = *mapping != MAP_FAILED;
    }
    close(fd);
    if (done)
        madvise(*mapping, bytes, MADV_POPULATE_WRITE); /* page faults now, not in a call of the job; best effort */
    else if (flags & O_CREAT)
        unlink(path);
    return done;
}

static bool map_header(struct dumpfile *file, int flags) {
    void *mapping = NULL;
    if (file->place == PLACE_MEMORY)
        mapping = os_memory(SECTION_ALIGN);
    else if (!allocate(file->path, 0, SECTION_ALIGN, flags, &mapping))
        mapping = NULL;
    file->header = mapping;
    file->end = SECTION_ALIGN;
    return mapping != NULL;
}

/* Is there really room for all of it? Reserved and given back at once: sections come one by one. */
static bool room_for(const char *path, uint64_t bytes) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool room = reserve(fd, 0, bytes);
    if (ftruncate(fd, SECTION_ALIGN) != 0)
        room = false;
    close(fd);
    return room;
}

static bool create_in(struct dumpfile *file, const char *directory, const char *run_id, uint64_t unique, uint64_t bytes,
                      enum dump_place place) {
    file->place = place;
    if (!join(file->path, sizeof file->path, directory, run_id, unique, FORMAT_FILE_SUFFIX FORMAT_UNFINISHED_SUFFIX))
        return false;
    if (!map_header(file, O_CREAT | O_EXCL))
        return false;
    if (room_for(file->path, bytes))
        return true;
    munmap(file->header, SECTION_ALIGN);
    unlink(file->path);
    return false;
}

static bool stage(struct dumpfile *file, const char *run_id, uint64_t unique, uint64_t bytes) {
    static const char places[][12] = {"/dev/shm", "/tmp", "/var/tmp"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (directory_fits(places[i], bytes, true) && create_in(file, places[i], run_id, unique, bytes, PLACE_STAGED))
            return true;
    return false;
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

const char *dumpfile_create(struct dumpfile *file, const char *directory, const char *run_id, uint64_t bytes,
                            const char **note) {
    char output[1152];
    uint64_t unique;
    *note = NULL;
    memset(file, 0, sizeof *file);
    if (getrandom(&unique, sizeof unique, GRND_NONBLOCK) != (ssize_t)sizeof unique)
        unique = hash_combine(os_realtime_ns(), (uint64_t)getpid() << 32 ^ (uint64_t)os_thread_id());
    if (!absolute(output, sizeof output, directory) || !make_directories(output))
        return "the output directory cannot be created";
    if (access(output, W_OK | X_OK) != 0)
        return "the output directory cannot be written to";
    if (!join(file->final_path, sizeof file->final_path, output, run_id, unique, FORMAT_FILE_SUFFIX) ||
        !join(file->stub_path, sizeof file->stub_path, output, run_id, unique, FORMAT_STUB_SUFFIX))
        return "the output directory's name is too long";
    if (directory_is_mappable(output)) {
        if (create_in(file, output, run_id, unique, bytes, PLACE_OUTPUT))
            return NULL;
    } else if (stage(file, run_id, unique, bytes)) {
        return NULL;
    }
    file->place = PLACE_MEMORY;
    *note = "no room for a mapped dump: it is kept in memory and written at exit; a killed process leaves none";
    return map_header(file, 0) ? NULL : "no memory for the dump";
}

void dumpfile_publish(struct dumpfile *file) {
    char finished[sizeof file->path];
    if (file->place == PLACE_MEMORY)
        return;
    copy_text(finished, strlen(file->path) - strlen(FORMAT_UNFINISHED_SUFFIX) + 1, file->path);
    if (rename(file->path, finished) == 0)
        copy_text(file->path, sizeof file->path, finished);
}

void *dumpfile_section(struct dumpfile *file, enum section_kind kind, uint32_t index, uint32_t count,
                       uint32_t item_bytes) {
    uint64_t bytes = section_bytes(count, item_bytes);
    uint32_t slot = __atomic_fetch_add(&file->section_count, 1, __ATOMIC_RELAXED);
    void *mapping = NULL;
    if (slot >= SECTIONS_MAX) {
        __atomic_store_n(&file->section_count, SECTIONS_MAX, __ATOMIC_RELAXED);
        return NULL;
    }
    uint64_t offset = __atomic_fetch_add(&file->end, bytes, __ATOMIC_RELAXED);
    if (file->place == PLACE_MEMORY)
        mapping = os_memory(bytes);
    else if (!allocate(file->path, offset, bytes, 0, &mapping))
        mapping = NULL;
    if (!mapping)
        return NULL;
    file->memory_base[slot] = mapping;
    struct section *entry = &file->header->sections[slot];
    entry->index = index;
    entry->offset = offset;
    entry->bytes = bytes;
    entry->count = count;
    entry->item_bytes = item_bytes;
    __atomic_store_n(&entry->kind, kind, __ATOMIC_RELEASE);
    return mapping;
}

void dumpfile_write_stub(const struct dumpfile *file) {
    char body[2048];
    struct text t;
    int fd = open(file->stub_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    text_begin(&t, body, sizeof body);
    text_add(&t, "host=");
    text_add(&t, file->header->host);
    text_add(&t, "\nboot_id=");
    text_add(&t, file->header->boot_id);
    text_add(&t, "\npath=");
    text_add(&t, file->path);
    text_add(&t, "\npid=");
    text_add_signed(&t, file->header->pid);
    text_add(&t, "\nrank=");
    text_add_signed(&t, file->header->rank);
    text_add(&t, "\n");
    struct held_signals held;
    signals_hold(&held);
    ssize_t ignored = write(fd, body, t.length);
    (void)ignored;
    signals_release(&held);
    close(fd);
}

static bool write_all(int fd, const void *data, uint64_t bytes) {
    const char *p = data;
    while (bytes > 0) {
        ssize_t n = write(fd, p, bytes < (1u << 20) ? bytes : 1u << 20);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        bytes -= (uint64_t)n;
    }
    return true;
}

/* The header goes last, so that a copy cut short by a full disk has no magic and is no dump. */
static bool copy_sections(const struct dumpfile *file, int fd) {
    for (uint32_t i = 0; i < SECTIONS_MAX; i++) {
        const struct section *s = &file->header->sections[i];
        if (s->kind == SECTION_FREE)
            continue;
        if (lseek(fd, (off_t)s->offset, SEEK_SET) < 0 || !write_all(fd, file->memory_base[i], s->bytes))
            return false;
    }
    return lseek(fd, 0, SEEK_SET) == 0 && write_all(fd, file->header, SECTION_ALIGN);
}

void dumpfile_deliver(struct dumpfile *file) {
    char part[1300];
    struct text t;
    if (file->place != PLACE_STAGED && file->place != PLACE_MEMORY)
        return;
    text_begin(&t, part, sizeof part);
    text_add(&t, file->final_path);
    text_add(&t, ".part");
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    struct held_signals held;
    uint32_t state = file->header->state;
    signals_hold(&held);
    file->header->state = state | STATE_COPIED;
    bool copied = copy_sections(file, fd);
    file->header->state = state;
    signals_release(&held);
    copied = close(fd) == 0 && copied && rename(part, file->final_path) == 0;
    if (!copied) {
        unlink(part);
    } else if (file->place == PLACE_STAGED) {
        unlink(file->stub_path);
        unlink(file->path);
    }
}
