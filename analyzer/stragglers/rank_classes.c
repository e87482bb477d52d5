/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that do the same work by design.
 * Lives here: signatures of ranks, grouping by them, tables of one role.
 * Must not live here: the statistics, names.
 */
#include "analyzer/stragglers/rank_classes.h"

#include <stdlib.h>
#include <string.h>

enum { OFTEN = 4 }; /* a call counts from a quarter of the reference collectives up */

/* ---- what a rank calls ----------------------------------------------------------------------- */

void role_profile_add(struct role_profile *profile, const struct match_record *item) {
    const struct record *record = item->record;
    uint16_t direction = record->flags & (FLAG_SEND | FLAG_RECV);
    if ((record->kind != RECORD_CALL && record->kind != RECORD_POST) || record->comm == COMM_NONE ||
        item->call == CALL_UNKNOWN || !(direction || record->flags & FLAG_COLLECTIVE))
        return;
    for (size_t i = 0; i < profile->count; i++) {
        struct role_call *call = &profile->calls[i];
        if (call->comm == record->comm && call->call == item->call && call->direction == direction) {
            call->count++;
            return;
        }
    }
    if (profile->count < ROLE_CALLS_MOST)
        profile->calls[profile->count++] = (struct role_call){record->comm, item->call, direction, 1};
}

static uint64_t mix(uint64_t value) {
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

/* The collectives on the communicator that the cohort is compared by. */
static uint64_t reference_calls(const struct role_profile *profile, uint32_t reference) {
    uint64_t count = 0;
    for (size_t i = 0; i < profile->count; i++)
        if (profile->calls[i].comm == reference && !profile->calls[i].direction)
            count += profile->calls[i].count;
    return count;
}

/* The same for the same set of calls, in any order and however often: two communicators of one size count once each. */
static uint64_t signature_of(const struct role_profile *profile, size_t dump, uint32_t reference,
                             const struct match_directory *directory, uint32_t whole, bool places) {
    uint64_t least = reference_calls(profile, reference) / OFTEN, sum = 0;
    for (size_t i = 0; i < profile->count; i++) {
        const struct role_call *call = &profile->calls[i];
        struct match_place place = match_place_of(directory, dump, call->comm);
        if (call->count <= least || place.communicator == NOWHERE)
            continue;
        const struct match_communicator *communicator = &directory->communicators[place.communicator];
        uint32_t size = communicator->size;
        uint64_t key = mix((uint64_t)call->call << 48 | (uint64_t)call->direction << 32 | size);
        if (places && call->direction && size < directory->communicators[whole].size)
            key = mix(key ^ (communicator->rank_of[place.position] + UINT64_C(1)));
        sum += key;
    }
    return sum;
}

/* NOWHERE: none or several. */
static uint32_t stage_place(const struct role_profile *profile, size_t dump, uint32_t reference,
                            const struct match_directory *directory, uint32_t whole) {
    uint64_t least = reference_calls(profile, reference) / OFTEN;
    uint32_t pipeline = NOWHERE, at = NOWHERE;
    for (size_t i = 0; i < profile->count; i++) {
        const struct role_call *call = &profile->calls[i];
        struct match_place place = match_place_of(directory, dump, call->comm);
        if (!call->direction || call->count <= least || place.communicator == NOWHERE)
            continue;
        const struct match_communicator *communicator = &directory->communicators[place.communicator];
        if (communicator->size >= directory->communicators[whole].size)
            continue;
        if (pipeline != NOWHERE && pipeline != place.communicator)
            return NOWHERE;
        pipeline = place.communicator;
        at = communicator->rank_of[place.position];
    }
    return at;
}

/* ---- grouping -------------------------------------------------------------------------------- */

struct signed_column {
    uint64_t signature;
    size_t column;
};

static int compare_signatures(const void *a, const void *b) {
    const struct signed_column *left = a, *right = b;
    if (left->signature != right->signature)
        return left->signature < right->signature ? -1 : 1;
    return left->column < right->column ? -1 : left->column > right->column;
}

/* Numbers equal signatures alike, in the order of their first column. Returns how many columns have a peer. */
static size_t group(struct roles *roles, struct signed_column *signed_columns, size_t count) {
    size_t with_peers = 0;
    for (size_t i = 0; i < count; i++)
        roles->role_of[i] = NOWHERE;
    qsort(signed_columns, count, sizeof *signed_columns, compare_signatures);
    /* the lowest column of a signature stands first: it names the group until the groups are numbered */
    for (size_t i = 0; i < count; i++) {
        bool first = i == 0 || signed_columns[i].signature != signed_columns[i - 1].signature;
        roles->role_of[signed_columns[i].column] =
            first ? (uint32_t)signed_columns[i].column : roles->role_of[signed_columns[i - 1].column];
    }
    roles->count = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t leader = roles->role_of[i];
        if (leader == i) {
            roles->sizes[roles->count] = 1;
            roles->role_of[i] = (uint32_t)roles->count++;
        } else {
            roles->role_of[i] = roles->role_of[leader];
            roles->sizes[roles->role_of[i]]++;
        }
    }
    for (size_t r = 0; r < roles->count; r++)
        with_peers += roles->sizes[r] > 1 ? roles->sizes[r] : 0;
    return with_peers;
}

