/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/flight_channels.h"

#include <stdlib.h>

#include "analyzer/import/flight_shifts.h"

struct numbering {
    struct flight_channels channels;
    struct trace *trace;
    size_t *mates;
    size_t *first_places; /* by communicator: where its members begin in `whole` */
    int64_t *whole;       /* by member: the epoch from which on no batch is overwritten */
    int64_t span;         /* most records that a recorder is known to hold: all hold as many */
    bool common_epochs;   /* collectives' numbers tell epochs that are one on all ranks */
};

static enum call_class class_of(const struct trace *trace, const struct trace_event *event) {
    return trace->calls[event->call].call_class;
}

static bool is_message(const struct trace *trace, const struct trace_event *event) {
    return class_of(trace, event) == CLASS_SEND || class_of(trace, event) == CLASS_RECV;
}

/* ---- channels -------------------------------------------------------------------------------- */

static int compare_halves(const void *a, const void *b) {
    const struct flight_half *left = a, *right = b;
    if (left->communicator != right->communicator)
        return left->communicator < right->communicator ? -1 : 1;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    if (left->to != right->to)
        return left->to < right->to ? -1 : 1;
    if (left->receive != right->receive)
        return left->receive ? 1 : -1;
    return (left->event > right->event) - (left->event < right->event);
}

/* Events of a communicator whose members are listed twice may have more than one rank: only the order matters. */
static size_t list_halves(const struct trace *trace, struct flight_half *halves) {
    size_t count = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (!is_message(trace, event))
            continue;
        bool receive = class_of(trace, event) == CLASS_RECV;
        int32_t own = trace_member(&trace->communicators[event->communicator], event->rank);
        halves[count++] = (struct flight_half){.communicator = event->communicator,
                                               .from = receive ? event->peer : own,
                                               .to = receive ? own : event->peer,
                                               .receive = receive,
                                               .event = i};
    }
    qsort(halves, count, sizeof *halves, compare_halves);
    return count;
}

static bool is_of_channel(const struct flight_half *half, const struct flight_half *first) {
    return half->communicator == first->communicator && half->from == first->from && half->to == first->to;
}

static size_t first_open(const struct numbering *n, size_t from, size_t to) {
    while (from < to && n->trace->events[n->channels.halves[from].event].state == TRACE_FINISHED)
        from++;
    return from;
}

/* False: memory is short. */
static bool find_channels(struct numbering *n) {
    struct flight_channels *c = &n->channels;
    size_t count = n->trace->event_count;
    c->trace = n->trace;
    c->halves = malloc((count + 1) * sizeof *c->halves);
    c->items = malloc((count + 1) * sizeof *c->items);
    c->places = malloc((count + 1) * sizeof *c->places);
    if (!c->halves || !c->items || !c->places)
        return false;
    for (size_t i = 0; i < count; i++)
        c->places[i] = SIZE_MAX;
    c->half_count = list_halves(n->trace, c->halves);
    for (size_t from = 0, to; from < c->half_count; from = to) {
        struct flight_channel channel = {.sends = from, .receives = from};
        for (to = from; to < c->half_count && is_of_channel(&c->halves[to], &c->halves[from]); to++) {
            c->halves[to].channel = c->count;
            c->places[c->halves[to].event] = to;
            channel.receives += !c->halves[to].receive;
        }
        channel.end = to;
        channel.open_sends = first_open(n, from, channel.receives);
        channel.open_receives = first_open(n, channel.receives, to);
        c->items[c->count++] = channel;
    }
    return true;
}

static const struct trace_event *event_of(const struct numbering *n, size_t half) {
    return &n->trace->events[n->channels.halves[half].event];
}

static size_t count_ended(const struct numbering *n, size_t from, size_t to) {
    size_t count = 0;
    for (; from < to; from++)
        count += event_of(n, from)->state == TRACE_FINISHED;
    return count;
}

