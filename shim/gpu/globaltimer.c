/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/globaltimer.h"

static int64_t drift_since(uint64_t then, uint64_t now) {
    return now > then ? (int64_t)((now - then) / 1000000 * GLOBALTIMER_DRIFT_PPM) : 0;
}

/* Bounds that contradict each other: a clock was set. The older one is of before. */
static void settle_bounds(struct globaltimer *clock, bool lower_is_new) {
    if (!clock->lower_ns || !clock->upper_ns || clock->lower <= clock->upper)
        return;
    if (lower_is_new)
        clock->upper_ns = clock->fetches = 0;
    else
        clock->lower_ns = 0;
}

void globaltimer_not_before(struct globaltimer *clock, uint64_t stamp, uint64_t host_ns) {
    int64_t bound = (int64_t)(host_ns - stamp);
    int64_t old = clock->lower - drift_since(clock->lower_ns, host_ns);
    clock->lower = clock->lower_ns && old > bound ? old : bound;
    if (host_ns > clock->lower_ns)
        clock->lower_ns = host_ns;
    settle_bounds(clock, true);
}

void globaltimer_not_after(struct globaltimer *clock, uint64_t stamp, uint64_t host_ns) {
    int64_t bound = (int64_t)(host_ns - stamp);
    int64_t old = clock->upper + drift_since(clock->upper_ns, host_ns);
    clock->upper = clock->upper_ns && old < bound ? old : bound;
    if (host_ns > clock->upper_ns)
        clock->upper_ns = host_ns;
    clock->fetches += clock->fetches < GLOBALTIMER_FETCHES;
    settle_bounds(clock, false);
}

bool globaltimer_distance(const struct globaltimer *clock, int64_t *distance, uint64_t *width) {
    int64_t earliest = clock->upper - GLOBALTIMER_FETCH_NS;
    bool bounded = clock->lower_ns && (clock->lower > earliest || clock->fetches < GLOBALTIMER_FETCHES);
    if (!clock->upper_ns)
        return false;
    if (bounded)
        earliest = clock->lower;
    *distance = earliest + (clock->upper - earliest) / 2;
    *width = bounded || clock->fetches >= GLOBALTIMER_FETCHES ? (uint64_t)(clock->upper - earliest) + 1 : 0;
    return true;
}
