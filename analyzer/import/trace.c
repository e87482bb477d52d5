/* SPDX-License-Identifier: Apache-2.0
 *
 * What all trace formats have in common.
 * Lives here: the collection, and numbering operations.
 * Must not live here: any format, the dumps.
 */
#include "analyzer/import/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define YEAR_NS (INT64_C(366) * 86400 * 1000000000)

bool trace_set_world(struct trace *trace, int32_t world_size) {
    if (world_size <= trace->world_size)
        return true;
    struct trace_rank *larger = realloc(trace->ranks, (size_t)world_size * sizeof *larger);
    if (!larger)
        return false;
    memset(larger + trace->world_size, 0, (size_t)(world_size - trace->world_size) * sizeof *larger);
    trace->ranks = larger;
    trace->world_size = world_size;
    return true;
}

void trace_free(struct trace *trace) {
    for (size_t i = 0; i < trace->communicator_count; i++)
        free(trace->communicators[i].members);
    free(trace->communicators);
    free(trace->events);
    free(trace->ranks);
    *trace = (struct trace){0};
}

/* FNV-1a over what makes a communicator. */
static uint64_t uid_of(const char *name, const int32_t *members, uint32_t size) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    for (uint32_t i = 0; i < size; i++)
        hash = (hash ^ (uint32_t)members[i]) * UINT64_C(0x100000001b3);
    return hash;
}

size_t trace_communicator(struct trace *trace, const char *name, const int32_t *members, uint32_t size) {
    uint64_t uid = uid_of(name, members, size);
    for (size_t i = 0; i < trace->communicator_count; i++)
        if (trace->communicators[i].uid == uid)
            return i;
    if (trace->communicator_count == trace->communicator_capacity) {
        size_t capacity = trace->communicator_capacity ? 2 * trace->communicator_capacity : 16;
        struct trace_communicator *larger = realloc(trace->communicators, capacity * sizeof *larger);
        if (!larger)
            return SIZE_MAX;
        trace->communicators = larger;
        trace->communicator_capacity = capacity;
    }
    int32_t *copy = malloc((size ? size : 1) * sizeof *copy);
    if (!copy)
        return SIZE_MAX;
    memcpy(copy, members, size * sizeof *copy);
    struct trace_communicator *communicator = &trace->communicators[trace->communicator_count];
    *communicator = (struct trace_communicator){.uid = uid, .members = copy, .size = size};
    snprintf(communicator->name, sizeof communicator->name, "%s", name);
    return trace->communicator_count++;
}

int32_t trace_member(const struct trace_communicator *communicator, int32_t rank) {
    for (uint32_t i = 0; i < communicator->size; i++)
        if (communicator->members[i] == rank)
            return (int32_t)i;
    return -1;
}

bool trace_add(struct trace *trace, const struct trace_event *event) {
    if (trace->event_count == trace->event_capacity) {
        size_t capacity = trace->event_capacity ? 2 * trace->event_capacity : 1024;
        struct trace_event *larger = realloc(trace->events, capacity * sizeof *larger);
        if (!larger)
            return false;
        trace->events = larger;
        trace->event_capacity = capacity;
    }
    trace->events[trace->event_count++] = *event;
    return true;
}

const char *trace_time_problem(const struct trace *trace) {
    int64_t first = INT64_MAX, last = INT64_MIN, span;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->leave_ns < event->enter_ns || (trace->device && event->returned_ns < event->posted_ns))
            return "an operation that ends before it begins";
        first = event->enter_ns < first ? event->enter_ns : first;
        last = event->leave_ns > last ? event->leave_ns : last;
        if (trace->device) {
            first = event->posted_ns < first ? event->posted_ns : first;
            last = event->returned_ns > last ? event->returned_ns : last;
        }
    }
    bool apart = last > first && (__builtin_sub_overflow(last, first, &span) || span > YEAR_NS);
    return apart ? "operations more than a year apart" : NULL;
}