static bool begins_late(const struct numbering *n, size_t from, size_t to) {
    return from < to && n->trace->ranks[event_of(n, from)->rank].lost;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

/* The epoch from which on all batches of a member are on record. */
static int64_t whole_from(const struct numbering *n, uint32_t communicator, int32_t member) {
    const struct trace_communicator *c = &n->trace->communicators[communicator];
    return member >= 0 && member < (int32_t)c->size ? n->whole[n->first_places[communicator] + (size_t)member] : 0;
}

/* Where nothing of a rank is overwritten, all epochs are whole; else those behind the first one that is on record, and
 * that one where its collective is, or where what had ended is left out: it hardly is what the recorder overwrote last.
 * Of a communicator without an entry nothing is overwritten: that takes a recorder full of others. */
static bool find_whole_epochs(struct numbering *n) {
    size_t places = 0;
    n->first_places = calloc(n->trace->communicator_count + 1, sizeof *n->first_places);
    for (size_t c = 0; n->first_places && c < n->trace->communicator_count; c++) {
        n->first_places[c] = places;
        places += n->trace->communicators[c].size;
    }
    n->whole = calloc(places + 1, sizeof *n->whole);
    if (!n->first_places || !n->whole)
        return false;
    for (int32_t rank = 0; rank < n->trace->world_size; rank++) {
        const struct trace_rank *r = &n->trace->ranks[rank];
        int64_t span = r->seen && r->first_record >= 0 ? r->last_record - r->first_record + 1 : 0;
        n->span = span > n->span ? span : n->span;
    }
    for (size_t i = n->trace->event_count; i-- > 0;) {
        const struct trace_event *event = &n->trace->events[i];
        const struct trace_rank *rank = &n->trace->ranks[event->rank];
        int32_t own = trace_member(&n->trace->communicators[event->communicator], event->rank);
        bool collective = class_of(n->trace, event) == CLASS_COLLECTIVE;
        if (own >= 0 && rank->lost && rank->last_record >= n->span && (collective || is_message(n->trace, event)))
            n->whole[n->first_places[event->communicator] + (size_t)own] =
                collective ? (int64_t)event->order : event->epoch + !rank->only_open;
    }
    return true;
}

/* The newest number of a collective that a communicator's events of one rank have. */
struct newest {
    int64_t rank; /* this one, + 1; 0: there are none yet */
    int64_t number;
};

/* Versions of PyTorch give batches numbers of collectives: then these count what each rank did by itself. Events are
 * sorted by rank and launch. False where some message has another number than the collective before it, or the message
 * before that. */
static bool have_common_epochs(const struct trace *trace, struct newest *newest) {
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        int64_t rank = event->rank + INT64_C(1);
        struct newest *known = &newest[event->communicator];
        bool collective = class_of(trace, event) == CLASS_COLLECTIVE;
        if (!collective && (!is_message(trace, event) || event->epoch < 0))
            continue;
        if (!collective && known->rank == rank && known->number != event->epoch)
            return false;
        *known = (struct newest){rank, collective ? (int64_t)event->order : event->epoch};
    }
    return true;
}

static int64_t first_open_epoch(const struct numbering *n, size_t from, size_t to) {
    int64_t first = INT64_MAX;
    for (; from < to; from++)
        if (event_of(n, from)->state != TRACE_FINISHED && event_of(n, from)->epoch < first)
            first = event_of(n, from)->epoch;
    return first;
}

/* Whether as many have not ended on both sides, each in the same epoch: those belong together. */
static bool are_open_alike(const struct numbering *n, const struct flight_channel *channel) {
    size_t send = channel->open_sends, receive = channel->open_receives;
    while (send < channel->receives && receive < channel->end &&
           event_of(n, send)->epoch == event_of(n, receive)->epoch) {
        send = first_open(n, send + 1, channel->receives);
        receive = first_open(n, receive + 1, channel->end);
    }
    return send == channel->receives && receive == channel->end;
}

static int64_t count_ended_since(const struct numbering *n, size_t from, size_t to, int64_t epoch) {
    int64_t count = 0;
    for (; from < to; from++)
        count += event_of(n, from)->state == TRACE_FINISHED && event_of(n, from)->epoch >= epoch;
    return count;
}

/* Which of the messages of batches belong together is counted as far as both sides have all. False: they have not all
 * since the first epoch in which one has not ended. */
static bool shift_by_epochs(const struct numbering *n, const struct flight_channel *channel, int64_t *shift) {
    const struct flight_half *half = &n->channels.halves[channel->sends];
    int64_t of_sender = whole_from(n, half->communicator, half->from);
    int64_t of_receiver = whole_from(n, half->communicator, half->to);
    int64_t epoch = first_open_epoch(n, channel->sends, channel->end);
    *shift = count_ended_since(n, channel->sends, channel->receives, epoch) -
             count_ended_since(n, channel->receives, channel->end, epoch);
    return epoch >= of_sender && epoch >= of_receiver;
}

