/* SPDX-License-Identifier: Apache-2.0
 *
 * Which messages of a channel belong together where its beginning is overwritten.
 * Lives here: what can be, and what cannot be since a launch would have ended.
 * Must not live here: counting, numbers (flight_channels.h).
 *
 * What has ended has ended on both sides, but for members of batches: a batch ends with its last message, so that the
 * other half of one of its members may be over. So as many sends as receives of a channel have ended, give or take
 * those in the batches that both ranks are in. Of what is left only that can be by which each launch that was seen to
 * begin lacks a half: one that lacks none would have ended.
 */
#ifndef COMMTAP_IMPORT_FLIGHT_SHIFTS_H
#define COMMTAP_IMPORT_FLIGHT_SHIFTS_H

#include "analyzer/import/trace.h"

/* A message on its channel. */
struct flight_half {
    uint32_t communicator;
    int32_t from, to;
    bool receive;
    size_t event;
    size_t channel; /* set once all are sorted */
};

/* The halves of a channel: sends are `halves[sends]` up to `receives`, receives from there up to `end`. Those that have
 * not ended are the last ones: from `open_sends`, and from `open_receives`. */
struct flight_channel {
    size_t sends, receives, end, open_sends, open_receives;
    /* How many more sends than receives have ended: one of least .. least + 63, of which bit n of `possible` stands for
     * least + n. One bit: it is known. */
    int64_t least;
    uint64_t possible;
};

struct flight_channels {
    const struct trace *trace;
    struct flight_half *halves; /* by channel */
    size_t half_count;
    struct flight_channel *items;
    size_t count;
    size_t *places; /* by event: index of its half, SIZE_MAX: it is no message */
};

/* Sets what is possible for a channel of which both sides end with what is on record. */
void flight_shifts_bound(const struct flight_channels *channels, struct flight_channel *channel);
/* Takes from all channels what no launch could wait for. False: memory is short. */
bool flight_shifts_narrow(struct flight_channels *channels);

#endif
