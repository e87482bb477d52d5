/* SPDX-License-Identifier: Apache-2.0
 *
 * One process's clock: raw ticks -> nanoseconds of the host's clocks, through the dump's anchors.
 * Lives here: choosing sane anchors, interpolation with 128-bit integers.
 * Must not live here: clocks of several processes (align/).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/private.h"

typedef unsigned __int128 wide;

enum { RATE_SHIFT = 48, GRID_MAX = 4096 };
#define NS_MAX ((uint64_t)INT64_MAX / 4) /* sums of two and differences stay in range */

static int compare_anchors(const void *a, const void *b) {
    const struct clock_anchor *left = a, *right = b;
    if (left->ticks != right->ticks)
        return left->ticks < right->ticks ? -1 : 1;
    return left->monotonic_ns < right->monotonic_ns ? -1 : left->monotonic_ns > right->monotonic_ns;
}

/* Keeps a longest run of anchors whose monotonic time never goes back, and of equal ticks one only: one damaged anchor
 * costs itself, not its neighbours. `length` and `before` have room for count items. */
static size_t keep_rising(struct clock_anchor *anchors, size_t count, size_t *tails, size_t *before) {
    size_t length = 0; /* tails[l] = the anchor with the least time that ends a run of l + 1 */
    for (size_t i = 0; i < count; i++) {
        size_t low = 0, high = length;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (anchors[tails[middle]].monotonic_ns <= anchors[i].monotonic_ns)
                low = middle + 1;
            else
                high = middle;
        }
        before[i] = low > 0 ? tails[low - 1] : SIZE_MAX;
        tails[low] = i;
        if (low == length)
            length++;
    }
    size_t at = length > 0 ? tails[length - 1] : SIZE_MAX;
    for (size_t i = length; i-- > 0; at = before[at])
        tails[i] = at;
    size_t kept = 0;
    for (size_t i = 0; i < length; i++)
        if (kept == 0 || anchors[kept - 1].ticks != anchors[tails[i]].ticks)
            anchors[kept++] = anchors[tails[i]];
    return kept;
}

static size_t copy_stable(struct clock_anchor *to, const struct clock_anchor *from, uint32_t count, bool *damaged) {
    size_t copied = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t version = __atomic_load_n(&from[i].version, __ATOMIC_ACQUIRE);
        if (version == 0 || version % 2 != 0)
            continue;
        to[copied] = from[i];
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&from[i].version, __ATOMIC_RELAXED) != version)
            continue;
        if (to[copied].monotonic_ns > NS_MAX || to[copied].realtime_ns > NS_MAX)
            *damaged = true;
        else
            copied++;
    }
    return copied;
}

static uint64_t rate_of(uint64_t ns, uint64_t ticks) {
    wide rate = ((wide)ns << RATE_SHIFT) / ticks;
    return rate > UINT64_MAX ? UINT64_MAX : (uint64_t)rate;
}

static uint64_t scale(uint64_t ticks, uint64_t rate) {
    wide ns = ((wide)ticks * rate) >> RATE_SHIFT;
    return ns > NS_MAX ? NS_MAX : (uint64_t)ns;
}

static uint64_t mean_rate(const struct dump *dump) {
    if (dump->anchor_count >= 2) {
        const struct clock_anchor *first = &dump->anchors[0], *last = &dump->anchors[dump->anchor_count - 1];
        if (last->monotonic_ns > first->monotonic_ns)
            return rate_of(last->monotonic_ns - first->monotonic_ns, last->ticks - first->ticks);
    }
    uint64_t hz = dump->header->tick_hz_hint;
    return rate_of(1000000000u, hz > 0 ? hz : 1000000000u);
}

/* A table over equal stretches of the run, so that finding a segment needs no search. */
static bool build_grid(struct clock_model *clock) {
    uint64_t span = clock->segments[clock->segment_count - 1].ticks - clock->segments[0].ticks;
    size_t cells = clock->segment_count * 2 < GRID_MAX ? clock->segment_count * 2 : GRID_MAX;
    while ((span >> clock->grid_shift) >= cells)
        clock->grid_shift++;
    size_t count = (size_t)(span >> clock->grid_shift) + 1;
    clock->grid = malloc(count * sizeof *clock->grid);
    if (!clock->grid)
        return false;
    uint32_t segment = 0;
    for (size_t cell = 0; cell < count; cell++) {
        uint64_t start = clock->segments[0].ticks + ((uint64_t)cell << clock->grid_shift);
        while (segment + 1 < clock->segment_count && clock->segments[segment + 1].ticks <= start)
            segment++;
        clock->grid[cell] = segment;
    }
    return true;
}

static bool build_segments(struct loaded *loaded) {
    const struct dump *dump = &loaded->dump;
    struct clock_model *clock = &loaded->clock;
    clock->mean_rate = mean_rate(dump);
    clock->segment_count = dump->anchor_count > 0 ? dump->anchor_count : 1;
    clock->segments = calloc(clock->segment_count, sizeof *clock->segments);
    if (!clock->segments)
        return false;
    for (size_t i = 0; i < dump->anchor_count; i++) {
        const struct clock_anchor *anchor = &dump->anchors[i];
        clock->segments[i].ticks = anchor->ticks;
        clock->segments[i].ns = anchor->monotonic_ns;
        if (i + 1 < dump->anchor_count)
            clock->segments[i].rate =
                rate_of(anchor[1].monotonic_ns - anchor->monotonic_ns, anchor[1].ticks - anchor->ticks);
    }
    clock->segments[clock->segment_count - 1].rate = clock->mean_rate;
    return build_grid(clock);
}

