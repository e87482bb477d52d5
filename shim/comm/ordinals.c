/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of four entries, one cache line each. A set that has evicted once can no longer tell a new channel from a
 * forgotten one; channels entering it then have no ordinal.
 */
#include "shim/comm/ordinals.h"

struct ordinal (*ordinal_sets)[ORDINAL_WAYS];

static uint32_t begun; /* activation that they belong to */

bool ordinals_begin(void) {
    if (begun == recorder.generation)
        return true;
    ordinal_sets = os_memory(ORDINAL_SETS * sizeof *ordinal_sets);
    if (ordinal_sets)
        begun = recorder.generation;
    return ordinal_sets != NULL;
}

static uint32_t enter_channel(struct ordinal *set, uint64_t channel) {
    for (uint32_t i = 0; i < ORDINAL_WAYS; i++) {
        uint64_t free = 0;
        if (__atomic_compare_exchange_n(&set[i].channel, &free, channel, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            set[i].next = 1;
            return 0;
        }
    }
    uint32_t way = set[0].victim % ORDINAL_WAYS;
    set[0].victim = way + 1;
    set[way].next = ORDINAL_UNKNOWN;
    __atomic_store_n(&set[way].channel, channel, __ATOMIC_RELAXED);
    count_loss(&recorder.header->losses.ordinals_evicted);
    return SEQ_NONE;
}

uint32_t ordinal_peek(uint32_t comm, int32_t peer, int32_t tag, bool send) {
    uint64_t channel = ordinal_channel(comm, peer, tag, send);
    const struct ordinal *set = ordinal_sets[channel >> 40 & (ORDINAL_SETS - 1)];
    bool room = false;
    for (uint32_t i = 0; i < ORDINAL_WAYS; i++) {
        if (set[i].channel == channel)
            return set[i].next & ORDINAL_UNKNOWN ? SEQ_NONE : set[i].next;
        room |= set[i].channel == 0;
    }
    return room ? 0 : SEQ_NONE;
}

uint32_t ordinal_next_elsewhere(uint64_t channel) {
    struct ordinal *set = ordinal_sets[channel >> 40 & (ORDINAL_SETS - 1)];
    for (uint32_t i = 0; i < ORDINAL_WAYS; i++)
        if (set[i].channel == channel)
            return ordinal_advance(&set[i]);
    return enter_channel(set, channel);
}
