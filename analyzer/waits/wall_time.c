/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/waits/wall_time.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/ns.h"
#include "analyzer/base/radix_sort.h"

bool wall_times_init(struct wall_times *times, size_t ranks) {
    *times = (struct wall_times){.ranks = calloc(ranks + 1, sizeof *times->ranks), .rank_count = ranks};
    return times->ranks != NULL;
}

static void drop_stretches(struct wall_times *times) {
    for (size_t r = 0; times->ranks && r < times->rank_count; r++)
        for (unsigned kind = 0; kind < WALL_KINDS; kind++) {
            free(times->ranks[r].kinds[kind].items);
            times->ranks[r].kinds[kind] = (struct wall_stretches){0};
        }
    times->count = 0;
}

void wall_times_free(struct wall_times *times) {
    drop_stretches(times);
    free(times->ranks);
    *times = (struct wall_times){0};
}

void wall_times_add(struct wall_times *times, size_t rank, enum wall_kind kind, int64_t from, int64_t to) {
    struct wall_stretches *stretches = &times->ranks[rank].kinds[kind];
    if (to <= from || times->too_many)
        return;
    if (times->count == WALL_STRETCHES_MOST) {
        times->too_many = true;
        drop_stretches(times);
    } else if (!grow_list(stretches->items, stretches->count)) {
        times->no_memory = true;
    } else {
        stretches->items[stretches->count++] = (struct wall_stretch){from, to};
        times->count++;
    }
}

void wall_times_merge(struct wall_times *into, const struct wall_times *from) {
    for (size_t r = 0; r < from->rank_count; r++)
        for (unsigned kind = 0; kind < WALL_KINDS; kind++) {
            const struct wall_stretches *stretches = &from->ranks[r].kinds[kind];
            for (size_t i = 0; i < stretches->count; i++)
                wall_times_add(into, r, (enum wall_kind)kind, stretches->items[i].from, stretches->items[i].to);
        }
    into->no_memory |= from->no_memory;
    if (from->too_many && !into->too_many) {
        into->too_many = true;
        drop_stretches(into);
    }
}

void wall_times_parcel(struct wall_times *times, struct parcel *parcel) {
    for (size_t r = 0; r < times->rank_count; r++)
        for (unsigned kind = 0; kind < WALL_KINDS; kind++) {
            struct wall_stretches *stretches = &times->ranks[r].kinds[kind];
            if (parcel_is_there(parcel, stretches->count > 0))
                parcel_list(parcel, stretches->items, stretches->count);
        }
    parcel_field(parcel, &times->count);
    parcel_flag(parcel, &times->too_many);
    parcel_flag(parcel, &times->no_memory);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static int compare_stretches(const void *a, const void *b) {
    const struct wall_stretch *left = a, *right = b;
    return (left->from > right->from) - (left->from < right->from);
}

/* By where they begin: by digits, and where memory is short for that by comparing. */
static void sort_stretches(struct wall_stretches *stretches) {
    size_t count = stretches->count;
    struct sort_key *keys = malloc(2 * count * sizeof *keys);
    struct wall_stretch *sorted = malloc(count * sizeof *sorted);
    if (!keys || !sorted || count > UINT32_MAX) {
        qsort(stretches->items, count, sizeof *stretches->items, compare_stretches);
    } else {
        for (size_t i = 0; i < count; i++)
            keys[i] = (struct sort_key){sort_value(stretches->items[i].from), (uint32_t)i};
        radix_sort(keys, keys + count, count);
        for (size_t i = 0; i < count; i++)
            sorted[i] = stretches->items[keys[i].index];
        memcpy(stretches->items, sorted, count * sizeof *sorted);
    }
    free(keys);
    free(sorted);
}

/* Makes disjoint stretches of them, by time. Most come in their order. */
static void join(struct wall_stretches *stretches) {
    bool sorted = true;
    for (size_t i = 1; i < stretches->count && sorted; i++)
        sorted = stretches->items[i - 1].from <= stretches->items[i].from;
    if (!sorted)
        sort_stretches(stretches);
    size_t count = 0;
    for (size_t i = 0; i < stretches->count; i++) {
        struct wall_stretch *last = count > 0 ? &stretches->items[count - 1] : NULL, item = stretches->items[i];
        if (!last || item.from > last->to)
            stretches->items[count++] = item;
        else if (item.to > last->to)
            last->to = item.to;
    }
    stretches->count = count;
}

static int64_t length_of(const struct wall_stretches *stretches) {
    int64_t length = 0;
    for (size_t i = 0; i < stretches->count; i++)
        length = add_ns(length, stretches->items[i].to - stretches->items[i].from);
    return length;
}

/* Of disjoint stretches, what lies in both. */
static int64_t common_length(const struct wall_stretches *a, const struct wall_stretches *b) {
    int64_t length = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const struct wall_stretch *left = &a->items[i], *right = &b->items[j];
        int64_t from = left->from > right->from ? left->from : right->from;
        int64_t to = left->to < right->to ? left->to : right->to;
        if (to > from)
            length = add_ns(length, to - from);
        if (left->to < right->to)
            i++;
        else
            j++;
    }
    return length;
}

bool wall_times_sum(struct wall_times *times, size_t rank, struct wall_sums *sums) {
    struct wall_stretches *waits = &times->ranks[rank].kinds[WALL_WAIT];
    struct wall_stretches *collectives = &times->ranks[rank].kinds[WALL_COLLECTIVE];
    if (times->too_many)
        return false;
    join(waits);
    join(collectives);
    *sums = (struct wall_sums){length_of(waits), length_of(collectives) - common_length(collectives, waits)};
    return true;
}
