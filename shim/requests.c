/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of requests.h: buckets of eight keys, one cache line, apart from the entries they stand for; a full
 * bucket spills into the next few.
 */
#include "shim/requests.h"

#include "shim/os.h"
#include "shim/recorder.h"

#define KEYS  8u
#define SPILL 8u /* buckets looked at after the first */
#define BUSY  1u /* key of an entry that one thread works on; no library has a handle 1 */

struct bucket {
    uintptr_t keys[KEYS];
};

static struct bucket *buckets;
static struct request_private *private_part;
static uint8_t *spilled; /* per bucket: keys that belong here may stand further on */
static uint32_t bucket_count;
uint32_t requests_wildcards;

#define SHARED 16u
static uintptr_t shared_handles[SHARED];
static uint32_t waits;

bool requests_begin(void) {
    bucket_count = recorder.pending_count / KEYS;
    buckets = os_memory(bucket_count * sizeof *buckets);
    private_part = os_memory(recorder.pending_count * sizeof *private_part);
    spilled = os_memory(bucket_count);
    requests_wildcards = waits = 0;
    for (uint32_t i = 0; i < SHARED; i++)
        shared_handles[i] = 0;
    return buckets && private_part && spilled;
}

struct pending *request_entry(uint32_t index) {
    return &recorder.pending[index];
}

struct request_private *request_private(uint32_t index) {
    return &private_part[index];
}

static uint32_t home(uintptr_t handle) {
    return (uint32_t)((handle ^ handle >> 31) * 0x9e3779b97f4a7c15u >> 40) & (bucket_count - 1);
}

void requests_note_wait(void) {
    count_up(&waits);
}

static uintptr_t *shared_slot(uintptr_t handle) {
    return &shared_handles[(handle ^ handle >> 7 ^ handle >> 13) % SHARED];
}

bool request_is_shared(uintptr_t handle) {
    return __atomic_load_n(shared_slot(handle), __ATOMIC_RELAXED) == handle;
}

void request_learn_shared(uintptr_t handle, uint32_t stale) {
    if (private_part[stale].send && private_part[stale].waits_before == waits && !recorder.pending[stale].persistent)
        __atomic_store_n(shared_slot(handle), handle, __ATOMIC_RELAXED);
}

static bool claim_key(uintptr_t *key, uintptr_t expected) {
    if (!recorder.multithreaded) {
        if (*key != expected)
            return false;
        *key = BUSY;
        return true;
    }
    return __atomic_compare_exchange_n(key, &expected, BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static uint32_t search(uint32_t b, uintptr_t handle, bool claim) {
    for (uint32_t hop = 0; hop <= SPILL; hop++, b = (b + 1) & (bucket_count - 1)) {
        uintptr_t *keys = buckets[b].keys;
        for (uint32_t i = 0; i < KEYS; i++)
            if (unlikely(__atomic_load_n(&keys[i], __ATOMIC_ACQUIRE) == handle) &&
                (!claim || claim_key(&keys[i], handle)))
                return b * KEYS + i;
        if (!spilled[b])
            break;
    }
    return REQUEST_NO_ENTRY;
}

uint32_t request_find(uintptr_t handle) {
    return search(home(handle), handle, false);
}

uint32_t request_claim(uintptr_t handle) {
    return search(home(handle), handle, true);
}

static uint32_t take_free(uint32_t b) {
    for (uint32_t hop = 0; hop <= SPILL; hop++, b = (b + 1) & (bucket_count - 1)) {
        for (uint32_t i = 0; i < KEYS; i++)
            if (buckets[b].keys[i] == 0 && claim_key(&buckets[b].keys[i], 0))
                return b * KEYS + i;
        spilled[b] = 1;
    }
    count_loss(&recorder.header->losses.pending_untracked);
    return REQUEST_NO_ENTRY;
}

uint32_t request_take(uintptr_t handle, uint32_t *stale) {
    uint32_t b = home(handle);
    *stale = search(b, handle, true);
    return take_free(b);
}

void request_publish(uint32_t index, uintptr_t handle) {
    private_part[index].waits_before = waits;
    __atomic_store_n(&recorder.pending[index].request, handle, __ATOMIC_RELEASE);
    __atomic_store_n(&buckets[index / KEYS].keys[index % KEYS], handle, __ATOMIC_RELEASE);
}

void request_release(uint32_t index) {
    __atomic_store_n(&recorder.pending[index].request, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&buckets[index / KEYS].keys[index % KEYS], 0, __ATOMIC_RELEASE);
}
