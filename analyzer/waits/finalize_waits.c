/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/waits/finalize_waits.h"

#include <stdlib.h>

#include "analyzer/load/gpu_view.h"

struct arrival {
    size_t dump;
    int64_t at_ns;
};

static int compare_arrivals(const void *a, const void *b) {
    const struct arrival *left = a, *right = b;
    if (left->at_ns != right->at_ns)
        return left->at_ns < right->at_ns ? -1 : 1;
    return (left->dump > right->dump) - (left->dump < right->dump);
}

/* Returns how many there are; 0: some process did not come. */
static size_t list_arrivals(struct arrival *arrivals, const struct common_clock *clock) {
    size_t count = 0;
    for (size_t d = 0; d < clock->dump_count; d++) {
        const struct dump *dump = clock->dumps[d];
        if (!dump_stands_for_process(dump))
            continue;
        if (dump->header->finalise_ticks == 0)
            return 0;
        arrivals[count++] = (struct arrival){d, to_common(clock, d, dump->header->finalise_ticks)};
    }
    qsort(arrivals, count, sizeof *arrivals, compare_arrivals);
    return count;
}

/* Whether each of the first `early` was there still when the next one came. */
static bool all_stayed(const struct arrival *arrivals, size_t early, const struct common_clock *clock) {
    for (size_t i = 0; i < early; i++) {
        uint64_t left = clock->dumps[arrivals[i].dump]->header->finalised_ticks;
        if (left > 0 && to_common(clock, arrivals[i].dump, left) < arrivals[early].at_ns)
            return false;
    }
    return true;
}

static int compare_dumps(const void *a, const void *b) {
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    return (left > right) - (left < right);
}

/* The last that came before the longest gap is number `early` - 1. */
static void take_gap(struct finalize_waits *waits, const struct arrival *arrivals, size_t early) {
    waits->late = waits->count - early;
    waits->late_ns = arrivals[early].at_ns;
    for (size_t i = 0; i < waits->count; i++)
        waits->dumps[i] = arrivals[i].dump;
    qsort(waits->dumps, early, sizeof *waits->dumps, compare_dumps);
    qsort(waits->dumps + early, waits->late, sizeof *waits->dumps, compare_dumps);
}

bool finalize_waits_find(struct finalize_waits *waits, const struct common_clock *clock) {
    struct arrival *arrivals = calloc(clock->dump_count + 1, sizeof *arrivals);
    size_t early = 0;
    *waits = (struct finalize_waits){.dumps = calloc(clock->dump_count + 1, sizeof *waits->dumps)};
    bool done = arrivals && waits->dumps;
    waits->count = done ? list_arrivals(arrivals, clock) : 0;
    for (size_t i = (waits->count + 1) / 2; i < waits->count; i++) {
        int64_t gap = arrivals[i].at_ns - arrivals[i - 1].at_ns;
        if (gap > waits->waited_ns) {
            waits->waited_ns = gap;
            early = i;
        }
    }
    int64_t error_ns = common_clock_worst_error(clock);
    if (early > 0 && waits->waited_ns >= FINALIZE_LEAST_NS && waits->waited_ns > error_ns &&
        all_stayed(arrivals, early, clock))
        take_gap(waits, arrivals, early);
    free(arrivals);
    return done;
}

void finalize_waits_free(struct finalize_waits *waits) {
    free(waits->dumps);
    *waits = (struct finalize_waits){0};
}
