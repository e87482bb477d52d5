/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in's wire: one POSIX shared-memory segment per communicator, named by a hash of its unique id.
 * Lives here: joining, exchanging a few bytes between all members, and a pipe of bounded chunks per ordered pair of
 * ranks. There is no lock in the segment: every word has one writer, or is only ever added to, so a rank killed at any
 * instruction leaves nothing half done; the others merely wait for it, as on the real library. Must not live here: what
 * the bytes mean.
 */
#ifndef STANDIN_NCCL_SEGMENT_H
#define STANDIN_NCCL_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEGMENT_EXCHANGE_BYTES 160 /* most that one member gives to an exchange */
#define SEGMENT_MAX_RANKS      512

struct segment;

/* Attaches rank `rank` of `ranks` to the segment of `id` (a hash), creating it where it is the first.
 * NULL where shared memory cannot be had. Waits for nobody. */
struct segment *segment_join(uint64_t id, int rank, int ranks);
/* Have all ranks joined? From then on the name is gone from the file system. */
bool segment_complete(struct segment *s);
void segment_leave(struct segment *s);

/* Round after round, each member gives `bytes` (at most SEGMENT_EXCHANGE_BYTES) and then sees those of all.
 * give() starts a round; all_given() says whether every member has; given() is what `rank` gave in the current round.
 */
void segment_give(struct segment *s, const void *data, size_t bytes);
bool segment_all_given(struct segment *s);
const void *segment_given(struct segment *s, int rank);

/* Pipes. A message is a sequence of chunks of the same tag; a receiver that expects another tag sees nothing, so that a
 * mismatched operation hangs. */
size_t segment_chunk_bytes(const struct segment *s);
/* Room for one chunk to `to`, or NULL. Fill it, then push. */
void *segment_room(struct segment *s, int to);
/* Sends the chunk of segment_room; it becomes visible to the receiver at `arrives` (CLOCK_MONOTONIC, ns; 0 = at once).
 */
void segment_push(struct segment *s, int to, uint64_t tag, size_t bytes, uint64_t arrives);
/* The oldest chunk from `from` where it has arrived and carries `tag`, else NULL. A chunk still under way lowers *wake
 * to its time of arrival. */
const void *segment_peek(struct segment *s, int from, uint64_t tag, size_t *bytes, uint64_t *wake);
void segment_pop(struct segment *s, int from);

/* Sleep until a peer has moved one of this rank's pipes since bell() was read, or until `wake` (ns), at most 20 ms. */
uint32_t segment_bell(struct segment *s);
void segment_wait(struct segment *s, uint32_t seen, uint64_t wake);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t monotonic_ns(void);

#endif