bool roles_find(struct roles *roles, const struct role_profile *profiles, const uint32_t *reference,
                const struct match_directory *directory, uint32_t communicator, const struct blocks *blocks) {
    size_t count = blocks->dump_count;
    struct signed_column *signed_columns = calloc(count, sizeof *signed_columns);
    *roles = (struct roles){.role_of = calloc(count, sizeof *roles->role_of),
                            .sizes = calloc(count, sizeof *roles->sizes),
                            .stage_of = calloc(count, sizeof *roles->stage_of),
                            .placed = true};
    bool done = signed_columns && roles->role_of && roles->sizes && roles->stage_of;
    for (int attempt = 0; done && attempt < 3; attempt++) { /* places and calls, calls, nothing */
        roles->placed = attempt == 0;
        for (size_t i = 0; i < count; i++) {
            size_t dump = blocks->dumps[i];
            signed_columns[i].column = i;
            signed_columns[i].signature = attempt == 2 ? 0
                                                       : signature_of(&profiles[dump], dump, reference[dump], directory,
                                                                      communicator, roles->placed);
        }
        if (2 * group(roles, signed_columns, count) >= count)
            break;
    }
    bool staged = done && roles->placed && roles->count > 1;
    for (size_t i = 0; staged && i < count; i++) {
        size_t dump = blocks->dumps[i];
        uint32_t place = stage_place(&profiles[dump], dump, reference[dump], directory, communicator);
        roles->stage_of[i] = place + 1;
        staged = place != NOWHERE;
    }
    if (done && !staged)
        memset(roles->stage_of, 0, count * sizeof *roles->stage_of);
    free(signed_columns);
    return done;
}

void roles_free(struct roles *roles) {
    free(roles->role_of);
    free(roles->sizes);
    free(roles->stage_of);
    *roles = (struct roles){0};
}

/* ---- judging --------------------------------------------------------------------------------- */

static double larger(double a, double b) {
    return a < 0 || b < 0 ? -1 : a > b ? a : b;
}

/* Judges the columns of one role among themselves. `table` has room for the blocks' times, `part` for the columns. */
static double judge_one(const struct roles *roles, const struct blocks *blocks, uint32_t role, int64_t *table,
                        struct significance *part, struct significance *out) {
    size_t size = roles->sizes[role];
    for (size_t b = 0; b < blocks->count; b++)
        for (size_t i = 0, at = 0; i < blocks->dump_count; i++)
            if (roles->role_of[i] == role)
                table[b * size + at++] = blocks->self_ns[b * blocks->dump_count + i];
    double independent = significance_judge(table, blocks->count, size, part);
    for (size_t i = 0, at = 0; i < blocks->dump_count; i++)
        if (roles->role_of[i] == role)
            out[i] = part[at++];
    return independent;
}

double roles_judge_ranks(const struct roles *roles, const struct blocks *blocks, struct significance *out) {
    if (roles->count == 1)
        return significance_judge(blocks->self_ns, blocks->count, blocks->dump_count, out);
    int64_t *table = calloc(blocks->count * blocks->dump_count + 1, sizeof *table);
    struct significance *part = calloc(blocks->dump_count, sizeof *part);
    double independent = table && part ? 0 : -1;
    if (independent == 0 && !roles->placed)
        independent = significance_judge(blocks->self_ns, blocks->count, blocks->dump_count, out);
    for (size_t i = 0; roles->placed && i < blocks->dump_count; i++)
        out[i] = (struct significance){.p = 1};
    for (uint32_t r = 0; independent >= 0 && r < roles->count; r++)
        if (roles->sizes[r] > 1)
            independent = larger(independent, judge_one(roles, blocks, r, table, part, out));
    free(table);
    free(part);
    return independent;
}

static int compare_times(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Median of one row over a role's columns, the lower of two; all columns where role = count. */
static int64_t row_median(const struct roles *roles, const struct blocks *blocks, size_t block, size_t role,
                          int64_t *scratch) {
    size_t count = 0;
    for (size_t i = 0; i < blocks->dump_count; i++)
        if (role == roles->count || roles->role_of[i] == role)
            scratch[count++] = blocks->self_ns[block * blocks->dump_count + i];
    qsort(scratch, count, sizeof *scratch, compare_times);
    return scratch[(count - 1) / 2];
}

double roles_judge(const struct roles *roles, const struct blocks *blocks, struct significance *out) {
    int64_t *table = calloc(blocks->count * roles->count + 1, sizeof *table);
    int64_t *scratch = calloc(blocks->dump_count, sizeof *scratch);
    double independent = -1;
    if (table && scratch) {
        for (size_t b = 0; b < blocks->count; b++)
            for (size_t r = 0; r < roles->count; r++)
                table[b * roles->count + r] = row_median(roles, blocks, b, r, scratch);
        independent = significance_judge(table, blocks->count, roles->count, out);
    }
    free(table);
    free(scratch);
    return independent;
}

bool roles_level(const struct roles *roles, struct blocks *blocks) {
    int64_t *medians = calloc(roles->count + 1, sizeof *medians);
    int64_t *scratch = calloc(blocks->dump_count, sizeof *scratch);
    bool done = medians && scratch;
    for (size_t b = 0; done && b < blocks->count; b++) {
        int64_t *row = blocks->self_ns + b * blocks->dump_count;
        for (size_t r = 0; r <= roles->count; r++)
            medians[r] = row_median(roles, blocks, b, r, scratch);
        for (size_t i = 0; i < blocks->dump_count; i++) {
            int64_t own = medians[roles->role_of[i]];
            if (own > 0)
                row[i] = ns_clamped((double)row[i] * (double)medians[roles->count] / (double)own);
        }
    }
    free(medians);
    free(scratch);
    return done;
}
