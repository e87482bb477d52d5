/* SPDX-License-Identifier: Apache-2.0
 *
 * Grouping dumps by host and by clock domain, first guesses from CLOCK_REALTIME, then what the records prove.
 * Must not live here: how maps are found (estimate.c), matching for analysis.
 */
#include "analyzer/align/align.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/align/estimate.h"
#include "analyzer/align/observations.h"
#include "analyzer/base/statistics.h"

/* Where no boot id could be read the name has to do. */
static bool same_host(const struct dump *a, const struct dump *b) {
    return strcmp(a->boot_id, b->boot_id) == 0 && (a->boot_id[0] || strcmp(a->host, b->host) == 0);
}

static bool same_clock(const struct dump *a, const struct dump *b) {
    return same_host(a, b) && a->header->time_namespace == b->header->time_namespace;
}

static bool group_hosts(struct common_clock *clock) {
    clock->hosts = calloc(clock->dump_count, sizeof *clock->hosts);
    clock->host_of = calloc(clock->dump_count, sizeof *clock->host_of);
    if (!clock->hosts || !clock->host_of)
        return false;
    for (size_t i = 0; i < clock->dump_count; i++) {
        const struct dump *dump = clock->dumps[i];
        size_t host = clock->host_count; /* neighbours in rank order are mostly on one host: look there first */
        while (host > 0 && !same_host(dump, clock->dumps[clock->hosts[host - 1].first_dump]))
            host--;
        if (host == 0) {
            host = ++clock->host_count;
            clock->hosts[host - 1] = (struct clock_host){.name = dump->host, .first_dump = i};
        }
        clock->host_of[i] = (uint32_t)(host - 1);
    }
    return true;
}

static bool group_domains(struct common_clock *clock) {
    clock->domains = calloc(clock->dump_count, sizeof *clock->domains);
    clock->domain_of = calloc(clock->dump_count, sizeof *clock->domain_of);
    clock->reading_error = calloc(clock->dump_count, sizeof *clock->reading_error);
    clock->device_error = calloc(clock->dump_count, sizeof *clock->device_error);
    if (!clock->domains || !clock->domain_of || !clock->reading_error || !clock->device_error)
        return false;
    for (size_t i = 0; i < clock->dump_count; i++) {
        const struct dump *dump = clock->dumps[i];
        size_t domain = clock->domain_count; /* neighbours in rank order are mostly in one domain: look there first */
        while (domain > 0 && !same_clock(dump, clock->dumps[clock->domains[domain - 1].first_dump]))
            domain--;
        if (domain == 0) {
            domain = ++clock->domain_count;
            clock->domains[domain - 1] =
                (struct clock_domain){.first_dump = i, .first_ns = NS_MOST, .last_ns = -NS_MOST};
        }
        clock->domains[domain - 1].dump_count++;
        clock->domain_of[i] = (uint32_t)(domain - 1);
    }
    return true;
}

/* Half the width of the anchors that a dump's clock rests on: the median, because one wide anchor between narrow ones
 * moves only its own neighbourhood. */
static int64_t anchor_error(const struct dump *dump) {
    int64_t widths[64];
    size_t count = dump->anchor_count < 64 ? dump->anchor_count : 64;
    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        widths[i] = dump_duration_ns(dump, dump->anchors[i * dump->anchor_count / count].width_ticks);
    return (median_high_int64(widths, count) + 1) / 2;
}

static int64_t half_width(uint64_t width_ns) {
    return width_ns < NS_MOST ? (int64_t)((width_ns + 1) / 2) : NS_MOST;
}

/* Half the width of the widest device anchor in use. */
static int64_t device_error(const struct dump *dump) {
    uint64_t widest = 0;
    for (uint32_t i = 0; i < dump->device_anchor_count; i++) {
        const struct device_anchor *anchor = &dump->device_anchors[i];
        if (anchor->version && anchor->version % 2 == 0 && anchor->width_ns > widest)
            widest = anchor->width_ns;
    }
    return half_width(widest);
}

static bool is_settled(const struct device_anchor *anchor, uint32_t device) {
    return anchor->version && anchor->version % 2 == 0 && anchor->device == device;
}

/* When a GPU's second anchor was taken, UINT64_MAX where there is none; its first one in `first`, NULL without any. */
static uint64_t second_anchor(const struct dump *dump, uint32_t device, const struct device_anchor **first) {
    uint64_t second = UINT64_MAX;
    *first = NULL;
    for (uint32_t i = 0; i < dump->device_anchor_count; i++) {
        const struct device_anchor *anchor = &dump->device_anchors[i];
        if (!is_settled(anchor, device))
            continue;
        if (!*first || anchor->monotonic_ns < (*first)->monotonic_ns) {
            second = *first ? (*first)->monotonic_ns : second;
            *first = anchor;
        } else if (anchor->monotonic_ns < second) {
            second = anchor->monotonic_ns;
        }
    }
    return second;
}

