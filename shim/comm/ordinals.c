/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of four entries, one cache line each. A set that has evicted once can no longer tell a new channel from a
 * forgotten one; channels entering it then have no ordinal.
 */
#include "shim/comm/ordinals.h"

#include "shim/record/recorder.h"

#define SETS    1024u
#define WAYS    4u
#define UNKNOWN (1u << 31) /* of `next`: the channel may have had earlier messages */

struct ordinal {
    uint64_t channel; /* 0 = free */
    uint32_t next;
    uint32_t victim; /* of way 0: the way to evict next, plus 1; 0 = the set has never evicted */
};

static struct ordinal (*sets)[WAYS];

static uint32_t begun; /* activation that `sets` belongs to */

bool ordinals_begin(void) {
    if (begun == recorder.generation)
        return true;
    sets = os_memory(SETS * sizeof *sets);
    if (sets)
        begun = recorder.generation;
    return sets != NULL;
}

static uint32_t advance(struct ordinal *o) {
    uint32_t ordinal = count_up(&o->next);
    return ordinal & UNKNOWN ? SEQ_NONE : ordinal;
}

static uint32_t enter_channel(struct ordinal *set, uint64_t channel) {
    for (uint32_t i = 0; i < WAYS; i++) {
        uint64_t free = 0;
        if (__atomic_compare_exchange_n(&set[i].channel, &free, channel, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            set[i].next = 1;
            return 0;
        }
    }
    uint32_t way = set[0].victim % WAYS;
    set[0].victim = way + 1;
    set[way].next = UNKNOWN;
    __atomic_store_n(&set[way].channel, channel, __ATOMIC_RELAXED);
    count_loss(&recorder.header->losses.ordinals_evicted);
    return SEQ_NONE;
}

uint32_t ordinal_next_of(uint64_t channel) {
    struct ordinal *set = sets[channel >> 40 & (SETS - 1)];
    for (uint32_t i = 0; i < WAYS; i++)
        if (set[i].channel == channel)
            return advance(&set[i]);
    return enter_channel(set, channel);
}
