/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/shared_room.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { ALIGN = 65536, PATH_BYTES = 4096 };
#define MOST  (UINT64_C(1) << 42) /* address space alone: what is behind the file's end is not touched */
#define LEAST (UINT64_C(1) << 26)

struct shared_room {
    int file;
    bool on_disk, writes;
    uint8_t *base;
    uint64_t bytes; /* that are mapped, more than are used */
    pthread_mutex_t lock;
    uint64_t used;
    atomic_uint users;
};

/* All that it may come to at once: its parts then need no mappings of their own. */
static bool map(struct shared_room *room) {
    int protection = room->writes ? PROT_READ | PROT_WRITE : PROT_READ;
    for (room->bytes = MOST; room->bytes >= LEAST; room->bytes /= 2) {
        void *base = mmap(NULL, room->bytes, protection, MAP_SHARED | MAP_NORESERVE, room->file, 0);
        if (base != MAP_FAILED) {
            room->base = base;
            return true;
        }
    }
    return false;
}

static struct shared_room *new_room(int file, bool writes) {
    struct shared_room *room = file >= 0 ? calloc(1, sizeof *room) : NULL;
    if (!room) {
        if (file >= 0)
            close(file);
        return NULL;
    }
    *room = (struct shared_room){.file = file, .writes = writes, .users = 1};
    pthread_mutex_init(&room->lock, NULL);
    if (!map(room)) {
        shared_room_release(room);
        return NULL;
    }
    return room;
}

static bool lies_in_memory(int file) {
    struct statfs status;
    return fstatfs(file, &status) != 0 || (unsigned long)status.f_type == TMPFS_MAGIC ||
           (unsigned long)status.f_type == RAMFS_MAGIC;
}

/* Not every file system has files without a name. */
static int nameless_file(const char *directory) {
    char path[PATH_BYTES];
    int file = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0 || snprintf(path, sizeof path, "%s/commtap-staged-XXXXXX", directory) >= (int)sizeof path)
        return file;
    file = mkostemp(path, O_CLOEXEC);
    if (file >= 0)
        unlink(path);
    return file;
}

struct shared_room *shared_room_make(const char *directory) {
    int file = directory ? nameless_file(directory) : memfd_create("commtap-staged", MFD_CLOEXEC);
    if (directory && file >= 0 && lies_in_memory(file)) {
        close(file);
        return NULL;
    }
    struct shared_room *room = new_room(file, true);
    if (room)
        room->on_disk = directory != NULL;
    return room;
}

struct shared_room *shared_room_open(const char *processes, const struct shared_room_place *place) {
    char path[PATH_BYTES];
    struct stat status;
    snprintf(path, sizeof path, "%s/%" PRId64 "/fd/%" PRId32, processes, place->pid, place->file);
    /* seen from another PID namespace it may be anything, which is not to be touched */
    int found = open(path, O_PATH | O_CLOEXEC), file = -1;
    if (found >= 0 && fstat(found, &status) == 0 && status.st_dev == place->device && status.st_ino == place->inode)
        file = open(path, O_RDONLY | O_CLOEXEC);
    if (found >= 0)
        close(found);
    return new_room(file, false);
}

struct shared_room_place shared_room_place(const struct shared_room *room) {
    struct stat status;
    if (!room || fstat(room->file, &status) != 0)
        return (struct shared_room_place){0};
    return (struct shared_room_place){getpid(), status.st_dev, status.st_ino, room->file, 0};
}

uint64_t shared_room_free_bytes(const struct shared_room *room) {
    struct statvfs status;
    if (!room || !room->on_disk || fstatvfs(room->file, &status) != 0)
        return 0;
    return (uint64_t)status.f_bavail * status.f_frsize;
}

struct shared_room *shared_room_hold(struct shared_room *room) {
    atomic_fetch_add(&room->users, 1);
    return room;
}

void shared_room_release(struct shared_room *room) {
    if (!room || atomic_fetch_sub(&room->users, 1) > 1)
        return;
    if (room->base)
        munmap(room->base, room->bytes);
    close(room->file);
    pthread_mutex_destroy(&room->lock);
    free(room);
}

bool shared_room_take(struct shared_room *room, size_t bytes, uint64_t *offset) {
    uint64_t rounded = ((uint64_t)bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
    pthread_mutex_lock(&room->lock);
    bool done = rounded >= bytes && rounded <= room->bytes - room->used;
    if (!done)
        errno = ENOMEM;
    done = done && ftruncate(room->file, (off_t)(room->used + rounded)) == 0;
    if (done) {
        *offset = room->used;
        room->used += rounded;
    }
    pthread_mutex_unlock(&room->lock);
    return done;
}

bool shared_room_fill(struct shared_room *room, uint64_t from, size_t bytes) {
    errno = bytes > 0 ? posix_fallocate(room->file, (off_t)from, (off_t)bytes) : 0;
    return errno == 0;
}

uint8_t *shared_room_at(const struct shared_room *room, uint64_t offset, size_t bytes) {
    struct stat status;
    bool inside = fstat(room->file, &status) == 0 && offset <= (uint64_t)status.st_size &&
                  bytes <= (uint64_t)status.st_size - offset && offset + bytes <= room->bytes;
    return inside ? room->base + offset : NULL;
}