static bool is_in_open_batches(const struct numbering *n, const struct flight_channel *channel) {
    bool any = false, told = true;
    for (size_t i = channel->sends; i < channel->end; i++) {
        any |= event_of(n, i)->batched && event_of(n, i)->state != TRACE_FINISHED;
        told &= event_of(n, i)->epoch >= 0;
    }
    return any && told;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void know(struct flight_channel *channel, int64_t shift) {
    channel->least = shift;
    channel->possible = 1;
}

/* Where both sides are there from the first message on they are counted. Else those that have ended are the same ones
 * on both sides, but for batches: of a job that stands nothing is under way. */
static void find_shift(struct numbering *n, struct flight_channel *channel) {
    bool late = begins_late(n, channel->sends, channel->receives) || begins_late(n, channel->receives, channel->end);
    bool alike = are_open_alike(n, channel) && n->common_epochs, untold = false;
    int64_t shift = 0;
    for (size_t i = channel->sends; i < channel->end; i++) {
        struct trace_event *event = &n->trace->events[n->channels.halves[i].event];
        event->ordinal_unknown &= !alike;
        untold |= event->ordinal_unknown;
    }
    if (!late)
        know(channel, (int64_t)count_ended(n, channel->sends, channel->receives) -
                          (int64_t)count_ended(n, channel->receives, channel->end));
    else if (!alike && n->common_epochs && is_in_open_batches(n, channel) && shift_by_epochs(n, channel, &shift))
        know(channel, shift);
    else if (alike || untold)
        know(channel, 0);
    else
        flight_shifts_bound(&n->channels, channel);
}

static void pair_halves(struct numbering *n, const struct flight_channel *channel) {
    int64_t sent = (int64_t)count_ended(n, channel->sends, channel->receives);
    int64_t received = (int64_t)count_ended(n, channel->receives, channel->end);
    int64_t ahead = sent - received - channel->least; /* the first receive's number less the first send's */
    size_t first_send = ahead < 0 ? (size_t)-ahead : 0, first_receive = ahead > 0 ? (size_t)ahead : 0;
    size_t send_count = channel->receives - channel->sends, receive_count = channel->end - channel->receives;
    for (size_t i = 0; i < receive_count; i++)
        n->trace->events[n->channels.halves[channel->receives + i].event].order = first_receive + i;
    for (size_t i = 0; i < send_count; i++) {
        size_t number = first_send + i, send = n->channels.halves[channel->sends + i].event;
        n->trace->events[send].order = number;
        if (number < first_receive || number - first_receive >= receive_count)
            continue;
        size_t receive = n->channels.halves[channel->receives + number - first_receive].event;
        n->mates[send] = receive;
        n->mates[receive] = send;
    }
}

/* Several things can be: what has ended counts for nothing. */
static void leave_out(struct numbering *n, const struct flight_channel *channel) {
    for (size_t i = channel->sends; i < channel->end; i++) {
        struct trace_event *event = &n->trace->events[n->channels.halves[i].event];
        event->gone = event->state == TRACE_FINISHED;
        event->ordinal_unknown = true;
        event->order = i - channel->sends;
    }
}

static bool number_all(struct numbering *n) {
    struct flight_channels *c = &n->channels;
    for (size_t i = 0; i < c->count; i++)
        find_shift(n, &c->items[i]);
    if (!flight_shifts_narrow(c))
        return false;
    for (size_t i = 0; i < c->count; i++) {
        struct flight_channel *channel = &c->items[i];
        bool one = channel->possible && !(channel->possible & (channel->possible - 1));
        for (; one && !(channel->possible & 1); channel->possible >>= 1)
            channel->least++;
        if (one)
            pair_halves(n, channel);
        else
            leave_out(n, channel);
    }
    return true;
}

bool flight_channels_number(struct trace *trace, size_t *mates) {
    struct numbering n = {.trace = trace, .mates = mates};
    struct newest *newest = calloc(trace->communicator_count + 1, sizeof *newest);
    bool done = newest && find_channels(&n) && find_whole_epochs(&n);
    if (done) {
        n.common_epochs = have_common_epochs(trace, newest);
        done = number_all(&n);
    }
    free(newest);
    free(n.channels.halves);
    free(n.channels.items);
    free(n.channels.places);
    free(n.first_places);
    free(n.whole);
    return done;
}
