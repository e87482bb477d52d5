/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/waits/timeline.h"

#include "analyzer/base/hash.h"
#include "analyzer/base/ns.h"
#include "analyzer/base/grow.h"

bool timeline_init(struct timeline *timeline) {
    *timeline = (struct timeline){0};
    struct timeline_site_key nowhere = {STACK_NONE, CALL_UNKNOWN}; /* the first: TIMELINE_NOWHERE */
    return timeline_sites_add(&timeline->sites, &nowhere) != NULL;
}

void timeline_free(struct timeline *timeline) {
    free(timeline->stretches);
    hash_table_free(&timeline->sites);
    *timeline = (struct timeline){0};
}

/* ---- sites ----------------------------------------------------------------------------------- */

/* The number of a call site, TIMELINE_NOWHERE when memory is short. */
static uint32_t site_of(struct timeline *timeline, const struct dump *dump, uint32_t stack, uint16_t call) {
    size_t known = timeline->sites.count;
    struct timeline_site *site = timeline_sites_add(&timeline->sites, &(struct timeline_site_key){stack, call});
    if (!site)
        return TIMELINE_NOWHERE;
    if (timeline->sites.count > known)
        site->way = hash_mix(dump_stack_way(dump, stack), call);
    return (uint32_t)(site - timeline_sites_items(&timeline->sites));
}

/* ---- stretches ------------------------------------------------------------------------------- */

static bool is_communication(const struct match_record *item, const struct call_name *call, bool device) {
    enum record_kind kind = item->record->kind;
    if (kind == RECORD_GPU || kind == RECORD_KERNEL)
        return true;
    if (kind != RECORD_CALL && kind != RECORD_POST && kind != RECORD_POLL)
        return false;
    return !(call->api == API_NCCL && device) && call->call_class != CLASS_OTHER && call->call_class != CLASS_FILE;
}

static bool is_poll(const struct call_name *call) {
    return call->call_class == CLASS_TEST || call->call_class == CLASS_PROBE;
}

/* Makes way for a call that got what the lane's polls so far asked for: its stretch begins with theirs. */
static bool replaces_polls(struct timeline *timeline, const struct match_record *item) {
    bool replaces = item->since < item->t0 && timeline->polled_by == item->lane + 1;
    if (replaces)
        timeline->count--;
    timeline->polled_by = 0;
    return replaces;
}

bool timeline_add(struct timeline *timeline, const struct match_directory *directory, const struct match_record *item) {
    const struct dump *dump = directory->dumps[item->dump];
    if (item->call == CALL_UNKNOWN ||
        !is_communication(item, directory->calls[item->call].name, dump_has_device_times(dump)))
        return true;
    bool with_polls = replaces_polls(timeline, item);
    bool follows = timeline->count > 0;
    const struct stretch last = follows ? timeline->stretches[timeline->count - 1] : (struct stretch){0};
    struct stretch stretch = {.from = with_polls ? item->since : item->t0,
                              .to = item->t1 > item->t0 ? item->t1 : item->t0};
    if (follows && stretch.from <= last.to) {
        if (stretch.to <= last.to)
            return true;
        stretch.from = last.to;
    }
    if (follows)
        stretch.own_before = add_ns(last.own_before, stretch.from - last.to);
    stretch.site = site_of(timeline, dump, item->record->stack, item->call);
    if (stretch.site == TIMELINE_NOWHERE || !grow_list(timeline->stretches, timeline->count))
        return false;
    timeline->stretches[timeline->count++] = stretch;
    if (is_poll(directory->calls[item->call].name) && stretch.from == (with_polls ? item->since : item->t0))
        timeline->polled_by = item->lane + 1;
    return true;
}

/* All of its time counts as waited for others: nobody is charged for it, and nothing in it is compared. */
bool timeline_add_hole(struct timeline *timeline, int64_t until) {
    struct stretch hole = {.from = until, .to = until, .site = TIMELINE_NOWHERE, .hole = true};
    if (timeline->count > 0) {
        const struct stretch *last = &timeline->stretches[timeline->count - 1];
        if (last->to > until)
            return true;
        hole.from = last->to;
        hole.own_before = last->own_before;
    }
    hole.waited = hole.to - hole.from;
    timeline->polled_by = 0;
    if (!grow_list(timeline->stretches, timeline->count))
        return false;
    timeline->stretches[timeline->count++] = hole;
    return true;
}

void timeline_parcel(struct timeline *timeline, struct parcel *parcel) {
    parcel_list(parcel, timeline->stretches, timeline->count);
    parcel_table(parcel, &timeline->sites, struct timeline_site);
}

size_t timeline_until(const struct timeline *timeline, int64_t at) {
    size_t low = 0, high = timeline->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (timeline->stretches[middle].from <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t timeline_own_before(const struct timeline *timeline, int64_t at) {
    size_t begun = timeline_until(timeline, at);
    if (begun == 0)
        return 0;
    const struct stretch *stretch = &timeline->stretches[begun - 1];
    return at > stretch->to ? add_ns(stretch->own_before, at - stretch->to) : stretch->own_before;
}

size_t timeline_back_to(const struct timeline *timeline, size_t cursor, int64_t at) {
    while (cursor > 0 && timeline->stretches[cursor - 1].from > at)
        cursor--;
    return cursor;
}

uint32_t timeline_site_at(const struct timeline *timeline, size_t cursor, int64_t at) {
    if (cursor > 0 && at <= timeline->stretches[cursor - 1].to)
        return timeline->stretches[cursor - 1].site;
    return cursor < timeline->count ? timeline->stretches[cursor].site : TIMELINE_NOWHERE;
}
