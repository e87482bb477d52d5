/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/job/covered_time.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"

enum { PAUSING_LEVEL = 0, RESUMING_LEVEL = 1 }; /* of MPI_Pcontrol */

static const struct time_stretch all_time = {-NS_MOST, NS_MOST};

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

void time_stretches_free(struct time_stretches *stretches) {
    free(stretches->items);
    *stretches = (struct time_stretches){0};
}

static bool add_stretch(struct time_stretches *stretches, int64_t from, int64_t to) {
    if (!grow_by_one(stretches->items, stretches->count, stretches->room))
        return false;
    stretches->items[stretches->count++] = (struct time_stretch){earlier(from, to), later(from, to)};
    return true;
}

static int compare_stretches(const void *a, const void *b) {
    const struct time_stretch *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return (left->to > right->to) - (left->to < right->to);
}

/* Sorts, and makes one of those that overlap or touch. */
static void join_overlapping(struct time_stretches *stretches) {
    size_t kept = 0;
    if (stretches->count > 1)
        qsort(stretches->items, stretches->count, sizeof *stretches->items, compare_stretches);
    for (size_t i = 0; i < stretches->count; i++) {
        struct time_stretch next = stretches->items[i];
        if (kept > 0 && next.from <= stretches->items[kept - 1].to)
            stretches->items[kept - 1].to = later(stretches->items[kept - 1].to, next.to);
        else
            stretches->items[kept++] = next;
    }
    stretches->count = kept;
}

/* ---- holes of one dump ----------------------------------------------------------------------- */

/* Handed out so far. */
static uint64_t tickets_of(const struct dump_lane *lane) {
    return lane->state && lane->state->head > lane->end_ticket ? lane->state->head : lane->end_ticket;
}

/* Tickets that do not follow each other: what they stood for began after the record before was written, and ended
 * before the next one was. A ring without a torn slot needs no look behind its first record. */
static bool find_lane_holes(struct time_stretches *holes, const struct common_clock *clock, size_t d, uint32_t number) {
    const struct dump_lane *lane = &clock->dumps[d]->lanes[number];
    uint64_t expected = 0, all = tickets_of(lane);
    bool ring_is_whole = lane->end_ticket > 0 && lane->torn == 0 && all <= lane->end_ticket, done = true;
    int64_t written = -NS_MOST;
    struct record_cursor cursor;
    if (!record_cursor_begin(&cursor, clock->dumps[d], number))
        return false;
    for (const struct record *record; done && (record = record_cursor_next(&cursor));) {
        int64_t end = record_end(clock, d, record);
        if (record->commit - 1 > expected)
            done = add_stretch(holes, written, end);
        expected = record->commit;
        written = end;
        if (ring_is_whole && expected > lane->first_ticket) {
            expected = lane->end_ticket;
            break;
        }
    }
    record_cursor_end(&cursor);
    return done && (all <= expected || add_stretch(holes, written, NS_MOST));
}

/* ---- pauses ---------------------------------------------------------------------------------- */

struct pause_mark {
    uint64_t ticks;
    bool resumes;
};

struct pause_marks {
    struct pause_mark *items;
    size_t count, room;
};

static int compare_pause_marks(const void *a, const void *b) {
    const struct pause_mark *left = a, *right = b;
    if (left->ticks != right->ticks)
        return left->ticks < right->ticks ? -1 : 1;
    return (int)left->resumes - (int)right->resumes;
}

/* MPI_Pcontrol(0) and (1), whichever thread called them. */
static bool find_lane_marks(struct pause_marks *marks, const struct dump *dump, uint32_t lane) {
    struct record_cursor cursor;
    bool done = true;
    if (!record_cursor_begin(&cursor, dump, lane))
        return false;
    for (const struct record *record; done && (record = record_cursor_next(&cursor));) {
        if (record->kind != RECORD_MARK || (record->tag != PAUSING_LEVEL && record->tag != RESUMING_LEVEL))
            continue;
        done = grow_by_one(marks->items, marks->count, marks->room);
        if (done)
            marks->items[marks->count++] = (struct pause_mark){record->t0, record->tag == RESUMING_LEVEL};
    }
    record_cursor_end(&cursor);
    return done;
}

/* A pause whose beginning is not on record lies in a hole of its lane. One that does not end leaves the others what
 * they recorded: whoever wants one rank alone pauses the rest. */
