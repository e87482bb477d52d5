/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/wait_for_graph/moments.h"

#include <string.h>

int64_t difference_ns(int64_t later, int64_t earlier) {
    int64_t result;
    return __builtin_sub_overflow(later, earlier, &result) ? 0 : result;
}

struct moment moment_of(const struct dump *dump, uint64_t ticks) {
    return (struct moment){dump->boot_id, dump_monotonic_ns(dump, ticks), dump_realtime_ns(dump, ticks)};
}

struct moment moment_at(const struct dump *dump, int64_t monotonic_ns) {
    uint64_t ticks = dump_ticks_at(dump, (uint64_t)monotonic_ns);
    return (struct moment){dump->boot_id, monotonic_ns, dump_realtime_ns(dump, ticks)};
}

static bool same_host(const struct moment *a, const struct moment *b) {
    return strcmp(a->boot_id, b->boot_id) == 0;
}

int64_t moment_here(const struct dump *dump, const struct moment *moment) {
    struct moment mine = moment_of(dump, last_sign_of_life(dump));
    if (same_host(&mine, moment))
        return moment->monotonic_ns;
    int64_t ahead = difference_ns(mine.realtime_ns, mine.monotonic_ns);
    return difference_ns(difference_ns(moment->realtime_ns, ahead), REALTIME_APART_NS);
}

uint64_t ticks_elsewhere(const struct dump *dump, uint64_t ticks, const struct dump *other) {
    struct moment moment = moment_of(dump, ticks);
    bool counter = dump->header->clock_kind == other->header->clock_kind &&
                   dump->header->clock_kind != CLOCK_KIND_MONOTONIC && strcmp(dump->boot_id, other->boot_id) == 0;
    int64_t there = counter ? 0 : moment_here(other, &moment);
    return counter ? ticks : there > 0 ? dump_ticks_at(other, (uint64_t)there) : 0;
}

bool moment_is_earlier(const struct moment *a, const struct moment *b) {
    return same_host(a, b) ? a->monotonic_ns < b->monotonic_ns : a->realtime_ns < b->realtime_ns;
}

int64_t moments_apart(const struct moment *a, const struct moment *b) {
    int64_t apart = same_host(a, b) ? difference_ns(a->monotonic_ns, b->monotonic_ns)
                                    : difference_ns(a->realtime_ns, b->realtime_ns);
    return apart == INT64_MIN ? INT64_MAX : apart < 0 ? -apart : apart;
}

/* ---- signs of life --------------------------------------------------------------------------- */

static void newer_ticks(uint64_t *last, uint64_t ticks) {
    if (ticks > *last)
        *last = ticks;
}

bool newest_record(const struct dump *dump, uint32_t number, struct record *newest) {
    const struct dump_lane *lane = &dump->lanes[number];
    struct record_reader reader;
    record_reader_begin(&reader, dump, number);
    for (uint64_t t = lane->end_ticket; t > lane->first_ticket; t--) {
        const struct record *record = record_reader_at(&reader, t - 1);
        if (record) {
            *newest = *record;
            return true;
        }
    }
    return false;
}

uint64_t last_sign_of_life(const struct dump *dump) {
    const struct dump_header *header = dump->header;
    uint64_t last = header->activated_ticks;
    newer_ticks(&last, header->initialised_ticks);
    newer_ticks(&last, header->finalise_ticks);
    if (dump->anchor_count > 0)
        newer_ticks(&last, dump->anchors[dump->anchor_count - 1].ticks);
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        if (dump->in_flight[i].tid == 0)
            continue;
        newer_ticks(&last, dump->in_flight[i].last_leave);
        if (dump->in_flight[i].call)
            newer_ticks(&last, dump->in_flight[i].enter);
    }
    for (uint32_t i = 0; i < dump->communicator_count; i++)
        if (dump->communicators[i].progress)
            newer_ticks(&last, dump->communicators[i].progress->last_enter);
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        struct record newest;
        if (newest_record(dump, i, &newest) && !record_is_device(&newest))
            newer_ticks(&last, newest.t1);
    }
    return last;
}
