/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a dump may be mapped, and room for it.
 * Lives here: which file systems take a shared mapping whose stores never fault, taking blocks.
 * Must not live here: names of dumps, what is done where there is no room.
 */
#ifndef COMMTAP_SHIM_RECORD_STORAGE_H
#define COMMTAP_SHIM_RECORD_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether blocks reserved in `directory` stay the file's own, so that a store into a mapping of them never faults. */
bool storage_is_mappable(const char *directory);

/* The same of the open file, where it is staged: `bytes` more may take an eighth of what is free in memory at most,
 * for NCCL and MPI need that too. */
bool storage_is_shared_fairly(int fd, uint64_t bytes);

/* A new file gets this length and no blocks. False with errno set where it could not have them all: a full disk, a
 * quota, a limit on the size of files. */
bool storage_begin(int fd, uint64_t bytes);

/* Whether the file has that length, or more. */
bool storage_is_as_long(int fd, uint64_t bytes);

/* Makes the file at least that long, a multiple of pages, while others do the same. False with errno set. */
bool storage_extend(int fd, uint64_t bytes);

/* Gives whole pages of the file their blocks. False with errno set; what they held stays. */
bool storage_take(int fd, uint64_t offset, uint64_t bytes);

/* Gives blocks back that nobody stores to any more. */
void storage_give_back(int fd, uint64_t offset, uint64_t bytes);

uint64_t storage_page_bytes(void);

/* Maps a range. Nothing in it may be touched before its pages have blocks; on tmpfs not even to be read, for there a
 * load takes a block, too. NULL where that fails. */
void *storage_map(int fd, uint64_t offset, uint64_t bytes);

enum storage_answer {
    STORAGE_ROOM,
    STORAGE_NO_ROOM,
    STORAGE_NOT_KNOWN, /* the kernel cannot be asked so (before 5.14): storage_take is the way */
};

/* Gives whole pages of a mapping their blocks, as stores would, but that nothing faults where there are none. */
enum storage_answer storage_populate(void *pages, uint64_t bytes);

#endif