static bool add_pauses(struct time_stretches *holes, const struct common_clock *clock, size_t d) {
    struct pause_marks marks = {0};
    const struct pause_mark *since = NULL;
    bool done = true;
    for (uint32_t lane = 0; done && lane < clock->dumps[d]->lane_count; lane++)
        done = find_lane_marks(&marks, clock->dumps[d], lane);
    if (marks.count > 1)
        qsort(marks.items, marks.count, sizeof *marks.items, compare_pause_marks);
    for (size_t i = 0; done && i < marks.count; i++) {
        const struct pause_mark *mark = &marks.items[i];
        if (since && mark->resumes)
            done = add_stretch(holes, to_common(clock, d, since->ticks), to_common(clock, d, mark->ticks));
        since = mark->resumes ? NULL : since ? since : mark;
    }
    free(marks.items);
    return done;
}

/* ---- all holes of a dump --------------------------------------------------------------------- */

static bool misses_records(const struct dump_lane *lane) {
    return lane->first_ticket > 0 || lane->torn > 0 || tickets_of(lane) > lane->end_ticket;
}

bool dump_holes_find(struct time_stretches *holes, const struct common_clock *clock, size_t dump) {
    *holes = (struct time_stretches){0};
    bool done = true;
    for (uint32_t lane = 0; done && lane < clock->dumps[dump]->lane_count; lane++)
        if (misses_records(&clock->dumps[dump]->lanes[lane]))
            done = find_lane_holes(holes, clock, dump, lane);
    if (done && clock->dumps[dump]->pauses > 0)
        done = add_pauses(holes, clock, dump);
    join_overlapping(holes);
    return done;
}

/* ---- what all dumps cover -------------------------------------------------------------------- */

static bool is_all_time(const struct time_stretches *holes) {
    return holes->count == 1 && holes->items[0].from == -NS_MOST && holes->items[0].to == NS_MOST;
}

/* Adds one dump's holes to those of all, or calls it silent. */
static bool add_dump(struct covered_time *covered, struct time_stretches *holes, const struct common_clock *clock,
                     size_t dump) {
    struct time_stretches own;
    bool done = dump_holes_find(&own, clock, dump);
    covered->whole = covered->whole && own.count == 0;
    covered->silent[dump] = is_all_time(&own);
    for (size_t i = 0; done && !covered->silent[dump] && i < own.count; i++)
        done = add_stretch(holes, own.items[i].from, own.items[i].to);
    time_stretches_free(&own);
    return done;
}

/* What lies between the holes. */
static bool invert(struct time_stretches *stretches, const struct time_stretches *holes) {
    int64_t from = -NS_MOST;
    bool done = true;
    for (size_t i = 0; done && i < holes->count; i++) {
        if (holes->items[i].from > from)
            done = add_stretch(stretches, from, holes->items[i].from);
        from = holes->items[i].to;
    }
    return done && (from >= NS_MOST || add_stretch(stretches, from, NS_MOST));
}

bool covered_time_find(struct covered_time *covered, const struct common_clock *clock) {
    size_t count = clock->dump_count, silent = 0;
    *covered = (struct covered_time){.whole = true, .silent = calloc(count ? count : 1, sizeof *covered->silent)};
    struct time_stretches holes = {0};
    bool done = covered->silent != NULL;
    for (size_t d = 0; done && d < count; d++) {
        done = add_dump(covered, &holes, clock, d);
        silent += covered->silent[d];
    }
    join_overlapping(&holes);
    if (done && (silent == 0 || silent < count))
        done = invert(&covered->stretches, &holes);
    time_stretches_free(&holes);
    return done;
}

void covered_time_free(struct covered_time *covered) {
    time_stretches_free(&covered->stretches);
    free(covered->silent);
    *covered = (struct covered_time){0};
}

/* ---- asking ---------------------------------------------------------------------------------- */

uint32_t covered_time_at(const struct covered_time *covered, int64_t from, int64_t to) {
    if (!covered)
        return 0;
    size_t low = 0, high = covered->stretches.count; /* those that begin at or before `to` */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (covered->stretches.items[middle].from <= to)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && covered->stretches.items[low - 1].to >= from ? (uint32_t)(low - 1) : COVERED_NOWHERE;
}

struct time_stretch covered_time_bounds(const struct covered_time *covered, uint32_t stretch) {
    return covered && stretch < covered->stretches.count ? covered->stretches.items[stretch] : all_time;
}

bool covered_time_holds(const struct covered_time *covered, uint32_t stretch, int64_t from, int64_t to) {
    struct time_stretch bounds = covered_time_bounds(covered, stretch);
    return bounds.from <= from && to <= bounds.to;
}

int64_t covered_time_within(const struct covered_time *covered, int64_t from, int64_t to) {
    int64_t sum = 0;
    for (size_t i = 0; i < covered->stretches.count; i++) {
        int64_t begin = later(covered->stretches.items[i].from, from),
                end = earlier(covered->stretches.items[i].to, to);
        sum = end > begin ? add_ns(sum, end - begin) : sum;
    }
    return sum;
}
