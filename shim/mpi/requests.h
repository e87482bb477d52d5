/* SPDX-License-Identifier: Apache-2.0
 *
 * Pending operations: posted, not yet seen complete. Handle -> entry of SECTION_PENDING.
 * A handle that is handed out again proves that the operation it stood for is complete. Libraries also have handles
 * that they hand out over and over, for operations that were complete when posted (eager sends); these are learnt.
 * Handles freed by Request_free leave the table at once.
 * Lives here: the table: buckets of eight keys, one cache line, apart from the entries they stand for; a key has a
 * place of its own in its bucket, and only a bucket that had to put one elsewhere is searched further.
 * Must not live here: what a Wait means.
 */
#ifndef COMMTAP_REQUESTS_H
#define COMMTAP_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/format.h"
#include "shim/mpi/mpi_communicators.h"
#include "shim/record/recorder.h"

#define REQUEST_NO_ENTRY UINT32_MAX
#define REQUEST_KEYS     8u
#define REQUEST_BUSY     1u /* key of an entry that one thread works on; no library has a handle 1 */
#define REQUEST_SHARED   16u

enum request_trait {
    REQUEST_SEND = 1u << 0,
    REQUEST_RECEIVE = 1u << 1,
    REQUEST_COLLECTIVE = 1u << 2,
    REQUEST_CREATES = 1u << 3, /* a communicator, at completion */
    REQUEST_CANCELLED = 1u << 4,
};

enum bucket_state {
    BUCKET_SPILLED = 1u << 0, /* keys that belong here may stand elsewhere */
    BUCKET_NO_ROOM = 1u << 1, /* never used: the entries may have no room in the dump yet */
};

/* What the dump does not hold of a pending operation. */
struct request_private {
    struct communicator *comm;
    uint64_t cached_serial; /* of the posting thread's `cached`, 0 = it has none */
    uint32_t cached;        /* cached_call_offset */
    uint32_t waits_before;  /* Wait and Test calls of the process when it was posted */
    uint16_t traits;        /* enum request_trait */
    uint16_t starting_call; /* Start or Startall, 0 for requests that are no persistent ones */
    uint8_t peer_class;
    uint8_t topology;

    uint32_t ordinal; /* of a creation; of persistent collectives: starts so far */
    /* persistent requests: number, size, partner and tag as prepared, whatever the last start matched */
    uint32_t prepared_seq;
    uint64_t posted_bytes;
    int32_t any_peer;
    int32_t any_tag;
    uintptr_t output; /* creations: where the new handle will stand */
};
_Static_assert(sizeof(struct request_private) == 64, "a cache line");

struct requests {
    uintptr_t *keys; /* REQUEST_KEYS of them are a bucket */
    struct request_private *private;
    uint8_t *buckets; /* enum bucket_state, per bucket */
    uint32_t bucket_mask;
    uint32_t waits;     /* Wait and Test calls so far */
    uint32_t wildcards; /* posted receives with a wildcard: while there are any, ignored statuses are replaced */
    uintptr_t shared[REQUEST_SHARED];
};
extern struct requests requests;

bool requests_begin(void);

static inline struct pending *request_entry(uint32_t index) {
    return &recorder.pending[index];
}

static inline struct request_private *request_private(uint32_t index) {
    return &requests.private[index];
}

static inline uintptr_t *request_key(uint32_t index) {
    return &requests.keys[index];
}

/* The entry a handle has by right: its bucket, and its place in it. */
static inline uint32_t request_home(uintptr_t handle) {
    uint64_t h = hash_spread(handle ^ handle >> 31);
    return (uint32_t)(h >> 37) & (requests.bucket_mask * REQUEST_KEYS + REQUEST_KEYS - 1);
}

static inline bool request_claim_key(uintptr_t *key, uintptr_t expected) {
    if (unlikely(recorder.multithreaded)) {
        uintptr_t seen = expected;
        return __atomic_compare_exchange_n(key, &seen, REQUEST_BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    }
    if (*key != expected)
        return false;
    *key = REQUEST_BUSY;
    return true;
}

/* enum bucket_state. Where it is 0, all entries of the bucket are safe to store to, and stand where they belong. */
static inline uint8_t request_bucket_state(uint32_t bucket) {
    return __atomic_load_n(&requests.buckets[bucket], __ATOMIC_ACQUIRE);
}

/* What is not in its place may be elsewhere only where a bucket was too small. */
static inline bool request_may_be_elsewhere(uint32_t home) {
    return request_bucket_state(home / REQUEST_KEYS) & BUCKET_SPILLED;
}

/* Slow halves. */
uint32_t request_search(uint32_t home, uintptr_t handle, bool claim);
uint32_t request_take_elsewhere(uint32_t home);

/* Finds the entry of a handle, leaving it in the table. */
static inline uint32_t request_find(uintptr_t handle) {
    uint32_t home = request_home(handle);
    if (likely(__atomic_load_n(request_key(home), __ATOMIC_ACQUIRE) == handle))
        return home;
    return likely(!request_may_be_elsewhere(home)) ? REQUEST_NO_ENTRY : request_search(home, handle, false);
}

/* Finds it and takes it out of reach of other threads; the caller finishes with request_release or request_publish. */
static inline uint32_t request_claim(uintptr_t handle) {
    uint32_t home = request_home(handle);
    if (likely(request_claim_key(request_key(home), handle)))
        return home;
    return likely(!request_may_be_elsewhere(home)) ? REQUEST_NO_ENTRY : request_search(home, handle, true);
}

/* Takes a free entry for `handle`. *stale is the entry that held the same handle, to be completed by the caller, or
 * REQUEST_NO_ENTRY. Returns REQUEST_NO_ENTRY when the table is full (counted). The entry is private to the caller
 * until request_publish. */
static inline uint32_t request_take(uintptr_t handle, uint32_t *stale) {
    uint32_t home = request_home(handle);
    *stale = REQUEST_NO_ENTRY;
    if (likely(!request_bucket_state(home / REQUEST_KEYS) && request_claim_key(request_key(home), 0)))
        return home;
    *stale = request_claim(handle);
    return request_take_elsewhere(home);
}

static inline void request_publish(uint32_t index, uintptr_t handle) {
    __atomic_store_n(&request_entry(index)->request, handle, __ATOMIC_RELEASE);
    __atomic_store_n(request_key(index), handle, __ATOMIC_RELEASE);
}

static inline void request_release(uint32_t index) {
    __atomic_store_n(&request_entry(index)->request, 0, __ATOMIC_RELEASE);
    __atomic_store_n(request_key(index), 0, __ATOMIC_RELEASE);
}

static inline uintptr_t *request_shared_slot(uintptr_t handle) {
    return &requests.shared[(handle ^ handle >> 7 ^ handle >> 13) % REQUEST_SHARED];
}

/* True for handles that a library hands out for operations complete when posted. */
static inline bool request_is_shared(uintptr_t handle) {
    return __atomic_load_n(request_shared_slot(handle), __ATOMIC_RELAXED) == handle;
}

/* `handle` was handed out while the entry `stale` still held it: learns it as shared when nothing can have completed
 * that entry in between. Only sends can be complete when posted. */
void request_learn_shared(uintptr_t handle, uint32_t stale);

#endif
