/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/diagnose/absence.h"

#include "analyzer/wait_for_graph/slots.h"

enum { LOOKED_AT = 16 }; /* processes whose records are walked: ranks do alike, and each has a few hundred thousand */

/* Reading and writing files is work: the process comes back from it on its own. */
static bool is_work(const struct dump *dump, const struct record *record) {
    const struct call_name *call = dump_call(dump, record->call);
    return call && call->call_class == CLASS_FILE && !(record->flags & FLAG_COLLECTIVE);
}

static bool is_in_library(const struct dump *dump, const struct record *record) {
    bool call = record->kind == RECORD_CALL || record->kind == RECORD_POST || record->kind == RECORD_POLL;
    return call && !is_work(dump, record);
}

/* Between calls of one lane, in ticks. Whatever is missing between two records was calls. */
static uint64_t longest_of_lane(const struct dump *dump, uint32_t lane, bool *known) {
    struct record_cursor cursor;
    uint64_t longest = 0, left = dump->header->initialised_ticks, next = 0;
    if (!record_cursor_begin(&cursor, dump, lane))
        return 0;
    for (const struct record *record; (record = record_cursor_next(&cursor)) != NULL;) {
        bool follows = record->commit == next + 1;
        next = record->commit;
        if (!follows)
            left = 0;
        if (!is_in_library(dump, record))
            continue;
        if (left > 0 && record->t0 > left && record->t0 - left > longest)
            longest = record->t0 - left;
        *known |= left > 0;
        left = record->t1;
    }
    record_cursor_end(&cursor);
    return longest;
}

/* Between launches of CUDA graphs, which are no calls, as far as the lane of a GPU tells them; -1: it does not. */
static int64_t longest_between_replays(const struct dump *dump, uint32_t lane) {
    struct record_cursor cursor;
    int64_t longest = -1, before = 0;
    uint64_t next = 0;
    if (!record_cursor_begin(&cursor, dump, lane))
        return -1;
    for (const struct record *record; (record = record_cursor_next(&cursor)) != NULL;) {
        before = record->commit == next + 1 ? before : 0;
        next = record->commit;
        if (record->kind != RECORD_REPLAY || record->t0 >= record->t1)
            continue;
        int64_t apart = before > 0 ? difference_ns((int64_t)record->t0, before) : -1;
        longest = apart > longest ? apart : longest;
        before = (int64_t)record->t0;
    }
    record_cursor_end(&cursor);
    return longest;
}

static int64_t longest_of(const struct dump *dump) {
    bool known = false;
    uint64_t longest = 0;
    int64_t replays = -1;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        bool device = dump_lane_is_device(&dump->lanes[lane]);
        uint64_t ticks = device ? 0 : longest_of_lane(dump, lane, &known);
        int64_t apart = device && dump->capture_count > 0 ? longest_between_replays(dump, lane) : -1;
        longest = ticks > longest ? ticks : longest;
        replays = apart > replays ? apart : replays;
    }
    int64_t calls = known ? dump_duration_ns(dump, longest) : -1;
    return calls > replays ? calls : replays;
}

/* Since when a process is at work that others do not see; 0: it is in the library. */
static uint64_t away_since(const struct party_state *state, const struct dump *dump) {
    bool at_work = state->doing == DOING_USER_CODE ||
                   (state->doing == DOING_CALL && state->call && state->call->call_class == CLASS_FILE);
    if (!at_work || state->stopped)
        return 0;
    return state->since ? state->since : dump->header->initialised_ticks;
}

struct absence absence_find(const struct wait_for_graph *waits, uint32_t party, const struct moment *until) {
    struct absence absence = {.away_ns = -1, .longest_ns = -1};
    const struct dump *dump = waits->world->parties[party].dump;
    uint64_t since = dump ? away_since(&waits->parties[party], dump) : 0;
    if (since == 0)
        return absence;
    int64_t away = difference_ns(moment_here(dump, until), dump_monotonic_ns(dump, since));
    absence.away_ns = away > 0 ? away : 0;
    absence.longest_ns = longest_of(dump);
    return absence;
}

/* When it was left, in ticks; 0: none is on record. */
static uint64_t newest_call(const struct dump *dump) {
    uint64_t newest = 0;
    struct record_reader reader;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        bool found = false;
        record_reader_begin(&reader, dump, lane);
        for (uint64_t t = dump->lanes[lane].end_ticket; !found && t > dump->lanes[lane].first_ticket; t--) {
            const struct record *record = record_reader_at(&reader, t - 1);
            found = record && is_in_library(dump, record);
            newest = found && record->t1 > newest ? record->t1 : newest;
        }
    }
    return newest;
}

struct absence absence_of_import(const struct wait_for_graph *waits, uint32_t party) {
    struct absence absence = {.away_ns = -1, .longest_ns = -1};
    const struct dump *dump = waits->world->parties[party].dump;
    uint64_t since = dump && away_since(&waits->parties[party], dump) > 0 ? newest_call(dump) : 0;
    if (since == 0)
        return absence;
    int64_t written_ns = dump->lived_on_ms > 0 ? (dump->lived_on_ms - INT64_C(1)) * 1000000 : 0;
    int64_t away = difference_ns(dump_monotonic_ns(dump, last_sign_of_life(dump)), dump_monotonic_ns(dump, since));
    absence.away_ns = (away > 0 ? away : 0) + written_ns;
    absence.longest_ns = longest_of(dump);
    return absence;
}

int64_t absence_longest(const struct world *world) {
    uint32_t step = world->dump_count / LOOKED_AT + 1;
    int64_t longest = -1;
    for (uint32_t p = 0; p < world->dump_count; p += step) {
        int64_t of_this = longest_of(world->parties[p].dump);
        longest = of_this > longest ? of_this : longest;
    }
    return longest;
}
