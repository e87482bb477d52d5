/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/waits/delays.h"

#include "analyzer/base/hash.h"
#include "analyzer/base/ns.h"

/* What a stretch of time is added to: a new item is made for the late rank only. */
static void add_time(struct delays *delays, const struct timeline *timeline, uint32_t site, bool inside, int64_t length,
                     bool late) {
    uint64_t way = timeline_sites_items(&timeline->sites)[site].way ^ (inside ? UINT64_C(0xd6e8feb86659fd93) : 0);
    size_t at = (size_t)(hash_mix(way, 0) >> 20) % DELAYS_SLOTS;
    while (delays->slots[at] != 0 && delays->items[delays->slots[at] - 1].way != way)
        at = (at + 1) % DELAYS_SLOTS;
    if (delays->slots[at] == 0) {
        if (!late || delays->count == DELAYS_MOST)
            return;
        delays->used[delays->count] = (uint16_t)at;
        delays->items[delays->count] = (struct delay){.way = way, .site = site, .inside = inside};
        delays->slots[at] = (uint16_t)++delays->count;
    }
    struct delay *delay = &delays->items[delays->slots[at] - 1];
    delay->longer = add_ns(delay->longer, late ? length : -length);
}

/* All of a rank's time between two moments, from the end. */
static void add_side(struct delays *delays, struct delays_side side, int64_t from, int64_t to, bool late) {
    const struct timeline *timeline = side.timeline;
    for (size_t next = side.cursor; next > 0 && to > from; next--) {
        const struct stretch *stretch = &timeline->stretches[next - 1]; /* the last that begins before `to` */
        int64_t end = stretch->to > to ? to : stretch->to > from ? stretch->to : from;
        int64_t begin = stretch->from > from ? stretch->from : from;
        if (to > end)
            add_time(delays, timeline, next < timeline->count ? timeline->stretches[next].site : TIMELINE_NOWHERE,
                     false, to - end, late);
        if (end - begin > stretch->waited)
            add_time(delays, timeline, stretch->site, true, end - begin - stretch->waited, late);
        to = begin;
    }
}

/* Where the last DELAYS_BACK stretches begin. */
static int64_t reach(struct delays_side side) {
    return side.cursor > DELAYS_BACK ? side.timeline->stretches[side.cursor - DELAYS_BACK].from : -NS_MOST;
}

static int64_t own_between(struct delays_side side, int64_t from, int64_t to) {
    return timeline_own_before(side.timeline, to) - timeline_own_before(side.timeline, from);
}

/* Leaves what the late rank took longer for. */
static void keep_longer(struct delays *delays) {
    size_t kept = 0;
    delays->total = 0;
    for (size_t i = 0; i < delays->count; i++)
        if (delays->items[i].longer > 0) {
            delays->total = add_ns(delays->total, delays->items[i].longer);
            delays->items[kept++] = delays->items[i];
        }
    delays->count = kept;
}

void delays_compare(struct delays *delays, struct delays_side late, struct delays_side waiting, int64_t from,
                    int64_t to) {
    int64_t since = from;
    since = reach(late) > since ? reach(late) : since;
    since = reach(waiting) > since ? reach(waiting) : since;
    delays->count = 0;
    add_side(delays, late, since, to, true);
    add_side(delays, waiting, since, to, false);
    for (size_t i = 0; i < delays->count; i++)
        delays->slots[delays->used[i]] = 0;
    keep_longer(delays);
    int64_t before = since > from ? own_between(late, from, since) - own_between(waiting, from, since) : 0;
    if (before > 0 && delays->count < DELAYS_MOST) {
        delays->items[delays->count++] = (struct delay){.site = TIMELINE_NOWHERE, .longer = before};
        delays->total = add_ns(delays->total, before);
    }
}