/* ---- numbering ------------------------------------------------------------------------------- */

/* A communicator's collectives, or one channel's messages. */
struct key {
    uint32_t communicator;
    int32_t from, to, tag; /* a collective: all -1 */
    uint64_t order;
    int64_t enter_ns;
    struct trace_event *event;
};

static int32_t own_place(const struct trace *trace, const struct trace_event *event) {
    return trace_member(&trace->communicators[event->communicator], event->rank);
}

static struct key key_of(const struct trace *trace, struct trace_event *event) {
    struct key key = {event->communicator, -1, -1, -1, event->order, event->enter_ns, event};
    enum call_class class = trace->calls[event->call].call_class;
    if (class != CLASS_SEND && class != CLASS_RECV)
        return key;
    int32_t own = own_place(trace, event);
    key.from = class == CLASS_SEND ? own : event->peer;
    key.to = class == CLASS_SEND ? event->peer : own;
    key.tag = event->tag;
    return key;
}

#define COMPARE(FIELD)                                                                                                 \
    if (left->FIELD != right->FIELD)                                                                                   \
    return left->FIELD < right->FIELD ? -1 : 1

static int compare_channels(const struct key *left, const struct key *right) {
    COMPARE(communicator);
    COMPARE(from);
    COMPARE(to);
    COMPARE(tag);
    return 0;
}

static int compare_orders(const void *a, const void *b) {
    const struct key *left = a, *right = b;
    int channel = compare_channels(left, right);
    if (channel != 0)
        return channel;
    COMPARE(order);
    COMPARE(enter_ns);
    return 0;
}

static int compare_entries(const void *a, const void *b) {
    const struct key *left = a, *right = b;
    int channel = compare_channels(left, right);
    if (channel != 0)
        return channel;
    COMPARE(enter_ns);
    COMPARE(order);
    return 0;
}

/* Gives all parts of one collective the earliest of their entries, so that sorting by time keeps them together. */
static void share_entries(struct key *keys, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (keys[i].from < 0 && compare_channels(&keys[i - 1], &keys[i]) == 0 && keys[i - 1].order == keys[i].order)
            keys[i].enter_ns = keys[i - 1].enter_ns;
}

static void set_numbers(const struct trace *trace, struct key *keys, size_t count) {
    uint32_t number = 0;
    for (size_t i = 0; i < count; i++) {
        bool same = i > 0 && compare_channels(&keys[i - 1], &keys[i]) == 0;
        if (!same)
            number = 0;
        else if (keys[i - 1].order != keys[i].order)
            number++;
        bool given = !trace->order_by_time && keys[i].from < 0;
        keys[i].event->seq = given ? (uint32_t)keys[i].order : number;
    }
}

static int compare_events(const void *a, const void *b) {
    const struct trace_event *left = a, *right = b;
    COMPARE(rank);
    COMPARE(enter_ns);
    COMPARE(leave_ns);
    COMPARE(communicator);
    COMPARE(call);
    COMPARE(seq);
    return 0;
}

bool trace_number(struct trace *trace) {
    struct key *keys = malloc((trace->event_count ? trace->event_count : 1) * sizeof *keys);
    if (!keys)
        return false;
    size_t count = 0;
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].communicator != COMM_NONE)
            keys[count++] = key_of(trace, &trace->events[i]);
    qsort(keys, count, sizeof *keys, compare_orders);
    if (trace->order_by_time) {
        share_entries(keys, count);
        /* messages keep the order of their keys: each side has its own times */
        for (size_t i = 0; i < count; i++)
            if (keys[i].from >= 0)
                keys[i].enter_ns = 0;
        qsort(keys, count, sizeof *keys, compare_entries);
    }
    set_numbers(trace, keys, count);
    free(keys);
    qsort(trace->events, trace->event_count, sizeof *trace->events, compare_events);
    return true;
}
