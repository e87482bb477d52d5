/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a dump may be mapped, and room for it.
 * Lives here: which file systems take a shared mapping whose stores never fault, reservation of blocks.
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

/* Gives the range real blocks, all or none. False with errno set: a full disk, a quota, a limit on the size of files.
 */
bool storage_reserve(int fd, uint64_t offset, uint64_t bytes);

/* Maps a reserved range and touches every page of it now, not in a call of the job. NULL where that fails. */
void *storage_map(int fd, uint64_t offset, uint64_t bytes);

#endif
