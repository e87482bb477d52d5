/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/align/common_clock.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/statistics.h"

int64_t clock_domain_common(const struct clock_domain *domain, int64_t monotonic_ns) {
    const struct clock_knot *knots = domain->knots;
    if (domain->knot_count < 2)
        return add_ns(monotonic_ns, domain->offset_ns);
    size_t low = 1, high = domain->knot_count - 1; /* the end of the stretch it lies in */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (monotonic_ns > knots[middle].at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    double span = (double)(knots[low].at_ns - knots[low - 1].at_ns);
    double drift = span > 0 ? (double)(knots[low].offset_ns - knots[low - 1].offset_ns) / span : 0;
    int64_t since = add_ns(monotonic_ns, -knots[low - 1].at_ns);
    return add_ns(monotonic_ns, add_ns(knots[low - 1].offset_ns, ns_clamped(round(drift * (double)since))));
}

void common_clock_free(struct common_clock *clock) {
    for (size_t h = 0; h < clock->domain_count; h++)
        free(clock->domains[h].knots);
    free(clock->domains);
    free(clock->domain_of);
    free(clock->hosts);
    free(clock->host_of);
    free(clock->reading_error);
    free(clock->device_error);
    free(clock->device_settled);
    *clock = (struct common_clock){0};
}

/* ---- error ----------------------------------------------------------------------------------- */

static int64_t add_errors(int64_t a, int64_t b) {
    return a == CLOCK_ERROR_UNKNOWN || b == CLOCK_ERROR_UNKNOWN ? CLOCK_ERROR_UNKNOWN : a + b;
}

int64_t common_clock_error(const struct common_clock *clock, size_t dump_a, size_t dump_b) {
    const struct clock_domain *a = &clock->domains[clock->domain_of[dump_a]],
                              *b = &clock->domains[clock->domain_of[dump_b]];
    if (a == b) /* the offset cancels out: what is left is reading two clocks */
        return clock->reading_error[dump_a] + clock->reading_error[dump_b];
    return add_errors(a->error_ns, b->error_ns);
}

int64_t common_clock_worst_error(const struct common_clock *clock) {
    int64_t first = 0, second = 0; /* the two largest errors of domains */
    for (size_t h = 0; h < clock->domain_count; h++) {
        int64_t error = clock->domains[h].error_ns;
        if (error > first) {
            second = first;
            first = error;
        } else if (error > second) {
            second = error;
        }
    }
    return clock->domain_count > 1 ? add_errors(first, second) : 2 * first;
}
