/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/tracks/held.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"

bool held_init(struct held *held, const struct match_directory *directory) {
    *held = (struct held){.dumps = directory->dumps, .dump_count = directory->dump_count};
    held->lanes = calloc(directory->dump_count ? directory->dump_count : 1, sizeof *held->lanes);
    for (size_t d = 0; held->lanes && d < directory->dump_count; d++) {
        uint32_t lanes = directory->dumps[d]->lane_count;
        held->lanes[d] = calloc(lanes ? lanes : 1, sizeof **held->lanes);
        if (!held->lanes[d])
            return false;
    }
    return held->lanes != NULL;
}

void held_free(struct held *held) {
    for (size_t d = 0; held->lanes && d < held->dump_count; d++) {
        for (uint32_t l = 0; held->lanes[d] && l < held->dumps[d]->lane_count; l++)
            free(held->lanes[d][l].items);
        free(held->lanes[d]);
    }
    free(held->lanes);
    *held = (struct held){0};
}

struct held_lane *held_lane_of(const struct held *held, size_t dump, uint32_t lane) {
    if (dump >= held->dump_count || lane >= held->dumps[dump]->lane_count)
        return NULL;
    return &held->lanes[dump][lane];
}

struct held_record *held_push(struct held_lane *lane) {
    if (lane->first + lane->count == lane->room && lane->first > lane->room / 2) {
        memmove(lane->items, lane->items + lane->first, lane->count * sizeof *lane->items);
        lane->first = 0;
    }
    if (!grow_by_one(lane->items, lane->first + lane->count, lane->room))
        return NULL;
    struct held_record *record = &lane->items[lane->first + lane->count++];
    *record = (struct held_record){0};
    return record;
}

struct held_record *held_front(const struct held_lane *lane) {
    return lane->count > 0 ? &lane->items[lane->first] : NULL;
}

void held_pop(struct held_lane *lane) {
    lane->first++;
    if (--lane->count == 0)
        lane->first = 0;
}

struct held_record *held_find(const struct held_lane *lane, uint64_t ticket) {
    size_t low = lane->first, high = lane->first + lane->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lane->items[middle].record.commit - 1 < ticket)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < lane->first + lane->count && lane->items[low].record.commit - 1 == ticket;
    return found ? &lane->items[low] : NULL;
}

/* A GPU's operations are recorded as they are harvested: their ends are in order but for a few that ran on different
 * streams. */
enum { OUT_OF_ORDER = 16 };

size_t held_ending_from(const struct held_lane *lane, int64_t at) {
    size_t low = lane->first, high = lane->first + lane->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lane->items[middle].end < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low - lane->first > OUT_OF_ORDER ? low - OUT_OF_ORDER : lane->first;
}
