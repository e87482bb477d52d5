/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/aggregates.h"

#include <stdlib.h>

static void count_time(struct operation_row *row, uint64_t ticks) {
    uint32_t bucket = 0;
    row->time_total += ticks;
    row->time_min = ticks < row->time_min ? ticks : row->time_min;
    row->time_max = ticks > row->time_max ? ticks : row->time_max;
    if (ticks >> HISTOGRAM_FIRST) {
        uint32_t octave = 63u - (uint32_t)__builtin_clzll(ticks);
        bucket = 4 * (octave - HISTOGRAM_FIRST) + (uint32_t)(ticks >> (octave - 2) & 3);
    }
    row->histogram[bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1]++;
}

static int compare_calls(const struct trace_event *left, const struct trace_event *right) {
    if (left->call != right->call)
        return left->call < right->call ? -1 : 1;
    return (left->communicator > right->communicator) - (left->communicator < right->communicator);
}

/* Events of one row follow each other in this order. */
static int compare_rows(const void *a, const void *b) {
    const struct trace_event *left = *(const struct trace_event *const *)a;
    const struct trace_event *right = *(const struct trace_event *const *)b;
    int order = compare_calls(left, right);
    return order ? order : (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

static int compare_peers(const void *a, const void *b) {
    const struct trace_event *left = *(const struct trace_event *const *)a;
    const struct trace_event *right = *(const struct trace_event *const *)b;
    int order = compare_calls(left, right);
    return order ? order : (left->peer > right->peer) - (left->peer < right->peer);
}

static int compare_sites(const void *a, const void *b) {
    const struct trace_event *left = *(const struct trace_event *const *)a;
    const struct trace_event *right = *(const struct trace_event *const *)b;
    int order = compare_calls(left, right);
    return order ? order : (left->stack > right->stack) - (left->stack < right->stack);
}

static bool is_message(const struct trace *trace, const struct trace_event *event) {
    enum call_class class = trace->calls[event->call].call_class;
    return class == CLASS_SEND || class == CLASS_RECV;
}

static void add_to_row(struct operation_row *row, const struct trace *trace, const struct trace_event *event,
                       bool device) {
    row->version = 2;
    row->call = (uint16_t)(event->call + 1);
    row->source = device ? SOURCE_GPU_EVENT : trace->device ? SOURCE_HOST : SOURCE_INFERRED;
    row->peer_class = is_message(trace, event) ? PEER_CLASS_RANK : PEER_CLASS_NONE;
    row->comm_epoch = event->communicator;
    row->bytes = event->bytes;
    if (row->count++ == 0)
        row->time_min = UINT64_MAX;
    row->bytes_total += event->bytes == BYTES_UNKNOWN ? 0 : event->bytes;
    bool enqueued = trace->device && !device;
    if (enqueued && event->returned_ns == event->posted_ns)
        row->untimed++;
    else
        count_time(row,
                   (uint64_t)(enqueued ? event->returned_ns - event->posted_ns : event->leave_ns - event->enter_ns));
}

static void fill_operations(const struct aggregates *aggregates, struct operation_row *rows) {
    const struct trace *trace = aggregates->trace;
    struct operation_row *row = rows - 1;
    for (int pass = 0; pass < 1 + trace->device; pass++) {
        const struct trace_event *before = NULL;
        for (size_t i = 0; i < aggregates->count; i++) {
            if (pass == 1 && !aggregates->sorted[i]->timed)
                continue;
            row += !before || compare_rows(&before, &aggregates->sorted[i]) != 0;
            before = aggregates->sorted[i];
            add_to_row(row, trace, aggregates->sorted[i], pass == 1);
        }
    }
}

/* Time inside the call, as the operations' rows of the host have it. */
static void fill_sites(const struct aggregates *aggregates, struct site_row *rows) {
    const struct trace *trace = aggregates->trace;
    struct site_row *row = rows - 1;
    for (size_t i = 0; i < aggregates->count; i++) {
        const struct trace_event *event = aggregates->sorted[i];
        uint64_t ticks =
            (uint64_t)(trace->device ? event->returned_ns - event->posted_ns : event->leave_ns - event->enter_ns);
        if (i == 0 || compare_sites(&aggregates->sorted[i - 1], &event) != 0)
            *++row = (struct site_row){.version = 2,
                                       .stack = event->stack,
                                       .comm_epoch = event->communicator,
                                       .call = (uint16_t)(event->call + 1)};
        row->bytes_total += event->bytes == BYTES_UNKNOWN ? 0 : event->bytes;
        row->count++;
        row->time_max = ticks > row->time_max ? ticks : row->time_max;
        row->time_total += ticks;
    }
}

static void fill_peers(const struct aggregates *aggregates, struct peer_row *rows) {
    const struct trace *trace = aggregates->trace;
    struct peer_row *row = rows - 1;
    const struct trace_event *before = NULL;
    for (size_t i = 0; i < aggregates->count; i++) {
        const struct trace_event *event = aggregates->sorted[i];
        if (!is_message(trace, event))
            continue;
        row += !before || compare_peers(&before, &event) != 0;
        before = event;
        uint64_t ticks = event->timed ? (uint64_t)(event->leave_ns - event->enter_ns) : 0;
        row->version = 2;
        row->comm_epoch = event->communicator;
        row->peer = event->peer;
        row->call = (uint16_t)(event->call + 1);
        row->direction = trace->calls[event->call].call_class == CLASS_SEND ? FLAG_SEND : FLAG_RECV;
        row->count++;
        row->bytes_total += event->bytes == BYTES_UNKNOWN ? 0 : event->bytes;
        row->time_total += ticks;
        row->time_max = ticks > row->time_max ? ticks : row->time_max;
    }
}

static uint32_t count_distinct(const struct trace_event **sorted, size_t count,
                               int (*compare)(const void *, const void *)) {
    uint32_t distinct = 0;
    for (size_t i = 0; i < count; i++)
        distinct += i == 0 || compare(&sorted[i - 1], &sorted[i]) != 0;
    return distinct;
}

/* Where no call site is known, none is noted. */
static bool any_stack(const struct trace_event **events, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (events[i]->stack != TRACE_STACK_NONE)
            return true;
    return false;
}

static void sort_by(struct aggregates *aggregates, int (*compare)(const void *, const void *)) {
    qsort(aggregates->sorted, aggregates->count, sizeof *aggregates->sorted, compare);
}

bool aggregates_take(struct aggregates *aggregates, const struct trace *trace, const struct trace_event *events,
                     size_t count) {
    *aggregates = (struct aggregates){.trace = trace, .sorted = malloc((count + 1) * sizeof *aggregates->sorted)};
    for (size_t i = 0; aggregates->sorted && i < count; i++)
        if (events[i].communicator != COMM_NONE)
            aggregates->sorted[aggregates->count++] = &events[i];
    return aggregates->sorted != NULL;
}

void aggregates_measure(struct aggregates *aggregates) {
    const struct trace_event **sorted = aggregates->sorted;
    size_t count = aggregates->count;
    sort_by(aggregates, compare_peers);
    aggregates->peer_rows = count_distinct(sorted, count, compare_peers) + 1;
    sort_by(aggregates, compare_sites);
    aggregates->site_rows = any_stack(sorted, count) ? count_distinct(sorted, count, compare_sites) + 1 : 1;
    sort_by(aggregates, compare_rows);
    aggregates->rows = count_distinct(sorted, count, compare_rows) * (1 + aggregates->trace->device) + 1;
}

void aggregates_fill(struct aggregates *aggregates, struct operation_row *rows, struct site_row *sites,
                     struct peer_row *peers) {
    sort_by(aggregates, compare_rows);
    fill_operations(aggregates, rows);
    sort_by(aggregates, compare_peers);
    fill_peers(aggregates, peers);
    sort_by(aggregates, compare_sites);
    if (aggregates->site_rows > 1)
        fill_sites(aggregates, sites);
}

void aggregates_free(struct aggregates *aggregates) {
    free(aggregates->sorted);
}
