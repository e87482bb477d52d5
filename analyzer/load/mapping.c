/* SPDX-License-Identifier: Apache-2.0
 *
 * A file's bytes in memory.
 * Lives here: the guard of mapped files against SIGBUS, the common room for copies.
 * Must not live here: the dump format.
 */
#include "analyzer/load/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "analyzer/archive/archive.h"
#include "analyzer/base/grow.h"
#include "analyzer/base/regular_file.h"

enum {
    ALIGN = 65536,             /* a multiple of every page size, and what sections of dumps are aligned to */
    MAP_COUNT_DEFAULT = 65530, /* the kernel's */
    GUARDS_IN_CHUNK = 1024,
    CHUNKS = 1024,
};

size_t mapping_limit(void) {
    size_t limit = MAP_COUNT_DEFAULT;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (file && fscanf(file, "%zu", &limit) != 1)
        limit = MAP_COUNT_DEFAULT;
    if (file)
        fclose(file);
    return limit;
}

/* ---- the guard ------------------------------------------------------------------------------- */

/* One mapped file. Free while `base` is 0. The handler reads these from any thread at any moment. */
struct guard {
    _Atomic uintptr_t base;
    _Atomic size_t bytes;
    atomic_bool cut;
};

static struct guard *_Atomic chunks[CHUNKS]; /* filled in order, never freed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;
static uintptr_t page_bytes;

static struct guard *guard_at(uintptr_t address) {
    for (size_t c = 0; c < CHUNKS; c++) {
        struct guard *chunk = atomic_load(&chunks[c]);
        for (size_t i = 0; chunk && i < GUARDS_IN_CHUNK; i++) {
            uintptr_t base = atomic_load(&chunk[i].base);
            if (base != 0 && address - base < atomic_load(&chunk[i].bytes))
                return &chunk[i];
        }
        if (!chunk)
            break;
    }
    return NULL;
}

/* All of a file behind the first page that is missing is missing, too. */
static bool put_zeros(struct guard *guard, uintptr_t address) {
    uintptr_t from = address & ~(page_bytes - 1), end = atomic_load(&guard->base) + atomic_load(&guard->bytes);
    atomic_store(&guard->cut, true);
    return mmap((void *)from, end - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) !=
           MAP_FAILED;
}

/* Calls nothing that may not be called in a handler of signals. */
static void on_bus_error(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    int error = errno;
    struct guard *guard = info->si_code == BUS_ADRERR ? guard_at((uintptr_t)info->si_addr) : NULL;
    if (!guard || !put_zeros(guard, (uintptr_t)info->si_addr))
        sigaction(SIGBUS, &before, NULL); /* the instruction runs again, and faults for whoever was there before */
    errno = error;
}

static void install(void) {
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}

static struct guard *find_free(void) {
    for (size_t c = 0; c < CHUNKS; c++) {
        struct guard *chunk = atomic_load(&chunks[c]);
        if (!chunk) {
            chunk = calloc(GUARDS_IN_CHUNK, sizeof *chunk);
            atomic_store(&chunks[c], chunk);
        }
        for (size_t i = 0; chunk && i < GUARDS_IN_CHUNK; i++)
            if (atomic_load(&chunk[i].base) == 0)
                return &chunk[i];
        if (!chunk)
            break;
    }
    return NULL;
}

static struct guard *guard_begin(void *base, size_t bytes) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    pthread_mutex_lock(&lock);
    struct guard *guard = find_free();
    if (guard) {
        atomic_store(&guard->cut, false);
        atomic_store(&guard->bytes, bytes);
        atomic_store(&guard->base, (uintptr_t)base);
    }
    pthread_mutex_unlock(&lock);
    return guard;
}

/* ---- the common room for copies -------------------------------------------------------------- */

/* One mapping for all copies, however many: address space alone, of which pages become memory when they are written. */
static struct {
    uint8_t *base;
    size_t bytes, used;
    size_t open; /* copies in it */
} room;
#define ROOM_BYTES (UINT64_C(1) << 44)

