/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/tracks/held.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"

bool held_init(struct held *held, const struct match_directory *directory) {
    size_t count = directory->dump_count;
    *held = (struct held){.dump_count = count, .first_lane = calloc(count + 1, sizeof *held->first_lane)};
    if (!held->first_lane)
        return false;
    for (size_t d = 0; d < count; d++)
        held->first_lane[d + 1] = held->first_lane[d] + directory->dumps[d]->lane_count;
    held->lanes = calloc(held->first_lane[count] + 1, sizeof *held->lanes);
    return held->lanes != NULL;
}

void held_free(struct held *held) {
    for (size_t l = 0; held->lanes && l < held->first_lane[held->dump_count]; l++)
        free(held->lanes[l].items);
    free(held->lanes);
    free(held->first_lane);
    *held = (struct held){0};
}

struct held_record *held_push(struct held_lane *lane, uint64_t ticket, int64_t end) {
    if (lane->first + lane->count == lane->room && lane->first > lane->room / 2) {
        memmove(lane->items, lane->items + lane->first, lane->count * sizeof *lane->items);
        lane->first = 0;
    }
    if (!grow_by_one(lane->items, lane->first + lane->count, lane->room))
        return NULL;
    size_t at = lane->first + lane->count++;
    for (; at > lane->first && lane->items[at - 1].record.commit > ticket + 1;
         at--) /* one of a GPU: by its beginning */
        lane->items[at] = lane->items[at - 1];
    lane->items[at] = (struct held_record){.record.commit = ticket + 1, .end = end};
    bool first = at == lane->first, last = at + 1 == lane->first + lane->count;
    lane->out_of_order |= !last || (!first && lane->items[at - 1].end > end);
    return &lane->items[at];
}

struct held_record *held_front(const struct held_lane *lane) {
    return lane->count > 0 ? &lane->items[lane->first] : NULL;
}

void held_pop(struct held_lane *lane) {
    lane->first++;
    if (--lane->count == 0)
        lane->first = 0;
}

/* Where no ticket is missing it lies as far behind the first as its ticket says: most often none is. */
static struct held_record *find_by_distance(const struct held_lane *lane, uint64_t ticket) {
    uint64_t distance = lane->count > 0 ? ticket - (lane->items[lane->first].record.commit - 1) : 0;
    struct held_record *there = distance < lane->count ? &lane->items[lane->first + distance] : NULL;
    return there && there->record.commit - 1 == ticket ? there : NULL;
}

struct held_record *held_find(const struct held_lane *lane, uint64_t ticket) {
    struct held_record *there = find_by_distance(lane, ticket);
    if (there)
        return there;
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

/* Where ends are in order, some record up to which all end before `at`, and in *high one behind the first that does
 * not: in ever longer strides from the oldest, as that is whom a wait is told of most often. */
static size_t stride_towards(const struct held_lane *lane, int64_t at, size_t *high) {
    size_t low = lane->first, end = lane->first + lane->count, stride = 1;
    for (*high = low; *high < end && lane->items[*high].end < at; stride *= 2) {
        low = *high + 1;
        *high += stride;
    }
    *high = *high < end ? *high : end;
    return low;
}

size_t held_ending_from(const struct held_lane *lane, int64_t at) {
    size_t low = lane->first, high = lane->first + lane->count;
    if (!lane->out_of_order)
        low = stride_towards(lane, at, &high);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lane->items[middle].end < at)
            low = middle + 1;
        else
            high = middle;
    }
    if (!lane->out_of_order)
        return low;
    return low - lane->first > OUT_OF_ORDER ? low - OUT_OF_ORDER : lane->first;
}
