/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shim/base/file_system.h"
#include "shim/base/os.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define INTERRUPTIONS_MAX 100

bool storage_is_mappable(const char *directory) {
    return file_system_keeps_blocks(directory);
}

bool storage_is_shared_fairly(int fd, uint64_t bytes) {
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return false;
    return (long)fs.f_type != TMPFS_MAGIC || bytes <= (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize / 8;
}

/* tmpfs of older kernels gives up at any signal, such as those of a profiler's timer. */
static bool allocate_blocks(int fd, uint64_t offset, uint64_t bytes) {
    for (int i = 0; i < INTERRUPTIONS_MAX; i++) {
        if (fallocate(fd, 0, (off_t)offset, (off_t)bytes) == 0)
            return true;
        if (errno != EINTR)
            return false;
    }
    return false;
}

bool storage_take(int fd, uint64_t offset, uint64_t bytes) {
    struct held_signals held;
    signals_hold(&held);
    bool taken = allocate_blocks(fd, offset, bytes);
    signals_release(&held);
    return taken;
}

void storage_give_back(int fd, uint64_t offset, uint64_t bytes) {
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

/* Only taking all of the blocks shows what quotas and limits allow. */
bool storage_begin(int fd, uint64_t bytes) {
    struct held_signals held;
    signals_hold(&held);
    bool begun = allocate_blocks(fd, 0, bytes) && ftruncate(fd, 0) == 0 && ftruncate(fd, (off_t)bytes) == 0;
    signals_release(&held);
    return begun;
}

bool storage_is_as_long(int fd, uint64_t bytes) {
    struct stat status;
    return os_fstat(fd, &status) && (uint64_t)status.st_size >= bytes;
}

/* By a block at its end: ftruncate would cut off what another thread has just added behind it. */
bool storage_extend(int fd, uint64_t bytes) {
    uint64_t page = storage_page_bytes();
    return storage_is_as_long(fd, bytes) || storage_take(fd, bytes - page, page);
}

uint64_t storage_page_bytes(void) {
    static uint64_t bytes;
    if (!bytes)
        bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    return bytes;
}

void *storage_map(int fd, uint64_t offset, uint64_t bytes) {
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    return mapping == MAP_FAILED ? NULL : mapping;
}

enum storage_answer storage_populate(void *pages, uint64_t bytes) {
    if (madvise(pages, bytes, MADV_POPULATE_WRITE) == 0)
        return STORAGE_ROOM;
    return errno == EINVAL ? STORAGE_NOT_KNOWN : STORAGE_NO_ROOM; /* EFAULT: a store would have been SIGBUS */
}