static void *room_take(size_t bytes) {
    void *taken = NULL;
    pthread_mutex_lock(&lock);
    for (uint64_t size = ROOM_BYTES; !room.base && size >= bytes; size /= 2) {
        void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            continue;
        room.base = base;
        room.bytes = size;
        room.used = (size_t)(-(uintptr_t)base & (ALIGN - 1));
    }
    if (room.base && bytes <= room.bytes - room.used) {
        taken = room.base + room.used;
        room.used += bytes;
        room.open++;
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

static void room_give_back(void *base, size_t bytes) {
    madvise(base, bytes, MADV_DONTNEED);
    pthread_mutex_lock(&lock);
    if (--room.open == 0)
        room.used = (size_t)(-(uintptr_t)room.base & (ALIGN - 1));
    pthread_mutex_unlock(&lock);
}

/* Reads what the file holds from `from` up to `to`. Returns how far it came: less where the file has become shorter. */
static size_t read_part(int fd, uint8_t *base, size_t from, size_t to) {
    while (from < to) {
        ssize_t got = pread(fd, base + from, to - from, (off_t)from);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        from += (size_t)got;
    }
    return from;
}

/* ---- holes ----------------------------------------------------------------------------------- */

static bool add_data(struct mapping *mapping, size_t from, size_t to) {
    if (!grow_list(mapping->data, mapping->data_count))
        return false;
    mapping->data[mapping->data_count++] = (struct mapping_data){from, to};
    return true;
}

/* Where the file system does not tell, all of it may hold something. */
static bool find_data(struct mapping *mapping, int fd) {
    size_t bytes = (size_t)mapping->opened.st_size, at = 0;
    mapping->data_count = 0;
    while (at < bytes) {
        off_t data = lseek(fd, (off_t)at, SEEK_DATA);
        if ((data < 0 && errno == ENXIO) || data >= (off_t)bytes)
            break;
        off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        bool known = data >= (off_t)at && hole > data;
        size_t to = known && hole < (off_t)bytes ? (size_t)hole : bytes;
        if (!add_data(mapping, known ? (size_t)data : at, to))
            return false;
        at = to;
    }
    return true;
}

static bool has_holes(const struct mapping *mapping) {
    return mapping->data_count != 1 || mapping->data[0].from > 0 ||
           mapping->data[0].to < (size_t)mapping->opened.st_size;
}

size_t mapping_data_bytes(const struct mapping *mapping, size_t offset, size_t bytes) {
    size_t last = offset;
    for (size_t i = 0; i < mapping->data_count && mapping->data[i].from < offset + bytes; i++)
        last = mapping->data[i].to > last ? mapping->data[i].to : last;
    return last - offset < bytes ? last - offset : bytes;
}

/* ---- a file ---------------------------------------------------------------------------------- */

/* Holes stay pages that nobody wrote: they cost no memory. Returns how much of `bytes` is there: less where the file
 * has become shorter. */
static size_t read_data(const struct mapping *mapping, int fd, size_t bytes) {
    for (size_t i = 0; i < mapping->data_count; i++) {
        size_t to = mapping->data[i].to < bytes ? mapping->data[i].to : bytes;
        size_t read = mapping->data[i].from < to ? read_part(fd, mapping->base, mapping->data[i].from, to) : to;
        if (read < to)
            return read;
    }
    return bytes;
}

/* Room of its own for all of the file. */
static bool reserve(struct mapping *mapping) {
    size_t bytes = (size_t)mapping->opened.st_size, reserved = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    mapping->way = MAPPING_COPIED;
    if (bytes > ROOM_BYTES || !(mapping->base = room_take(reserved))) {
        errno = ENOMEM;
        return false;
    }
    mapping->reserved = reserved;
    mapping->bytes = bytes;
    return true;
}

/* Room for all of the file in one that others read, too, where its data can be written. */
static bool reserve_among(struct mapping *mapping, struct shared_room *room) {
    size_t bytes = (size_t)mapping->opened.st_size;
    bool done = shared_room_take(room, bytes, &mapping->offset);
    for (size_t i = 0; done && i < mapping->data_count; i++)
        done = shared_room_fill(room, mapping->offset + mapping->data[i].from,
                                mapping->data[i].to - mapping->data[i].from);
    mapping->base = done ? shared_room_at(room, mapping->offset, bytes) : NULL;
    if (!mapping->base)
        return false;
    mapping->way = MAPPING_KEPT;
    mapping->room = shared_room_hold(room);
    mapping->bytes = bytes;
    return true;
}

static bool copy_file(struct mapping *mapping, int fd) {
    if (!reserve(mapping))
        return false;
    mapping->bytes = read_data(mapping, fd, mapping->bytes);
    return true;
}

static bool lies_in_memory(int fd) {
    struct statfs status;
    return fstatfs(fd, &status) == 0 && (unsigned long)status.f_type == TMPFS_MAGIC;
}

/* Where a file is mostly holes, reading around a fault would fill page after page of them with zeros: the kernel is
 * told which parts there are instead. All of the mapping is advised at once: advice on parts splits it. */
static void read_data_only(struct mapping *mapping) {
    size_t there = 0;
    for (size_t i = 0; i < mapping->data_count; i++)
        there += mapping->data[i].to - mapping->data[i].from;
    mapping->sparse = there < mapping->bytes / 2;
    if (!mapping->sparse)
        return;
    madvise(mapping->base, mapping->bytes, MADV_RANDOM);
    for (size_t i = 0; i < mapping->data_count; i++) {
        size_t from = mapping->data[i].from & ~(size_t)(page_bytes - 1);
        madvise(mapping->base + from, mapping->data[i].to - from, MADV_WILLNEED);
    }
}

static bool share_file(struct mapping *mapping, int fd) {
    size_t bytes = (size_t)mapping->opened.st_size;
    void *base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return false;
    mapping->guard = guard_begin(base, bytes);
    if (!mapping->guard) {
        munmap(base, bytes);
        errno = ENOMEM;
        return false;
    }
    mapping->base = base;
    mapping->bytes = bytes;
    read_data_only(mapping);
    return true;
}

static bool map_file(struct mapping *mapping, int fd, char *reason, size_t reason_size) {
    if (fd < 0 || fstat(fd, &mapping->opened) != 0)
        snprintf(reason, reason_size, "cannot open: %s", regular_file_error(errno));
    else if (mapping->opened.st_size == 0)
        snprintf(reason, reason_size, "is empty");
    else if (!find_data(mapping, fd))
        snprintf(reason, reason_size, "cannot read: %s", strerror(ENOMEM));
    else if (mapping->way == MAPPING_COPIED || (has_holes(mapping) && lies_in_memory(fd)) ? !copy_file(mapping, fd)
                                                                                          : !share_file(mapping, fd))
        snprintf(reason, reason_size, "cannot %s: %s", mapping->way == MAPPING_COPIED ? "read" : "map",
                 strerror(errno));
    return mapping->base != NULL;
}

/* ---- a file in an archive ---------------------------------------------------------------------- */

static bool unpack(struct mapping *mapping, struct archive *archive, const struct archive_entry *entry,
                   struct shared_room *room) {
    struct archive_extent *extents = archive_extents(archive, entry);
    bool done = extents != NULL;
    mapping->opened = archive->status;
    mapping->opened.st_size = (off_t)entry->size;
    for (uint32_t i = 0; done && i < entry->extent_count; i++)
        done = add_data(mapping, extents[i].from, extents[i].to);
    if (!done)
        errno = ENOMEM;
    if (extents && !(done && (room ? reserve_among(mapping, room) : reserve(mapping)))) {
        snprintf(archive->reason, sizeof archive->reason, "cannot unpack: %s", strerror(errno));
        done = false;
    }
    done = done && archive_read(archive, entry, extents, mapping->base);
    free(extents);
    return done;
}

/* Of what cannot be unpacked as a whole nothing is used: its checksum tells only about all of it. */
static bool open_packed(struct mapping *mapping, const char *path, const char *name, char *reason, size_t reason_size) {
    struct archive archive;
    struct archive_entry entry;
    bool done = archive_open(&archive, AT_FDCWD, path, 0);
    if (done && !*name)
        done = archive_check_index(&archive);
    else if (done)
        done = archive_find(&archive, name, &entry) && entry.size > 0 && unpack(mapping, &archive, &entry, NULL);
    snprintf(reason, reason_size, "%s", archive.reason[0] ? archive.reason : "is empty");
    archive_close(&archive);
    if (!done)
        mapping_close(mapping);
    return done && *name;
}

bool mapping_open_sent(struct mapping *mapping, int file, struct shared_room *room, char *reason, size_t reason_size) {
    struct archive archive;
    struct archive_entry entry;
    *mapping = (struct mapping){.way = MAPPING_COPIED};
    bool done = archive_open_file(&archive, file) && archive_check_index(&archive) && archive.count == 1 &&
                archive_entry_at(&archive, 0, &entry) && entry.size > 0 && unpack(mapping, &archive, &entry, room);
    snprintf(reason, reason_size, "%s", archive.reason[0] ? archive.reason : "is empty");
    archive_close(&archive);
    if (!done)
        mapping_close(mapping);
    return done;
}

void mapping_parcel(struct mapping *mapping, struct shared_room *room, struct parcel *parcel) {
    parcel_field(parcel, &mapping->offset);
    parcel_field(parcel, &mapping->bytes);
    parcel_field(parcel, &mapping->opened);
    parcel_list(parcel, mapping->data, mapping->data_count);
    if (parcel->packs || parcel->failed)
        return;
    mapping->way = MAPPING_KEPT;
    mapping->base = shared_room_at(room, mapping->offset, mapping->bytes);
    if (mapping->base)
        mapping->room = shared_room_hold(room);
    else
        parcel->failed = true;
}

bool mapping_open(struct mapping *mapping, const char *path, enum mapping_way way, char *reason, size_t reason_size) {
    char archive[ARCHIVE_PATH_BYTES];
    const char *name;
    *mapping = (struct mapping){.way = way};
    if (archive_path_part(path, archive, &name))
        return open_packed(mapping, archive, name, reason, reason_size);
    int fd = regular_file_open(AT_FDCWD, path, 0);
    bool done = map_file(mapping, fd, reason, reason_size);
    if (fd >= 0)
        close(fd);
    return done;
}

/* The part of a stretch of data that lies in `part`; empty: none does. */
static struct mapping_data data_within(struct mapping_data data, const struct mapping_data *part) {
    data.from = data.from > part->from ? data.from : part->from;
    data.to = data.to < part->to ? data.to : part->to;
    return data;
}

/* What was dropped need not come back: it would take memory again for nothing. */
static void read_but_dropped(const struct mapping *mapping, int fd, struct mapping_data data) {
    size_t at = data.from, end = data.to < mapping->bytes ? data.to : mapping->bytes;
    for (size_t i = 0; i < mapping->dropped_count && at < end; i++) {
        const struct mapping_data *dropped = &mapping->dropped[i];
        if (dropped->to <= at)
            continue;
        if (dropped->from > at)
            read_part(fd, mapping->base, at, dropped->from < end ? dropped->from : end);
        at = dropped->to;
    }
    read_part(fd, mapping->base, at, end);
}

void mapping_reread_parts(struct mapping *mapping, const char *path, const struct mapping_data *parts, size_t count) {
    struct stat now;
    if (!mapping->base || mapping->way != MAPPING_COPIED)
        return;
    int fd = regular_file_open(AT_FDCWD, path, 0);
    if (fd >= 0 && fstat(fd, &now) == 0 && now.st_dev == mapping->opened.st_dev &&
        now.st_ino == mapping->opened.st_ino && find_data(mapping, fd))
        for (size_t p = 0; p < count; p++)
            for (size_t i = 0; i < mapping->data_count; i++)
                read_but_dropped(mapping, fd, data_within(mapping->data[i], &parts[p]));
    if (fd >= 0)
        close(fd);
}

void mapping_reread(struct mapping *mapping, const char *path) {
    mapping_reread_parts(mapping, path, &(struct mapping_data){0, mapping->bytes}, 1);
}

void mapping_drop(struct mapping *mapping, size_t offset, size_t bytes) {
    if (!mapping->base || mapping->way != MAPPING_COPIED || offset >= mapping->bytes || bytes == 0)
        return;
    bytes = bytes < mapping->bytes - offset ? bytes : mapping->bytes - offset;
    madvise(mapping->base + offset, bytes, MADV_DONTNEED);
    if (!grow_list(mapping->dropped, mapping->dropped_count)) /* it is read again then */
        return;
    size_t at = mapping->dropped_count++;
    for (; at > 0 && mapping->dropped[at - 1].from > offset; at--)
        mapping->dropped[at] = mapping->dropped[at - 1];
    mapping->dropped[at] = (struct mapping_data){offset, offset + bytes};
}

bool mapping_has_grown(const struct mapping *mapping, const char *path) {
    struct stat now;
    return mapping->base && stat(path, &now) == 0 && now.st_dev == mapping->opened.st_dev &&
           now.st_ino == mapping->opened.st_ino && now.st_blocks > mapping->opened.st_blocks;
}

void mapping_close(struct mapping *mapping) {
    if (mapping->guard)
        atomic_store(&mapping->guard->base, 0);
    if (mapping->base && mapping->way == MAPPING_COPIED)
        room_give_back(mapping->base, mapping->reserved);
    else if (mapping->way == MAPPING_KEPT)
        shared_room_release(mapping->room);
    else if (mapping->base)
        munmap(mapping->base, mapping->bytes);
    free(mapping->data);
    free(mapping->dropped);
    *mapping = (struct mapping){0};
}

/* ---- changes --------------------------------------------------------------------------------- */

enum mapping_change mapping_change(const struct mapping *mapping, const char *path) {
    struct stat now;
    const struct stat *then = &mapping->opened;
    if (mapping->guard && atomic_load(&mapping->guard->cut))
        return MAPPING_TRUNCATED;
    if (!mapping->base || stat(path, &now) != 0 || now.st_dev != then->st_dev || now.st_ino != then->st_ino)
        return MAPPING_UNCHANGED;
    if (now.st_size < then->st_size)
        return MAPPING_TRUNCATED;
    bool later = now.st_mtim.tv_sec != then->st_mtim.tv_sec || now.st_mtim.tv_nsec != then->st_mtim.tv_nsec;
    return later ? MAPPING_OVERWRITTEN : MAPPING_UNCHANGED;
}
