/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/kineto/cycles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int compare_times(const void *a, const void *b) {
    const struct cycle_trace *left = a, *right = b;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->from_ns != right->from_ns)
        return left->from_ns < right->from_ns ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

static int compare_first_steps(const void *a, const void *b) {
    const struct cycle_trace *left = a, *right = b;
    return (left->first_step > right->first_step) - (left->first_step < right->first_step);
}

static int compare_cycles(const void *a, const void *b) {
    const struct cycle_trace *left = a, *right = b;
    if (left->cycle != right->cycle)
        return left->cycle < right->cycle ? -1 : 1;
    return (left->rank > right->rank) - (left->rank < right->rank);
}

static bool same_rank(const struct cycle_trace *traces, size_t i) {
    return i > 0 && traces[i - 1].rank == traces[i].rank;
}

/* Sorted by rank and time: the first two of one rank that overlap, SIZE_MAX = none. */
static size_t overlapping(const struct cycle_trace *traces, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (same_rank(traces, i) && traces[i].from_ns < traces[i - 1].to_ns)
            return i - 1;
    return SIZE_MAX;
}

/* Cycles in the order of each rank's traces. False: the ranks have not as many. */
static bool number_alike(struct cycle_trace *traces, size_t count) {
    size_t each = 0;
    for (size_t i = 0; i < count; i++) {
        traces[i].cycle = same_rank(traces, i) ? traces[i - 1].cycle + 1 : 0;
        bool last = i + 1 == count || !same_rank(traces, i + 1);
        if (last && each > 0 && traces[i].cycle + 1 != each)
            return false;
        each = last ? traces[i].cycle + (size_t)1 : each;
    }
    return true;
}

/* Whether the profiler's count of steps, which is the same on all ranks, tells the cycles apart. */
static bool steps_tell(const struct cycle_trace *traces, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (traces[i].first_step < 0 || (same_rank(traces, i) && traces[i].first_step <= traces[i - 1].first_step))
            return false;
    return true;
}

static void number_by_steps(struct cycle_trace *traces, size_t count) {
    qsort(traces, count, sizeof *traces, compare_first_steps);
    for (size_t i = 0; i < count; i++) {
        bool new = i > 0 && traces[i].first_step != traces[i - 1].first_step;
        traces[i].cycle = i > 0 ? traces[i - 1].cycle + new : 0;
    }
}

static bool single_traces(const struct cycle_trace *traces, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (same_rank(traces, i))
            return false;
    return true;
}

const char *cycles_order(struct cycle_trace *traces, size_t count, char *text, size_t size) {
    if (count == 0)
        return NULL;
    qsort(traces, count, sizeof *traces, compare_times);
    size_t two = overlapping(traces, count);
    if (two != SIZE_MAX) {
        snprintf(text, size,
                 "two traces of rank %" PRId32 " overlap in time: %s and %s: traces of one rank follow each "
                 "other",
                 traces[two].rank, traces[two].name, traces[two + 1].name);
        return text;
    }
    if (!single_traces(traces, count) && steps_tell(traces, count)) {
        number_by_steps(traces, count);
    } else if (!number_alike(traces, count)) {
        snprintf(text, size,
                 "the ranks have not as many traces each, and nothing in them (ProfilerStep) tells which of "
                 "them are of one cycle: import one of each rank");
        return text;
    }
    qsort(traces, count, sizeof *traces, compare_cycles);
    return NULL;
}

void cycles_extents(const struct cycle_trace *traces, size_t count, struct cycle_span *cycles) {
    for (size_t i = 0; i < count; i++) {
        struct cycle_span *cycle = &cycles[traces[i].cycle];
        bool first = i == 0 || traces[i - 1].cycle != traces[i].cycle;
        cycle->start_ns = first || traces[i].from_ns < cycle->start_ns ? traces[i].from_ns : cycle->start_ns;
        cycle->end_ns = first || traces[i].to_ns > cycle->end_ns ? traces[i].to_ns : cycle->end_ns;
    }
}

int64_t cycles_start(const struct cycle_trace *trace, const struct cycle_span *cycles) {
    const struct cycle_span *own = &cycles[trace->cycle];
    return trace->cycle == 0 || own[-1].end_ns <= own->start_ns ? own->start_ns : trace->from_ns;
}

int64_t cycles_end(const struct cycle_trace *trace, const struct cycle_span *cycles) {
    const struct cycle_span *own = &cycles[trace->cycle];
    return own->end_ns <= own[1].start_ns ? own->end_ns : trace->to_ns;
}
