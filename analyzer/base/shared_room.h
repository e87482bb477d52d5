/* SPDX-License-Identifier: Apache-2.0
 *
 * Room for bytes that the processes of a host read together: a file without a name, in memory or on a disk, that one of
 * them fills and all of them map. It is gone when the last of them has closed it, however they end.
 * Lives here: making it, finding another process's, taking parts of it. Must not live here: what the bytes mean
 * (load/mapping.h), who shares with whom (dumps/staged.h).
 */
#ifndef COMMTAP_BASE_SHARED_ROOM_H
#define COMMTAP_BASE_SHARED_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shared_room;

/* By which another process of this host finds it. */
struct shared_room_place {
    int64_t pid;
    uint64_t device, inode; /* 0 and 0: there is none */
    int32_t file, zero;
};

/* An empty one: in memory where `directory` is NULL, else in a file on the disk that it is on. NULL where it cannot be
 * made, and for a directory that itself lies in memory. Given back with shared_room_release. */
struct shared_room *shared_room_make(const char *directory);
/* One that another process has made, to read it. `processes`: where the kernel tells of processes, /proc. NULL where
 * that process or its files cannot be seen from here. */
struct shared_room *shared_room_open(const char *processes, const struct shared_room_place *place);
struct shared_room_place shared_room_place(const struct shared_room *room); /* of NULL: none */
/* Bytes that are free where it lies on a disk; 0 for one in memory, and for NULL. */
uint64_t shared_room_free_bytes(const struct shared_room *room);

/* A user more, and one less: the last one closes it. NULL is accepted by the second. */
struct shared_room *shared_room_hold(struct shared_room *room);
void shared_room_release(struct shared_room *room);

/* Takes the next `bytes` of it, which read as zeros; *offset is a multiple of 64 KiB. Any thread may call this, in the
 * process that made it. False with errno. */
bool shared_room_take(struct shared_room *room, size_t bytes, uint64_t *offset);
/* Makes sure that [from, from + bytes) can be written. False with errno: ENOSPC where there is no room left. */
bool shared_room_fill(struct shared_room *room, uint64_t from, size_t bytes);
/* Where that part is in this process's memory; NULL: it is not all in the room. */
uint8_t *shared_room_at(const struct shared_room *room, uint64_t offset, size_t bytes);

#endif
