/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/slips.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"

enum { REFUSALS_MAX = 256 }; /* per dump: a job that goes on calling what is refused is not followed any further */

/* A refused call, and what its rank called next. */
struct refusal {
    uint32_t comm, seq;
    uint64_t t1;
    uint16_t call, base, next; /* bases: see match_call */
    struct match_place place;
};

struct refusals {
    struct refusal *items;
    size_t count;
};

/* What a witness called: a member of the communicator that nothing was refused to. */
struct testimony {
    struct {
        uint32_t seq;
        uint16_t base;
    } * items;
    size_t count;
};

/* ---- what was refused ------------------------------------------------------------------------ */

/* Cheap to know: in most jobs nothing ever fails. */
static bool has_failures(const struct dump *dump) {
    for (uint32_t l = 0; l < dump->lane_count; l++)
        for (uint32_t i = 0; i < dump->lanes[l].operation_count; i++)
            if (dump->lanes[l].operations[i].failed)
                return true;
    return false;
}

static bool is_refused_collective(const struct dump *dump, const struct record *record) {
    const struct call_name *call = dump_call(dump, record->call);
    return call && record->kind == RECORD_CALL && (record->flags & FLAG_FAILED) &&
           !(record->flags & (FLAG_COLLECTIVE | FLAG_SEND | FLAG_RECV | FLAG_UNMATCHED)) &&
           (call->call_class == CLASS_COLLECTIVE || call->call_class == CLASS_COMMUNICATOR);
}

static bool is_numbered(const struct record *record) {
    return (record->flags & FLAG_COLLECTIVE) && !(record->flags & FLAG_STARTED) && record->seq != SEQ_NONE &&
           (record->kind == RECORD_CALL || record->kind == RECORD_POST);
}

static uint16_t base_of(const struct match_directory *directory, uint16_t call) {
    return call == CALL_UNKNOWN ? CALL_UNKNOWN : directory->calls[call].base;
}

/* Calls `visit` for every record of a dump. False when memory is short. */
static bool each_record(const struct match_directory *directory, size_t dump, void *context,
                        bool (*visit)(void *context, const struct match_directory *directory, size_t dump,
                                      const struct record *record)) {
    bool done = true;
    for (uint32_t lane = 0; done && lane < directory->dumps[dump]->lane_count; lane++) {
        struct record_cursor cursor;
        if (!record_cursor_begin(&cursor, directory->dumps[dump], lane))
            return false;
        for (const struct record *record; done && (record = record_cursor_next(&cursor)) != NULL;)
            done = visit(context, directory, dump, record);
        record_cursor_end(&cursor);
    }
    return done;
}

static bool list_refusal(void *context, const struct match_directory *directory, size_t dump,
                         const struct record *record) {
    struct refusals *refusals = context;
    struct match_place place = match_place_of(directory, dump, record->comm);
    if (refusals->count == REFUSALS_MAX || place.communicator == NOWHERE ||
        !is_refused_collective(directory->dumps[dump], record))
        return true;
    uint16_t call = match_call_of(directory, dump, record->call);
    refusals->items[refusals->count++] = (struct refusal){.comm = record->comm,
                                                          .seq = SEQ_NONE,
                                                          .t1 = record->t1,
                                                          .call = call,
                                                          .base = base_of(directory, call),
                                                          .next = CALL_UNKNOWN,
                                                          .place = place};
    return true;
}

static bool find_next_refusal(void *context, const struct match_directory *directory, size_t dump,
                              const struct record *record) {
    struct refusals *refusals = context;
    if (!is_numbered(record))
        return true;
    for (size_t i = 0; i < refusals->count; i++) {
        struct refusal *refusal = &refusals->items[i];
        if (refusal->comm != record->comm || record->t0 < refusal->t1 || record->seq >= refusal->seq)
            continue;
        refusal->seq = record->seq;
        refusal->next = base_of(directory, match_call_of(directory, dump, record->call));
    }
    return true;
}

static int compare_refusals(const void *a, const void *b) {
    const struct refusal *left = a, *right = b;
    if (left->comm != right->comm)
        return left->comm < right->comm ? -1 : 1;
    if (left->seq != right->seq)
        return left->seq < right->seq ? -1 : 1;
    return left->t1 < right->t1 ? -1 : left->t1 > right->t1;
}

