/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/waits/timeline.h"

#include "analyzer/base/ns.h"
#include "analyzer/base/grow.h"

enum { TABLE_LEAST = 64 };

bool timeline_init(struct timeline *timeline) {
    *timeline = (struct timeline){.table = calloc(TABLE_LEAST, sizeof *timeline->table)};
    if (!timeline->table || !grow_for_one((void **)&timeline->sites, 0, &timeline->site_room, sizeof *timeline->sites))
        return false;
    timeline->table_size = TABLE_LEAST;
    timeline->sites[timeline->site_count++] =
        (struct timeline_site){.stack = STACK_NONE, .call = CALL_UNKNOWN}; /* TIMELINE_NOWHERE */
    return true;
}

void timeline_free(struct timeline *timeline) {
    free(timeline->stretches);
    free(timeline->sites);
    free(timeline->table);
    *timeline = (struct timeline){0};
}

/* ---- sites ----------------------------------------------------------------------------------- */

static size_t slot_of(const struct timeline *timeline, const uint32_t *table, size_t size, uint32_t stack,
                      uint16_t call) {
    size_t at = (size_t)(mix(stack, call) >> 20) & (size - 1);
    while (table[at] != TIMELINE_NOWHERE &&
           (timeline->sites[table[at]].stack != stack || timeline->sites[table[at]].call != call))
        at = (at + 1) & (size - 1);
    return at;
}

static bool grow_table(struct timeline *timeline) {
    size_t size = timeline->table_size * 2;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table)
        return false;
    for (uint32_t i = 1; i < timeline->site_count; i++)
        table[slot_of(timeline, table, size, timeline->sites[i].stack, timeline->sites[i].call)] = i;
    free(timeline->table);
    timeline->table = table;
    timeline->table_size = size;
    return true;
}

/* The number of a call site, TIMELINE_NOWHERE when memory is short. */
static uint32_t site_of(struct timeline *timeline, const struct dump *dump, uint32_t stack, uint16_t call) {
    size_t at = slot_of(timeline, timeline->table, timeline->table_size, stack, call);
    if (timeline->table[at] != TIMELINE_NOWHERE)
        return timeline->table[at];
    if ((size_t)timeline->site_count * 2 >= timeline->table_size) {
        if (!grow_table(timeline))
            return TIMELINE_NOWHERE;
        at = slot_of(timeline, timeline->table, timeline->table_size, stack, call);
    }
    if (!grow_for_one((void **)&timeline->sites, timeline->site_count, &timeline->site_room, sizeof *timeline->sites))
        return TIMELINE_NOWHERE;
    timeline->sites[timeline->site_count] =
        (struct timeline_site){.way = mix(dump_stack_way(dump, stack), call), .stack = stack, .call = call};
    return timeline->table[at] = timeline->site_count++;
}

/* ---- stretches ------------------------------------------------------------------------------- */

static bool is_communication(const struct match_record *item, const struct call_name *call, bool device) {
    enum record_kind kind = item->record->kind;
    if (kind == RECORD_GPU || kind == RECORD_KERNEL)
        return true;
    if (kind != RECORD_CALL && kind != RECORD_POST)
        return false;
    return !(call->api == API_NCCL && device) && call->call_class != CLASS_OTHER && call->call_class != CLASS_FILE;
}

bool timeline_add(struct timeline *timeline, const struct match_directory *directory, const struct match_record *item) {
    const struct dump *dump = directory->dumps[item->dump];
    if (item->call == CALL_UNKNOWN ||
        !is_communication(item, directory->calls[item->call].name, dump_has_device_times(dump)))
        return true;
    const struct stretch *last = timeline->count > 0 ? &timeline->stretches[timeline->count - 1] : NULL;
    struct stretch stretch = {.from = item->t0, .to = item->t1 > item->t0 ? item->t1 : item->t0};
    if (last && stretch.from <= last->to) {
        if (stretch.to <= last->to)
            return true;
        stretch.from = last->to;
    }
    if (last)
        stretch.own_before = add_ns(last->own_before, stretch.from - last->to);
    stretch.site = site_of(timeline, dump, item->record->stack, item->call);
    if (stretch.site == TIMELINE_NOWHERE ||
        !grow_for_one((void **)&timeline->stretches, timeline->count, &timeline->room, sizeof *timeline->stretches))
        return false;
    timeline->stretches[timeline->count++] = stretch;
    return true;
}

int64_t timeline_own_before(const struct timeline *timeline, int64_t at) {
    size_t low = 0, high = timeline->count; /* the last stretch that begins at or before */
    if (high == 0 || at <= timeline->stretches[0].from)
        return 0;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (timeline->stretches[middle].from <= at)
            low = middle;
        else
            high = middle;
    }
    const struct stretch *stretch = &timeline->stretches[low];
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
