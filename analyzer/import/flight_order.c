/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/flight_order.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/hash.h"
#include "analyzer/import/flight_channels.h"

/* How far the members of a communicator came with its collectives. */
struct front {
    uint32_t members; /* that have called any */
    uint64_t reached; /* by all of them: the least of their newest numbers */
    uint64_t begun;   /* on any of them: number + 1 */
    uint64_t open;    /* the first number that has not ended on one of them, UINT64_MAX: none */
    int32_t rank;     /* whose newest is */
    uint64_t newest;  /* this one, + 1 */
    uint64_t ended;   /* of a rank, in a recorder of open operations: number + 1 */
    int32_t ended_rank;
    int32_t headed; /* the rank whose first collective that has not ended was just seen; -1: none */
};

struct ordering {
    struct trace *trace;
    struct front *fronts; /* by communicator */
    size_t *mates;        /* by event: that of the other half, SIZE_MAX: there is none */
    bool told;            /* starts are known */
};

static enum call_class class_of(const struct trace *trace, const struct trace_event *event) {
    return trace->calls[event->call].call_class;
}

static bool is_message(const struct trace *trace, const struct trace_event *event) {
    return class_of(trace, event) == CLASS_SEND || class_of(trace, event) == CLASS_RECV;
}

static int compare_launches(const void *a, const void *b) {
    const struct trace_event *left = a, *right = b;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->launch != right->launch)
        return left->launch < right->launch ? -1 : 1;
    return (left->order > right->order) - (left->order < right->order);
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* In a recorder of open operations some that had ended are left over, which do not tell: what comes after them does. */
static void end_left_overs(struct ordering *o) {
    for (size_t i = o->trace->event_count; i-- > 0;) {
        struct trace_event *event = &o->trace->events[i];
        struct front *front = &o->fronts[event->communicator];
        if (class_of(o->trace, event) != CLASS_COLLECTIVE || !o->trace->ranks[event->rank].only_open)
            continue;
        if (front->ended == 0 || front->ended_rank != event->rank)
            front->ended = 0;
        front->ended_rank = event->rank;
        if (event->state == TRACE_FINISHED && event->order + 1 > front->ended)
            front->ended = event->order + 1;
        else if (event->order < front->ended)
            event->state = TRACE_FINISHED;
    }
}

static void close_front(struct front *front) {
    if (front->newest == 0)
        return;
    front->reached = front->members++ == 0 || front->newest - 1 < front->reached ? front->newest - 1 : front->reached;
    front->newest = 0;
}

static void find_fronts(struct ordering *o) {
    for (size_t c = 0; c < o->trace->communicator_count; c++)
        o->fronts[c].open = UINT64_MAX;
    for (size_t i = 0; i < o->trace->event_count; i++) {
        const struct trace_event *event = &o->trace->events[i];
        struct front *front = &o->fronts[event->communicator];
        if (class_of(o->trace, event) != CLASS_COLLECTIVE)
            continue;
        if (front->rank != event->rank)
            close_front(front);
        if (event->state != TRACE_FINISHED && event->order < front->open)
            front->open = event->order;
        front->rank = event->rank;
        front->newest = event->order + 1 > front->newest ? event->order + 1 : front->newest;
        if (event->state != TRACE_POSTED && event->order + 1 > front->begun)
            front->begun = event->order + 1;
    }
    for (size_t c = 0; c < o->trace->communicator_count; c++) {
        close_front(&o->fronts[c]);
        o->fronts[c].headed = -1;
    }
}

/* ---- collectives that have not ended ---------------------------------------------------------- */

static int compare_collectives(const void *a, const void *b, void *events) {
    const struct trace_event *left = (const struct trace_event *)events + *(const size_t *)a;
    const struct trace_event *right = (const struct trace_event *)events + *(const size_t *)b;
    if (left->communicator != right->communicator)
        return left->communicator < right->communicator ? -1 : 1;
    if (left->order != right->order)
        return left->order < right->order ? -1 : 1;
    return (left > right) - (left < right);
}

/* One function under two names is two things to PyTorch's analysis (Op.match). What has ended on all ranks did no harm
 * by that. */
