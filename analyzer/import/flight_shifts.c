/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/flight_shifts.h"

#include <stdlib.h>

enum { SHIFTS_MOST = 63 }; /* on one side: as many members of a batch go to one rank */

static const struct trace_event *event_of(const struct flight_channels *c, size_t half) {
    return &c->trace->events[c->halves[half].event];
}

/* Whether a launch that has not ended was seen to begin. */
static bool has_begun(const struct trace_event *event) {
    return event->state == TRACE_STARTED;
}

/* A rank whose recorder notes starts has not begun what has none. */
static bool has_not_begun(const struct flight_channels *c, const struct trace_event *event) {
    return event->state == TRACE_POSTED && c->trace->ranks[event->rank].tells_start && !event->ordinal_unknown;
}

/* How many messages from `open` up to `end`, one side of a channel, may be over though their batch is not: those of its
 * first one that has not ended. Their other halves are the last ones of the `ended` that the other side has on record.
 */
static int64_t count_loose(const struct flight_channels *c, size_t open, size_t end, size_t ended) {
    int64_t count = 0;
    if (open == end || !event_of(c, open)->grouped || has_not_begun(c, event_of(c, open)))
        return 0;
    for (size_t i = open; i < end && event_of(c, i)->launch == event_of(c, open)->launch; i++)
        count += count < (int64_t)ended;
    return count;
}

void flight_shifts_bound(const struct flight_channels *c, struct flight_channel *channel) {
    int64_t sends = count_loose(c, channel->open_sends, channel->receives, channel->open_receives - channel->receives);
    int64_t receives = count_loose(c, channel->open_receives, channel->end, channel->open_sends - channel->sends);
    bool few = sends + receives <= SHIFTS_MOST;
    channel->least = few ? -sends : 0;
    channel->possible = few ? UINT64_MAX >> (SHIFTS_MOST - (sends + receives)) : 0;
}

/* Whether the other half of a message is known to have begun, or to have ended, where so many more sends than receives
 * have. Halves of different sizes may both have begun, and never end. */
static bool is_met(const struct flight_channels *c, const struct flight_channel *channel, size_t half, int64_t shift) {
    bool receive = c->halves[half].receive;
    size_t first = receive ? channel->open_receives : channel->open_sends;
    size_t others = receive ? channel->open_sends : channel->open_receives;
    size_t end = receive ? channel->receives : channel->end;
    int64_t other = (int64_t)(half - first) + (receive ? -shift : shift);
    if (other < 0)
        return true;
    if (other >= (int64_t)(end - others))
        return false;
    const struct trace_event *theirs = event_of(c, others + (size_t)other), *own = event_of(c, half);
    bool alike = own->bytes == theirs->bytes || own->bytes == BYTES_UNKNOWN || theirs->bytes == BYTES_UNKNOWN;
    return has_begun(theirs) && alike;
}

/* What is possible for a message's channel and leaves the message without its other half. */
static uint64_t lacking(const struct flight_channels *c, size_t half) {
    const struct flight_channel *channel = &c->items[c->halves[half].channel];
    uint64_t lacks = 0;
    for (unsigned n = 0; n <= SHIFTS_MOST; n++)
        if (channel->possible >> n & 1 && !is_met(c, channel, half, channel->least + n))
            lacks |= UINT64_C(1) << n;
    return lacks;
}

/* The events from `from` up to `to` are a launch that runs. Where just one channel can hold it up, that does. */
static bool narrow_launch(struct flight_channels *c, size_t from, size_t to) {
    struct flight_channel *only = NULL;
    uint64_t lacks = 0;
    for (size_t i = from; i < to; i++) {
        size_t half = c->places[i];
        uint64_t by_this = half == SIZE_MAX ? 0 : lacking(c, half);
        if (by_this == 0)
            continue;
        struct flight_channel *channel = &c->items[c->halves[half].channel];
        if (only && only != channel)
            return false;
        only = channel;
        lacks |= by_this;
    }
    bool narrows = only && lacks != only->possible;
    if (narrows)
        only->possible = lacks;
    return narrows;
}

/* Launches of which it is known that they run: events from `from` up to `to`. */
struct running {
    size_t from, to;
};

static size_t list_running(const struct trace *trace, struct running *running) {
    size_t count = 0;
    for (size_t from = 0, to; from < trace->event_count; from = to) {
        const struct trace_event *event = &trace->events[from];
        for (to = from + 1; to < trace->event_count && trace->events[to].rank == event->rank &&
                            trace->events[to].launch == event->launch;)
            to++;
        if (has_begun(event))
            running[count++] = (struct running){from, to};
    }
    return count;
}

bool flight_shifts_narrow(struct flight_channels *c) {
    struct running *running = malloc((c->trace->event_count + 1) * sizeof *running);
    size_t count = running ? list_running(c->trace, running) : 0;
    for (bool again = count > 0; again;) { /* each time some possibility goes */
        again = false;
        for (size_t i = 0; i < count; i++)
            again |= narrow_launch(c, running[i].from, running[i].to);
    }
    free(running);
    return running != NULL;
}
