/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that do the same work by design.
 * Lives here: signatures of ranks, grouping by them, tables of one rank class.
 * Must not live here: the statistics, names.
 */
#include "analyzer/stragglers/rank_classes.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/hash.h"
#include "analyzer/base/statistics.h"

enum { OFTEN = 4 }; /* a call counts from once in a quarter of the stretches up */

/* ---- what a rank calls ----------------------------------------------------------------------- */

void call_profile_add(struct call_profile *profile, const struct match_record *item) {
    const struct record *record = item->record;
    uint16_t direction = record->flags & (FLAG_SEND | FLAG_RECV);
    if ((record->kind != RECORD_CALL && record->kind != RECORD_POST) || record->comm == COMM_NONE ||
        item->call == CALL_UNKNOWN || !(direction || record->flags & FLAG_COLLECTIVE))
        return;
    for (size_t i = 0; i < profile->count; i++) {
        struct profiled_call *call = &profile->calls[i];
        if (call->comm == record->comm && call->call == item->call && call->direction == direction) {
            call->count++;
            return;
        }
    }
    if (profile->count < CALL_PROFILE_MOST)
        profile->calls[profile->count++] = (struct profiled_call){record->comm, item->call, direction, 1};
}

void call_profile_parcel(struct call_profile *profile, struct parcel *parcel) {
    parcel_field(parcel, &profile->count);
    if (profile->count > CALL_PROFILE_MOST) {
        profile->count = 0;
        parcel->failed = true;
    }
    parcel_bytes(parcel, profile->calls, profile->count * sizeof *profile->calls);
}

/* What one rank calls, and what of it is part of every stretch. */
struct class_view {
    const struct call_profile *profile;
    const struct match_directory *directory;
    size_t dump;
    uint64_t least; /* calls that are no more often say nothing */
    uint32_t whole; /* places in communicators of fewer ranks can tell rank classes apart */
};

static struct class_view view_of(const struct call_profile *profiles, const struct match_directory *directory,
                                 size_t dump, const struct cut *cut, uint32_t whole) {
    struct class_view view = {&profiles[dump], directory, dump, cut->messages, whole};
    for (size_t i = 0; cut->kind == CUT_COLLECTIVE && i < view.profile->count; i++)
        if (view.profile->calls[i].comm == cut->comm && !view.profile->calls[i].direction)
            view.least += view.profile->calls[i].count;
    view.least /= OFTEN;
    return view;
}

/* The communicator of a call that says something, NULL of one that does not; the rank's place in it. */
static const struct match_communicator *telling(const struct class_view *view, const struct profiled_call *call,
                                                uint32_t *position) {
    struct match_place place = match_place_of(view->directory, view->dump, call->comm);
    *position = place.position;
    return call->count <= view->least || place.communicator == NOWHERE
               ? NULL
               : &view->directory->communicators[place.communicator];
}

/* The same for the same set of calls, in any order and however often: two communicators of one size count once each. */
static uint64_t profile_signature(const struct class_view *view, bool places, bool *placed) {
    uint64_t sum = 0;
    for (size_t i = 0; i < view->profile->count; i++) {
        const struct profiled_call *call = &view->profile->calls[i];
        uint32_t position;
        const struct match_communicator *communicator = telling(view, call, &position);
        if (!communicator)
            continue;
        uint32_t size = communicator->size;
        uint64_t key = hash_scramble((uint64_t)call->call << 48 | (uint64_t)call->direction << 32 | size);
        if (places && call->direction && size < view->whole) {
            key = hash_scramble(key ^ (communicator->rank_of[position] + UINT64_C(1)));
            *placed = true;
        }
        sum += key;
    }
    return sum;
}