static void part_by_titles(struct trace *trace, const size_t *of, size_t count) {
    bool differ = false, alike = true;
    for (size_t i = 1; i < count; i++) {
        differ |= trace->events[of[i]].title != trace->events[of[0]].title;
        alike &= trace->events[of[i]].call == trace->events[of[0]].call;
    }
    for (size_t i = 0; differ && alike && i < count; i++) {
        struct trace_event *event = &trace->events[of[i]];
        if (event->title == 0)
            continue;
        event->call = trace_call_named(trace, event->call, trace->titles.items[event->title - 1]);
        event->signature = event->signature ? hash_mix(event->signature, event->title) : 0;
    }
}

/* As PyTorch's analysis has it (Op.match, check_size_alltoall): an all-reduce puts out what it takes in, and all ranks
 * together do so in an all-to-all. Keeps `bytes_out` where that is not so. */
static void keep_sizes_that_do_not_fit(struct trace *trace, const size_t *of, size_t count) {
    const struct trace_event *first = &trace->events[of[0]];
    bool all_to_all = strcmp(trace->calls[first->call].name, "ncclAlltoAll") == 0, known = true;
    uint64_t in = 0, out = 0;
    for (size_t i = 0; i < count; i++) {
        const struct trace_event *event = &trace->events[of[i]];
        known &= event->call == first->call && event->bytes < BYTES_UNKNOWN / TRACE_RANKS_MOST &&
                 event->bytes_out < BYTES_UNKNOWN / TRACE_RANKS_MOST;
        in += event->bytes;
        out += event->bytes_out;
    }
    bool whole = known && count == trace->communicators[first->communicator].size;
    for (size_t i = 0; i < count; i++) {
        struct trace_event *event = &trace->events[of[i]];
        bool all_reduce = event->title && strcmp(trace->titles.items[event->title - 1], "all_reduce") == 0;
        bool wrong = all_to_all ? whole && in != out : all_reduce && event->bytes_out != event->bytes;
        event->bytes_out = wrong && event->bytes != BYTES_UNKNOWN ? event->bytes_out : BYTES_UNKNOWN;
    }
}

/* False: memory is short. */
static bool look_at_open_collectives(struct ordering *o) {
    struct trace *trace = o->trace;
    size_t count = 0, *open = malloc((trace->event_count + 1) * sizeof *open);
    if (!open)
        return false;
    for (size_t i = 0; i < trace->event_count; i++) {
        struct trace_event *event = &trace->events[i];
        if (class_of(trace, event) == CLASS_COLLECTIVE && event->order >= o->fronts[event->communicator].open)
            open[count++] = i;
        else
            event->bytes_out = BYTES_UNKNOWN;
    }
    if (count > 0)
        qsort_r(open, count, sizeof *open, compare_collectives, trace->events);
    for (size_t from = 0, to; from < count; from = to) {
        const struct trace_event *event = &trace->events[open[from]];
        for (to = from + 1; to < count && trace->events[open[to]].communicator == event->communicator &&
                            trace->events[open[to]].order == event->order;)
            to++;
        keep_sizes_that_do_not_fit(trace, &open[from], to - from);
        part_by_titles(trace, &open[from], to - from);
    }
    free(open);
    return true;
}

/* What another backend than NCCL does has its name. */
static void name_by_backend(struct trace *trace) {
    for (size_t i = 0; i < trace->event_count; i++) {
        struct trace_event *event = &trace->events[i];
        const char *title = event->title ? trace->titles.items[event->title - 1] : "";
        if (strchr(title, ':'))
            event->call = trace_call_named(trace, event->call, title);
    }
}

/* ---- what has begun -------------------------------------------------------------------------- */

/* Whether nobody is missing in the launch that the events from `from` up to `to` are. */
static bool is_full(const struct ordering *o, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        const struct trace_event *event = &o->trace->events[i];
        const struct front *front = &o->fronts[event->communicator];
        if (is_message(o->trace, event) && o->mates[i] == SIZE_MAX)
            return false;
        if (class_of(o->trace, event) == CLASS_COLLECTIVE &&
            (front->members < o->trace->communicators[event->communicator].size || event->order > front->reached))
            return false;
    }
    return true;
}