static bool list_refusals(struct refusals *refusals, const struct match_directory *directory, size_t dump) {
    if (!has_failures(directory->dumps[dump]))
        return true;
    refusals->items = malloc(REFUSALS_MAX * sizeof *refusals->items);
    if (!refusals->items || !each_record(directory, dump, refusals, list_refusal))
        return false;
    if (refusals->count && !each_record(directory, dump, refusals, find_next_refusal))
        return false;
    qsort(refusals->items, refusals->count, sizeof *refusals->items, compare_refusals);
    return true;
}

/* ---- what the others did --------------------------------------------------------------------- */

static bool was_refused_there(const struct refusals *refusals, uint32_t communicator) {
    for (size_t i = 0; i < refusals->count; i++)
        if (refusals->items[i].place.communicator == communicator)
            return true;
    return false;
}

/* NOWHERE: there is none. */
static uint32_t find_witness(const struct match_directory *directory, const struct refusals *all,
                             uint32_t communicator) {
    const struct match_communicator *c = &directory->communicators[communicator];
    for (uint32_t i = 0; i < c->dump_count; i++)
        if (!was_refused_there(&all[c->dump_of[i]], communicator))
            return c->dump_of[i];
    return NOWHERE;
}

struct hearing {
    struct testimony *testimony;
    uint32_t communicator;
};

static bool hear(void *context, const struct match_directory *directory, size_t dump, const struct record *record) {
    struct hearing *hearing = context;
    struct testimony *testimony = hearing->testimony;
    if (!is_numbered(record) || match_place_of(directory, dump, record->comm).communicator != hearing->communicator)
        return true;
    if (!grow_list(testimony->items, testimony->count))
        return false;
    testimony->items[testimony->count].seq = record->seq;
    testimony->items[testimony->count++].base = base_of(directory, match_call_of(directory, dump, record->call));
    return true;
}

static uint16_t said(const struct testimony *testimony, uint32_t seq) {
    for (size_t i = 0; i < testimony->count; i++)
        if (testimony->items[i].seq == seq)
            return testimony->items[i].base;
    return CALL_UNKNOWN;
}

/* ---- together -------------------------------------------------------------------------------- */

/* The refusals of one dump on one communicator. */
static bool judge_slips(struct slips *slips, const struct refusal *refusals, size_t count,
                        const struct testimony *testimony) {
    uint32_t before = 0;
    for (size_t i = 0; i < count; i++) {
        const struct refusal *refusal = &refusals[i];
        if (refusal->seq == SEQ_NONE || refusal->base == CALL_UNKNOWN || refusal->next == refusal->base ||
            said(testimony, refusal->seq + before) != refusal->base)
            continue;
        if (!grow_list(slips->items, slips->count))
            return false;
        slips->items[slips->count++] = (struct slip){refusal->comm, refusal->seq, refusal->call};
        before++;
    }
    return true;
}

static bool judge_dump(struct slips *slips, const struct match_directory *directory, const struct refusals *all,
                       size_t dump) {
    const struct refusal *items = all[dump].items;
    bool done = true;
    for (size_t i = 0, end; done && i < all[dump].count; i = end) {
        for (end = i + 1; end < all[dump].count && items[end].comm == items[i].comm; end++)
            ;
        uint32_t witness = find_witness(directory, all, items[i].place.communicator);
        if (witness == NOWHERE)
            continue;
        struct testimony testimony = {0};
        struct hearing hearing = {&testimony, items[i].place.communicator};
        done = each_record(directory, witness, &hearing, hear) && judge_slips(slips, items + i, end - i, &testimony);
        free(testimony.items);
    }
    return done;
}

bool slips_find(struct slips *slips, const struct match_directory *directory) {
    struct refusals *all = calloc(directory->dump_count ? directory->dump_count : 1, sizeof *all);
    bool done = all != NULL;
    for (size_t d = 0; done && d < directory->dump_count; d++)
        done = list_refusals(&all[d], directory, d);
    for (size_t d = 0; done && d < directory->dump_count; d++)
        done = judge_dump(&slips[d], directory, all, d);
    for (size_t d = 0; all && d < directory->dump_count; d++)
        free(all[d].items);
    free(all);
    return done;
}

void slips_free(struct slips *slips) {
    free(slips->items);
    *slips = (struct slips){0};
}