/* NOWHERE: none or several. */
static uint32_t stage_place(const struct class_view *view) {
    const struct match_communicator *pipeline = NULL;
    uint32_t at = NOWHERE;
    for (size_t i = 0; i < view->profile->count; i++) {
        const struct profiled_call *call = &view->profile->calls[i];
        uint32_t position;
        const struct match_communicator *communicator = telling(view, call, &position);
        if (!communicator || !call->direction || communicator->size >= view->whole)
            continue;
        if (pipeline && pipeline != communicator)
            return NOWHERE;
        pipeline = communicator;
        at = communicator->rank_of[position];
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
static size_t group(struct rank_classes *classes, struct signed_column *signed_columns, size_t count) {
    size_t with_peers = 0;
    for (size_t i = 0; i < count; i++)
        classes->class_of[i] = NOWHERE;
    qsort(signed_columns, count, sizeof *signed_columns, compare_signatures);
    /* the lowest column of a signature stands first: it names the group until the groups are numbered */
    for (size_t i = 0; i < count; i++) {
        bool first = i == 0 || signed_columns[i].signature != signed_columns[i - 1].signature;
        classes->class_of[signed_columns[i].column] =
            first ? (uint32_t)signed_columns[i].column : classes->class_of[signed_columns[i - 1].column];
    }
    classes->count = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t leader = classes->class_of[i];
        if (leader == i) {
            classes->sizes[classes->count] = 1;
            classes->class_of[i] = (uint32_t)classes->count++;
        } else {
            classes->class_of[i] = classes->class_of[leader];
            classes->sizes[classes->class_of[i]]++;
        }
    }
    for (size_t r = 0; r < classes->count; r++)
        with_peers += classes->sizes[r] > 1 ? classes->sizes[r] : 0;
    return with_peers;
}

bool rank_classes_find(struct rank_classes *classes, const struct call_profile *profiles, const struct cut *cuts,
                       const struct match_directory *directory, uint32_t whole, const struct time_batches *batches) {
    size_t count = batches->dump_count;
    struct signed_column *signed_columns = calloc(count, sizeof *signed_columns);
    *classes = (struct rank_classes){.class_of = calloc(count, sizeof *classes->class_of),
                                     .sizes = calloc(count, sizeof *classes->sizes),
                                     .stage_of = calloc(count, sizeof *classes->stage_of)};
    bool done = signed_columns && classes->class_of && classes->sizes && classes->stage_of;
    for (int attempt = 0; done && attempt < 3; attempt++) { /* places and calls, calls, nothing */
        classes->placed = false;
        for (size_t i = 0; i < count; i++) {
            size_t dump = batches->dumps[i];
            struct class_view view = view_of(profiles, directory, dump, &cuts[dump], whole);
            signed_columns[i].column = i;
            signed_columns[i].signature = attempt == 2 ? 0 : profile_signature(&view, attempt == 0, &classes->placed);
        }
        if (2 * group(classes, signed_columns, count) >= count)
            break;
    }
    bool staged = done && classes->placed && classes->count > 1;
    for (size_t i = 0; staged && i < count; i++) {
        size_t dump = batches->dumps[i];
        struct class_view view = view_of(profiles, directory, dump, &cuts[dump], whole);
        uint32_t place = stage_place(&view);
        classes->stage_of[i] = place + 1;
        staged = place != NOWHERE;
    }
    if (done && !staged)
        memset(classes->stage_of, 0, count * sizeof *classes->stage_of);
    free(signed_columns);
    return done;
}

void rank_classes_free(struct rank_classes *classes) {
    free(classes->class_of);
    free(classes->sizes);
    free(classes->stage_of);
    *classes = (struct rank_classes){0};
}

/* ---- judging --------------------------------------------------------------------------------- */

static double larger(double a, double b) {
    return a < 0 || b < 0 ? -1 : a > b ? a : b;
}

/* Judges the columns of one rank class among themselves. `table` has room for the batches' times, `part` for the
 * columns. */
static double judge_one(const struct rank_classes *classes, const struct time_batches *batches, uint32_t rank_class,
                        int64_t *table, struct significance *part, struct significance *out) {
    size_t size = classes->sizes[rank_class];
    for (size_t b = 0; b < batches->count; b++)
        for (size_t i = 0, at = 0; i < batches->dump_count; i++)
            if (classes->class_of[i] == rank_class)
                table[b * size + at++] = batches->self_ns[b * batches->dump_count + i];
    double independent = significance_judge(table, batches->count, size, batches->rows, part);
    for (size_t i = 0, at = 0; i < batches->dump_count; i++)
        if (classes->class_of[i] == rank_class)
            out[i] = part[at++];
    return independent;
}

double rank_classes_judge_ranks(const struct rank_classes *classes, const struct time_batches *batches,
                                struct significance *out) {
    if (classes->count == 1)
        return significance_judge(batches->self_ns, batches->count, batches->dump_count, batches->rows, out);
    int64_t *table = calloc(batches->count * batches->dump_count + 1, sizeof *table);
    struct significance *part = calloc(batches->dump_count, sizeof *part);
    double independent = table && part ? 0 : -1;
    if (independent == 0 && !classes->placed)
        independent = significance_judge(batches->self_ns, batches->count, batches->dump_count, batches->rows, out);
    for (size_t i = 0; classes->placed && i < batches->dump_count; i++)
        out[i] = (struct significance){.p = 1};
    for (uint32_t r = 0; independent >= 0 && r < classes->count; r++)
        if (classes->sizes[r] > 1)
            independent = larger(independent, judge_one(classes, batches, r, table, part, out));
    free(table);
    free(part);
    return independent;
}

/* Median of one row over a rank class's columns, the lower of two; all columns where `rank_class` is their count. */
static int64_t row_median(const struct rank_classes *classes, const struct time_batches *batches, size_t batch,
                          size_t rank_class, int64_t *scratch) {
    size_t count = 0;
    for (size_t i = 0; i < batches->dump_count; i++)
        if (rank_class == classes->count || classes->class_of[i] == rank_class)
            scratch[count++] = batches->self_ns[batch * batches->dump_count + i];
    return median_low_int64(scratch, count);
}

double rank_classes_judge(const struct rank_classes *classes, const struct time_batches *batches,
                          struct significance *out) {
    int64_t *table = calloc(batches->count * classes->count + 1, sizeof *table);
    int64_t *scratch = calloc(batches->dump_count, sizeof *scratch);
    double independent = -1;
    if (table && scratch) {
        for (size_t b = 0; b < batches->count; b++)
            for (size_t r = 0; r < classes->count; r++)
                table[b * classes->count + r] = row_median(classes, batches, b, r, scratch);
        independent = significance_judge(table, batches->count, classes->count, batches->rows, out);
    }
    free(table);
    free(scratch);
    return independent;
}

bool rank_classes_level(const struct rank_classes *classes, struct time_batches *batches) {
    int64_t *medians = calloc(classes->count + 1, sizeof *medians);
    int64_t *scratch = calloc(batches->dump_count, sizeof *scratch);
    bool done = medians && scratch;
    for (size_t b = 0; done && b < batches->count; b++) {
        int64_t *row = batches->self_ns + b * batches->dump_count;
        for (size_t r = 0; r <= classes->count; r++)
            medians[r] = row_median(classes, batches, b, r, scratch);
        for (size_t i = 0; i < batches->dump_count; i++) {
            int64_t own = medians[classes->class_of[i]];
            if (own > 0)
                row[i] = ns_clamped((double)row[i] * (double)medians[classes->count] / (double)own);
        }
    }
    free(medians);
    free(scratch);
    return done;
}