/* Whether somebody else is known to have begun it; or may have, of a message of which nothing tells which it is, while
 * the rank's own recorder notes what it begins. */
static bool begun_elsewhere(const struct ordering *o, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        const struct trace_event *event = &o->trace->events[i];
        if (class_of(o->trace, event) == CLASS_COLLECTIVE && o->fronts[event->communicator].begun > event->order)
            return true;
        if (is_message(o->trace, event) && o->mates[i] != SIZE_MAX &&
            o->trace->events[o->mates[i]].state != TRACE_POSTED)
            return true;
        const struct trace_rank *rank = &o->trace->ranks[event->rank];
        if (is_message(o->trace, event) && event->ordinal_unknown && rank->tells_start && !rank->only_open)
            return true;
    }
    return false;
}

/* Collectives of a communicator begin in their order. */
static bool is_behind_others(struct ordering *o, size_t at) {
    const struct trace_event *event = &o->trace->events[at];
    if (class_of(o->trace, event) != CLASS_COLLECTIVE)
        return false;
    struct front *front = &o->fronts[event->communicator];
    bool behind = front->headed == event->rank;
    front->headed = event->rank;
    return behind;
}

static void begin_launch(struct ordering *o, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        if (o->trace->events[i].state == TRACE_POSTED)
            o->trace->events[i].state = TRACE_STARTED;
}

/* Of one rank's events. Behind a launch that nobody is missing in, and that therefore something else holds up, what
 * somebody is missing in may have begun as well. */
static void begin_launches(struct ordering *o, size_t from, size_t end) {
    bool first = true, first_is_full = false;
    for (size_t to; from < end; from = to) {
        const struct trace_event *event = &o->trace->events[from];
        for (to = from + 1; to < end && o->trace->events[to].launch == event->launch;)
            to++;
        if (event->state == TRACE_FINISHED)
            continue;
        bool behind = is_behind_others(o, from), full = is_full(o, from, to);
        bool begins = first           ? !o->told || !begun_elsewhere(o, from, to)
                      : first_is_full ? !o->told && !full && !behind
                                      : false;
        first_is_full = first ? full : first_is_full;
        first = false;
        if (begins)
            begin_launch(o, from, to);
    }
}

static void look_at_ranks(struct ordering *o) {
    bool all_open = true, any_lost = false;
    for (int32_t rank = 0; rank < o->trace->world_size; rank++) {
        o->told |= o->trace->ranks[rank].tells_start;
        any_lost |= o->trace->ranks[rank].lost;
    }
    for (size_t i = 0; i < o->trace->event_count; i++)
        all_open &= o->trace->ranks[o->trace->events[i].rank].only_open;
    o->trace->only_open = all_open && any_lost;
}

static void drop_gone(struct trace *trace) {
    size_t kept = 0;
    for (size_t i = 0; i < trace->event_count; i++)
        if (!trace->events[i].gone)
            trace->events[kept++] = trace->events[i];
    trace->event_count = kept;
}

bool flight_order(struct trace *trace) {
    struct ordering o = {.trace = trace};
    trace->numbered = true;
    o.fronts = calloc(trace->communicator_count + 1, sizeof *o.fronts);
    o.mates = malloc((trace->event_count + 1) * sizeof *o.mates);
    bool done = o.fronts && o.mates;
    if (done) {
        memset(o.mates, 0xff, (trace->event_count + 1) * sizeof *o.mates);
        if (trace->event_count > 0)
            qsort(trace->events, trace->event_count, sizeof *trace->events, compare_launches);
        look_at_ranks(&o);
        end_left_overs(&o);
        find_fronts(&o);
        done = flight_channels_number(trace, o.mates) && look_at_open_collectives(&o);
    }
    if (done)
        name_by_backend(trace);
    for (size_t from = 0, to; done && from < trace->event_count; from = to) {
        for (to = from + 1; to < trace->event_count && trace->events[to].rank == trace->events[from].rank;)
            to++;
        begin_launches(&o, from, to);
    }
    drop_gone(trace);
    free(o.fronts);
    free(o.mates);
    return done;
}
