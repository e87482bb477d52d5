/* SPDX-License-Identifier: Apache-2.0
 *
 * Point-to-point ordinals: the how-manieth message a send or receive is in its channel (communicator, direction,
 * partner, tag). Fixed in size: jobs with unique tags must not make it grow, what is evicted is unknown from then on.
 */
#ifndef COMMTAP_SHIM_COMM_ORDINALS_H
#define COMMTAP_SHIM_COMM_ORDINALS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/base/os.h"
#include "shim/record/recorder.h"

#define ORDINAL_SETS    1024u
#define ORDINAL_WAYS    4u
#define ORDINAL_UNKNOWN (1u << 31) /* of `next`: the channel may have had earlier messages */

struct ordinal {
    uint64_t channel; /* 0 = free */
    uint32_t next;
    uint32_t victim; /* of way 0: the way to evict next, plus 1; 0 = the set has never evicted */
};

extern struct ordinal (*ordinal_sets)[ORDINAL_WAYS];

/* Once per activation; further calls find it done. False when there is no memory. */
bool ordinals_begin(void);

/* A channel as one number, never 0. */
static inline uint64_t ordinal_channel(uint32_t comm, int32_t peer, int32_t tag, bool send) {
    return hash_combine((uint64_t)comm << 1 | send, (uint64_t)(uint32_t)peer << 32 | (uint32_t)tag) | 1;
}

/* The slow half of ordinal_next_of: not the first of its set. */
uint32_t ordinal_next_elsewhere(uint64_t channel);

static inline uint32_t ordinal_advance(struct ordinal *o) {
    uint32_t ordinal = count_up(&o->next);
    return unlikely(ordinal & ORDINAL_UNKNOWN) ? SEQ_NONE : ordinal;
}

/* The next ordinal of a channel (0, 1, ...), or SEQ_NONE when the channel was evicted since it was first seen. */
static inline uint32_t ordinal_next_of(uint64_t channel) {
    struct ordinal *first = ordinal_sets[channel >> 40 & (ORDINAL_SETS - 1)];
    return likely(first->channel == channel) ? ordinal_advance(first) : ordinal_next_elsewhere(channel);
}

static inline uint32_t ordinal_next(uint32_t comm, int32_t peer, int32_t tag, bool send) {
    return ordinal_next_of(ordinal_channel(comm, peer, tag, send));
}

/* What ordinal_next would give, which it goes on to give. */
uint32_t ordinal_peek(uint32_t comm, int32_t peer, int32_t tag, bool send);

#endif