/* Most dumps have room for many more than they hold. */
static void trim_anchors(struct dump *dump) {
    size_t kept = dump->anchor_count > 0 ? dump->anchor_count : 1;
    struct clock_anchor *anchors = realloc(dump->anchors, kept * sizeof *anchors);
    dump->anchors = anchors ? anchors : dump->anchors;
}

bool clock_load(struct loaded *loaded, const struct clock_anchor *anchors, uint32_t count, uint64_t offset) {
    struct dump *dump = &loaded->dump;
    bool damaged = false;
    if (count > 0) {
        dump->anchors = malloc(count * sizeof *dump->anchors);
        size_t *work = malloc(2 * (size_t)count * sizeof *work);
        if (!dump->anchors || !work) {
            free(work);
            return false;
        }
        size_t stable = copy_stable(dump->anchors, anchors, count, &damaged);
        qsort(dump->anchors, stable, sizeof *dump->anchors, compare_anchors);
        dump->anchor_count = keep_rising(dump->anchors, stable, work, work + count);
        damaged |= dump->anchor_count < stable;
        free(work);
        trim_anchors(dump);
    }
    if (damaged)
        problem_add(dump, false, offset, "clock anchors that contradict the others are left out");
    if (dump->anchor_count == 0 && dump->header->state & STATE_INITIALISED) /* earlier there may be none yet */
        problem_add(dump, false, offset, "no clock anchors: times rest on the estimated tick rate");
    return build_segments(loaded);
}

void clock_free(struct clock_model *clock) {
    free(clock->segments);
    free(clock->grid);
}

int64_t dump_monotonic_ns(const struct dump *dump, uint64_t ticks) {
    const struct clock_model *clock = &loaded_of(dump)->clock;
    const struct clock_segment *segment = clock->segments;
    if (ticks < segment->ticks)
        return (int64_t)segment->ns - (int64_t)scale(segment->ticks - ticks, clock->mean_rate);
    const struct clock_segment *last = segment + clock->segment_count - 1;
    if (ticks >= last->ticks)
        return (int64_t)(last->ns + scale(ticks - last->ticks, last->rate));
    segment += clock->grid[(ticks - segment->ticks) >> clock->grid_shift];
    while (segment[1].ticks <= ticks)
        segment++;
    return (int64_t)(segment->ns + scale(ticks - segment->ticks, segment->rate));
}

uint64_t dump_ticks_at(const struct dump *dump, uint64_t monotonic_ns) {
    const struct clock_model *clock = &loaded_of(dump)->clock;
    size_t low = 0, high = clock->segment_count; /* the last segment that begins at or before, or the first */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (clock->segments[middle].ns <= monotonic_ns)
            low = middle;
        else
            high = middle;
    }
    const struct clock_segment *segment = &clock->segments[low];
    bool after = monotonic_ns >= segment->ns;
    uint64_t rate = after ? segment->rate : clock->mean_rate;
    uint64_t distance = after ? monotonic_ns - segment->ns : segment->ns - monotonic_ns;
    wide ticks = rate > 0 ? ((wide)distance << RATE_SHIFT) / rate : 0;
    if (after)
        return ticks < UINT64_MAX - segment->ticks ? segment->ticks + (uint64_t)ticks : UINT64_MAX;
    return ticks < segment->ticks ? segment->ticks - (uint64_t)ticks : 0;
}

int64_t dump_realtime_ns(const struct dump *dump, uint64_t ticks) {
    int64_t monotonic = dump_monotonic_ns(dump, ticks);
    if (dump->anchor_count == 0)
        return monotonic;
    size_t low = 0, high = dump->anchor_count; /* the last anchor at or before, or the first */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (dump->anchors[middle].ticks <= ticks)
            low = middle;
        else
            high = middle;
    }
    const struct clock_anchor *anchor = &dump->anchors[low];
    int64_t offset = (int64_t)(anchor->realtime_ns - anchor->monotonic_ns);
    if (low + 1 < dump->anchor_count && ticks > anchor->ticks) {
        /* the system's clock is slewed: its distance from the monotonic one drifts from anchor to anchor */
        int64_t drift = (int64_t)(anchor[1].realtime_ns - anchor[1].monotonic_ns) - offset;
        offset += (int64_t)((__int128)drift * (__int128)(ticks - anchor->ticks) /
                            (__int128)(anchor[1].ticks - anchor->ticks));
    }
    return monotonic + offset;
}

int64_t dump_duration_ns(const struct dump *dump, uint64_t ticks) {
    wide ns = (((wide)ticks * loaded_of(dump)->clock.mean_rate) + ((wide)1 << (RATE_SHIFT - 1))) >> RATE_SHIFT;
    return ns > NS_MAX ? (int64_t)NS_MAX : (int64_t)ns;
}