/* Wider ones than this are kept only where there is no other (shim/gpu/device_clock.c): then the next one follows
 * within a quarter of a second, otherwise after seconds. */
#define ANCHOR_WIDE_NS 100000u

static bool has_wide_first(const struct dump *dump) {
    const struct device_anchor *first;
    for (uint32_t d = 0; d < dump->device_count; d++) {
        second_anchor(dump, d, &first);
        if (first && first->width_ns > ANCHOR_WIDE_NS)
            return true;
    }
    return false;
}

/* Adds a GPU to those of the dump. Where `keep_narrow` a first anchor that is no wider than others counts as one of
 * them: the next may come after the end of the job. */
static void settle_device(const struct common_clock *clock, size_t index, uint32_t device, bool keep_narrow,
                          struct device_settled *found) {
    const struct dump *dump = clock->dumps[index];
    const struct device_anchor *first;
    uint64_t second = second_anchor(dump, device, &first);
    if (!first)
        return;
    bool keep = keep_narrow && first->width_ns <= ANCHOR_WIDE_NS;
    /* what was read against the first one may seem to be later than it was */
    int64_t at = keep                   ? INT64_MIN
                 : second == UINT64_MAX ? INT64_MAX
                                        : add_ns(device_to_common(clock, index, second), half_width(first->width_ns));
    found->at_ns = at > found->at_ns ? at : found->at_ns;
    for (uint32_t i = 0; i < dump->device_anchor_count; i++) {
        const struct device_anchor *anchor = &dump->device_anchors[i];
        bool counts = is_settled(anchor, device) && (keep || anchor != first);
        int64_t half = counts ? half_width(anchor->width_ns) : 0;
        found->error_ns = half > found->error_ns ? half : found->error_ns;
    }
}

/* From when on the wide anchors that GPUs began with tell of nothing any more. */
static struct device_settled settled(const struct common_clock *clock, size_t index) {
    const struct dump *dump = clock->dumps[index];
    struct device_settled found = {INT64_MIN, 0};
    bool keep_narrow = has_wide_first(dump);
    for (uint32_t d = 0; d < dump->device_count; d++)
        settle_device(clock, index, d, keep_narrow, &found);
    return found.error_ns > 0 ? found : (struct device_settled){INT64_MAX, 0};
}

static bool settle_devices(struct common_clock *clock) {
    clock->device_settled = calloc(clock->dump_count, sizeof *clock->device_settled);
    for (size_t i = 0; clock->device_settled && i < clock->dump_count; i++)
        clock->device_settled[i] = settled(clock, i);
    return clock->device_settled != NULL;
}

static void bound_by_anchors(struct common_clock *clock) {
    for (size_t i = 0; i < clock->dump_count; i++) {
        struct clock_domain *domain = &clock->domains[clock->domain_of[i]];
        const struct dump *dump = clock->dumps[i];
        clock->reading_error[i] = anchor_error(dump);
        clock->device_error[i] = device_error(dump);
        int64_t first = dump_monotonic_ns(dump, dump->header->activated_ticks), last = first;
        if (dump->anchor_count > 0)
            last = dump_monotonic_ns(dump, dump->anchors[dump->anchor_count - 1].ticks);
        domain->first_ns = first < domain->first_ns ? first : domain->first_ns;
        domain->last_ns = last > domain->last_ns ? last : domain->last_ns;
        if (clock->reading_error[i] > domain->error_ns)
            domain->error_ns = clock->reading_error[i];
    }
}

/* CLOCK_REALTIME minus CLOCK_MONOTONIC of a domain: the median over the anchors of its first dump. */
static int64_t realtime_offset(const struct dump *dump) {
    int64_t offsets[64];
    size_t count = dump->anchor_count < 64 ? dump->anchor_count : 64;
    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const struct clock_anchor *anchor = &dump->anchors[i * dump->anchor_count / count];
        offsets[i] = (int64_t)anchor->realtime_ns - (int64_t)anchor->monotonic_ns;
    }
    return median_high_int64(offsets, count);
}

static bool estimate_offsets(struct common_clock *clock) {
    int64_t reference_realtime = realtime_offset(clock->dumps[0]);
    for (size_t h = 1; h < clock->domain_count; h++)
        clock->domains[h].offset_ns = realtime_offset(clock->dumps[clock->domains[h].first_dump]) - reference_realtime;
    struct observations observations;
    bool done = observations_collect(&observations, clock) &&
                clock_estimate(clock->domains, clock->domain_count, &observations);
    observations_free(&observations);
    return done;
}

bool common_clock_build(struct common_clock *clock, struct dump *const *dumps, size_t count) {
    *clock = (struct common_clock){.dumps = dumps, .dump_count = count};
    if (group_hosts(clock) && group_domains(clock)) {
        bound_by_anchors(clock);
        if ((clock->domain_count == 1 || estimate_offsets(clock)) && settle_devices(clock))
            return true;
    }
    common_clock_free(clock);
    return false;
}
