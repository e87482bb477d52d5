/* SPDX-License-Identifier: Apache-2.0
 *
 * File systems that a dump may be mapped on: what the library and `commtap doctor` must agree about.
 * Lives here: the list of those whose stores never fault. Must not live here: room for a dump, where it is staged.
 * Header only, for the analyzer uses it, too; nothing but libc's system calls.
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
#ifndef COMMTAP_SHIM_BASE_FILE_SYSTEM_H
#define COMMTAP_SHIM_BASE_FILE_SYSTEM_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#define TMPFS_MAGIC 0x01021994 /* linux/magic.h */
#define EXT_MAGIC   0xEF53     /* ext2, ext3, ext4 */
#define XFS_MAGIC   0x58465342

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

static inline bool xfs_never_shares_blocks(const char *directory) {
    struct xfs_geometry geometry;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool known = ioctl(fd, XFS_GEOMETRY, &geometry) == 0;
    close(fd);
    return known && !(geometry.flags & XFS_REFLINK);
}

/* Whether blocks reserved in `directory` stay the file's own, so that a store into a mapping of them never faults. */
static inline bool file_system_keeps_blocks(const char *directory) {
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

#endif
