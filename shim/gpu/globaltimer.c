/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of globaltimer.h.
 */
#include "shim/gpu/globaltimer.h"

static int64_t drift_since(uint64_t then, uint64_t now) {
    return now > then ? (int64_t)((now - then) / 1000000 * GLOBALTIMER_DRIFT_PPM) : 0;
}

/* Bounds that contradict each other: a clock was set. The older one is of before. */
static void settle(struct globaltimer *clock, bool lower_is_new) {
    if (!clock->lower_ns || !clock->upper_ns || clock->lower <= clock->upper)
        return;
    if (lower_is_new)
        clock->upper_ns = 0;
    else
        clock->lower_ns = 0;
}

void globaltimer_not_before(struct globaltimer *clock, uint64_t stamp, uint64_t host_ns) {
    int64_t bound = (int64_t)(host_ns - stamp);
    int64_t old = clock->lower - drift_since(clock->lower_ns, host_ns);
    clock->lower = clock->lower_ns && old > bound ? old : bound;
    if (host_ns > clock->lower_ns)
        clock->lower_ns = host_ns;
    settle(clock, true);
}

void globaltimer_not_after(struct globaltimer *clock, uint64_t stamp, uint64_t host_ns) {
    int64_t bound = (int64_t)(host_ns - stamp);
    int64_t old = clock->upper + drift_since(clock->upper_ns, host_ns);
    clock->upper = clock->upper_ns && old < bound ? old : bound;
    if (host_ns > clock->upper_ns)
        clock->upper_ns = host_ns;
    settle(clock, false);
}

bool globaltimer_distance(const struct globaltimer *clock, int64_t *distance, uint64_t *width) {
    if (!clock->upper_ns)
        return false;
    int64_t likely = clock->upper - GLOBALTIMER_FETCH_NS / 2;
    *distance = likely;
    *width = 0;
    if (!clock->lower_ns)
        return true;
    int64_t middle = clock->lower + (clock->upper - clock->lower) / 2;
    *distance = middle > likely ? middle : likely;
    *width = 2 * (uint64_t)(*distance - clock->lower) + 1;
    return true;
}
