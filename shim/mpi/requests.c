/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/requests.h"

#include <string.h>

#include "shim/base/os.h"

#define SPILL 8u /* buckets looked at after the first */

struct requests requests;

bool requests_begin(void) {
    uint32_t count = recorder.pending_count / REQUEST_KEYS;
    memset(&requests, 0, sizeof requests);
    requests.bucket_mask = count - 1;
    requests.keys = os_memory(recorder.pending_count * sizeof *requests.keys);
    requests.private = os_memory(recorder.pending_count * sizeof *requests.private);
    requests.buckets = os_memory(count);
    if (requests.buckets)
        memset(requests.buckets, BUCKET_NO_ROOM, count);
    return requests.keys && requests.private && requests.buckets;
}

uint32_t request_search(uint32_t home, uintptr_t handle, bool claim) {
    uint32_t bucket = home / REQUEST_KEYS;
    for (uint32_t hop = 0; hop <= SPILL && request_bucket_state(bucket) & BUCKET_SPILLED; hop++) {
        for (uint32_t i = bucket * REQUEST_KEYS; i < (bucket + 1) * REQUEST_KEYS; i++)
            if (__atomic_load_n(request_key(i), __ATOMIC_ACQUIRE) == handle &&
                (!claim || request_claim_key(request_key(i), handle)))
                return i;
        bucket = (bucket + 1) & requests.bucket_mask;
    }
    return REQUEST_NO_ENTRY;
}

/* Are the bucket's entries safe to store to? */
static bool bucket_has_room(uint32_t bucket) {
    if (!(request_bucket_state(bucket) & BUCKET_NO_ROOM))
        return true;
    if (!dumpfile_make_room(&recorder.file, request_entry(bucket * REQUEST_KEYS),
                            REQUEST_KEYS * sizeof(struct pending)))
        return false;
    __atomic_fetch_and(&requests.buckets[bucket], (uint8_t)~BUCKET_NO_ROOM, __ATOMIC_RELEASE);
    return true;
}

static uint32_t take_in_bucket(uint32_t bucket) {
    for (uint32_t i = bucket * REQUEST_KEYS; i < (bucket + 1) * REQUEST_KEYS; i++)
        if (__atomic_load_n(request_key(i), __ATOMIC_RELAXED) == 0 && request_claim_key(request_key(i), 0))
            return i;
    return REQUEST_NO_ENTRY;
}

/* The first key of a bucket brings room for all of them. Where another one is taken instead, every bucket on the way is
 * marked, the one that takes the key too: it is searched through to the end. */
uint32_t request_take_elsewhere(uint32_t home) {
    uint32_t bucket = home / REQUEST_KEYS;
    if (!(request_bucket_state(bucket) & BUCKET_SPILLED) && bucket_has_room(bucket) &&
        request_claim_key(request_key(home), 0))
        return home;
    for (uint32_t hop = 0; hop <= SPILL; hop++, bucket = (bucket + 1) & requests.bucket_mask) {
        __atomic_fetch_or(&requests.buckets[bucket], BUCKET_SPILLED, __ATOMIC_RELAXED);
        uint32_t taken = bucket_has_room(bucket) ? take_in_bucket(bucket) : REQUEST_NO_ENTRY;
        if (taken != REQUEST_NO_ENTRY)
            return taken;
    }
    count_loss(&recorder.header->losses.pending_untracked);
    return REQUEST_NO_ENTRY;
}

void request_learn_shared(uintptr_t handle, uint32_t stale) {
    const struct request_private *p = request_private(stale);
    if (p->traits & REQUEST_SEND && p->waits_before == requests.waits && !request_entry(stale)->persistent)
        __atomic_store_n(request_shared_slot(handle), handle, __ATOMIC_RELAXED);
}
