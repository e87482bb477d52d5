/* SPDX-License-Identifier: Apache-2.0
 *
 * A store into a mapping is SIGBUS in the job when the file system finds no block for it. Taking a block beforehand
 * prevents that only where it is written in place for good. Copy-on-write file systems write elsewhere each time
 * (btrfs, zfs, bcachefs, f2fs, nilfs), or as soon as the blocks are shared with a copy (xfs made with reflinks, which
 * `cp` makes use of without being asked); overlayfs hides which one is below; for those of a network or of FUSE a
 * store waits for a server. So there is a list of those that are known to be safe, and all others are not mapped.
 *
 * What cannot be seen from here: a device that promises more room than it has (thin provisioning, a loop device on a
 * full file system) or breaks. Stores are then lost later without a fault, unless the file system shuts itself down.
 */
#include "shim/record/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shim/base/os.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define TMPFS_MAGIC 0x01021994 /* linux/magic.h */
#define EXT_MAGIC   0xEF53     /* ext2, ext3, ext4 */
#define XFS_MAGIC   0x58465342

#define INTERRUPTIONS_MAX 100

/* xfs_fs.h: struct xfs_fsop_geom_v4, which every kernel with xfs answers. */
struct xfs_geometry {
    uint32_t sizes[8];
    uint64_t blocks[4];
    uint8_t uuid[16];
    uint32_t stripe[2];
    int32_t version;
    uint32_t flags;
    uint32_t more_sizes[4];
};
_Static_assert(sizeof(struct xfs_geometry) == 112, "as the kernel has it");
#define XFS_GEOMETRY _IOR('X', 124, struct xfs_geometry)
#define XFS_REFLINK  (1u << 20)

static bool xfs_never_shares_blocks(const char *directory) {
    struct xfs_geometry geometry;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool known = ioctl(fd, XFS_GEOMETRY, &geometry) == 0;
    close(fd);
    return known && !(geometry.flags & XFS_REFLINK);
}

bool storage_is_mappable(const char *directory) {
    struct statfs fs;
    if (statfs(directory, &fs) != 0)
        return false;
    switch ((long)fs.f_type) {
    case TMPFS_MAGIC:
    case EXT_MAGIC:
        return true;
    case XFS_MAGIC:
        return xfs_never_shares_blocks(directory);
    default:
        return false;
    }
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
