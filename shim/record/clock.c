/* SPDX-License-Identifier: Apache-2.0
 *
 * Clock choice and anchors (clock.h).
 * A triple (ticks, MONOTONIC, REALTIME) is taken at activation and about every second when a call ends; when the table
 * is full every second anchor goes and the interval doubles, so a day-long job fits in a few hundred anchors.
 */
#include "shim/record/clock.h"

#include <string.h>

bool clock_is_monotonic;

#define FIRST_HZ_SPIN_NS 50000u /* 50 us at activation tell the rate to about 1e-3; anchors refine it */

enum clock_kind clock_choose(void) {
#if defined(__x86_64__)
    char source[32];
    ssize_t n =
        read_small_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
    clock_is_monotonic = n < 3 || strncmp(source, "tsc", 3) != 0;
    return clock_is_monotonic ? CLOCK_KIND_MONOTONIC : CLOCK_KIND_TSC;
#else
    clock_is_monotonic = false;
    return CLOCK_KIND_CNTVCT;
#endif
}

/* The narrowest of a few readings: an interrupt between the clock calls must not become a clock error. */
static struct clock_anchor read_clocks(void) {
    struct clock_anchor best = {.width_ticks = UINT64_MAX};
    for (int i = 0; i < 3; i++) {
        uint64_t before = ticks();
        uint64_t monotonic = os_monotonic_ns(), realtime = os_realtime_ns();
        uint64_t after = ticks();
        if (after - before < best.width_ticks)
            best = (struct clock_anchor){.ticks = before + (after - before) / 2,
                                         .monotonic_ns = monotonic,
                                         .realtime_ns = realtime,
                                         .width_ticks = after - before};
    }
    return best;
}

static void store(struct clock_anchor *slot, const struct clock_anchor *value) {
    uint64_t version = slot->version | 1;
    __atomic_store_n(&slot->version, version, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    slot->ticks = value->ticks;
    slot->monotonic_ns = value->monotonic_ns;
    slot->realtime_ns = value->realtime_ns;
    slot->width_ticks = value->width_ticks;
    __atomic_store_n(&slot->version, version + 1, __ATOMIC_RELEASE);
}

/* Moves anchors 0, 2, 4 ... to the front. A crash on the way leaves doubles, which readers drop. */
static void thin(struct anchors *a) {
    for (uint32_t i = 1; i < a->used / 2; i++) {
        struct clock_anchor moved = a->table[(size_t)2 * i];
        store(&a->table[i], &moved);
    }
    for (uint32_t i = a->used / 2; i < a->used; i++)
        __atomic_store_n(&a->table[i].version, 0, __ATOMIC_RELEASE);
    a->used /= 2;
    a->interval_ticks *= 2;
}

static void append_anchor(struct anchors *a, const struct clock_anchor *anchor) {
    if (a->used == a->capacity || (a->file && !dumpfile_make_room(a->file, &a->table[a->used], sizeof *a->table)))
        thin(a);
    store(&a->table[a->used++], anchor);
    a->last_ticks = anchor->ticks;
    a->last_realtime = anchor->realtime_ns;
    __atomic_store_n(&a->next_due, anchor->ticks + a->interval_ticks, __ATOMIC_RELAXED);
}

static uint64_t estimate_hz(void) {
    if (clock_is_monotonic)
        return 1000000000u;
    struct clock_anchor from = read_clocks(), to;
    do
        to = read_clocks();
    while (to.monotonic_ns - from.monotonic_ns < FIRST_HZ_SPIN_NS);
    return (uint64_t)((unsigned __int128)(to.ticks - from.ticks) * 1000000000u / (to.monotonic_ns - from.monotonic_ns));
}

void anchors_begin(struct anchors *a, struct dumpfile *file, struct clock_anchor *table, uint32_t capacity) {
    *a = (struct anchors){.file = file, .table = table, .capacity = capacity, .tick_hz = estimate_hz()};
    a->interval_ticks = a->tick_hz;
    struct clock_anchor first = read_clocks();
    a->first_ticks = first.ticks;
    a->first_monotonic = first.monotonic_ns;
    append_anchor(a, &first);
}

void anchors_take(struct anchors *a) {
    if (__atomic_exchange_n(&a->busy, 1, __ATOMIC_ACQUIRE))
        return;
    struct clock_anchor now = read_clocks();
    uint64_t elapsed = now.monotonic_ns - a->first_monotonic;
    if (elapsed > 100000000u)
        a->tick_hz = (uint64_t)((unsigned __int128)(now.ticks - a->first_ticks) * 1000000000u / elapsed);
    append_anchor(a, &now);
    __atomic_store_n(&a->busy, 0, __ATOMIC_RELEASE);
}

uint64_t anchors_ns(const struct anchors *a, uint64_t length_ticks) {
    return (uint64_t)((unsigned __int128)length_ticks * 1000000000u / a->tick_hz);
}

uint64_t anchors_realtime_ns(const struct anchors *a, uint64_t at_ticks) {
    int64_t distance = (int64_t)(at_ticks - a->last_ticks);
    return distance < 0 ? a->last_realtime - anchors_ns(a, (uint64_t)-distance)
                        : a->last_realtime + anchors_ns(a, (uint64_t)distance);
}

uint64_t anchors_ticks(const struct anchors *a, uint64_t realtime_ns) {
    int64_t distance = (int64_t)(realtime_ns - a->last_realtime);
    uint64_t length = (uint64_t)((unsigned __int128)(distance < 0 ? -distance : distance) * a->tick_hz / 1000000000u);
    return distance < 0 ? a->last_ticks - length : a->last_ticks + length;
}
