/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/sampled_collectives.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/ns.h"

static bool make_room(struct sampled_collectives *sampled, uint32_t wanted) {
    uint32_t room = sampled->room ? sampled->room : 1;
    while (room < wanted)
        room *= 2;
    room = room < sampled->capacity ? room : sampled->capacity;
    int64_t *self_ns = realloc(sampled->self_ns, (size_t)room * SAMPLED_SEGMENT * sizeof *self_ns);
    sampled->self_ns = self_ns ? self_ns : sampled->self_ns;
    sampled->room = self_ns ? room : sampled->room;
    return self_ns != NULL;
}

bool sampled_collectives_init(struct sampled_collectives *sampled, uint32_t segments) {
    *sampled = (struct sampled_collectives){.capacity = segments};
    return make_room(sampled, 1);
}

void sampled_collectives_free(struct sampled_collectives *sampled) {
    free(sampled->self_ns);
    *sampled = (struct sampled_collectives){0};
}

static int64_t *segment_at(const struct sampled_collectives *sampled, uint32_t index) {
    return sampled->self_ns + (size_t)index * SAMPLED_SEGMENT;
}

void sampled_collectives_thin(struct sampled_collectives *sampled, unsigned thin) {
    for (; sampled->thin < thin; sampled->thin++) {
        uint32_t odd = sampled->first & 1, kept = 0;
        for (uint32_t i = odd; i < sampled->count; i += 2)
            memmove(segment_at(sampled, kept++), segment_at(sampled, i), SAMPLED_SEGMENT * sizeof *sampled->self_ns);
        sampled->first = sampled->first / 2 + odd;
        sampled->count = kept;
    }
}

void sampled_collectives_add(struct sampled_collectives *sampled, uint32_t seq, int64_t self_ns) {
    uint32_t segment = seq / SAMPLED_SEGMENT;
    if (sampled->count > 0 && segment >> sampled->thin < sampled->first) /* numbers rise; one that does not is damage */
        return;
    while (sampled->count > 0 && (segment >> sampled->thin) - sampled->first >= sampled->room &&
           ((segment >> sampled->thin) - sampled->first >= sampled->capacity ||
            !make_room(sampled, (segment >> sampled->thin) - sampled->first + 1)))
        sampled_collectives_thin(sampled, sampled->thin + 1); /* where memory is short, too */
    if (segment & ((UINT32_C(1) << sampled->thin) - 1))
        return;
    if (sampled->count == 0)
        sampled->first = segment >> sampled->thin;
    uint32_t index = (segment >> sampled->thin) - sampled->first;
    while (sampled->count <= index) {
        int64_t *fresh = segment_at(sampled, sampled->count++);
        for (unsigned i = 0; i < SAMPLED_SEGMENT; i++)
            fresh[i] = SAMPLED_NONE;
    }
    segment_at(sampled, index)[seq % SAMPLED_SEGMENT] = self_ns;
}

void sampled_collectives_raise(struct sampled_collectives *sampled, uint32_t seq, int64_t by_ns) {
    uint32_t segment = seq / SAMPLED_SEGMENT, number = segment >> sampled->thin;
    if (segment != number << sampled->thin || number < sampled->first || number - sampled->first >= sampled->count)
        return;
    int64_t *kept = &segment_at(sampled, number - sampled->first)[seq % SAMPLED_SEGMENT];
    *kept = *kept == SAMPLED_NONE ? SAMPLED_NONE : add_ns(*kept, by_ns);
}

void sampled_collectives_parcel(struct sampled_collectives *sampled, struct parcel *parcel) {
    parcel_field(parcel, &sampled->thin);
    parcel_field(parcel, &sampled->first);
    parcel_field(parcel, &sampled->count);
    if (sampled->count > sampled->capacity || (sampled->count > sampled->room && !make_room(sampled, sampled->count))) {
        sampled->count = 0;
        parcel->failed = true;
    }
    parcel_bytes(parcel, sampled->self_ns, (size_t)sampled->count * SAMPLED_SEGMENT * sizeof *sampled->self_ns);
}

const int64_t *sampled_collectives_segment(const struct sampled_collectives *sampled, uint32_t number) {
    if (number < sampled->first || number - sampled->first >= sampled->count)
        return NULL;
    return segment_at(sampled, number - sampled->first);
}

/* The stretches of one segment that all have, as rows. */
static void add_rows(struct sampled_rows *rows, struct sampled_collectives *const *samples, size_t ranks,
                     uint32_t segment) {
    unsigned thin = samples[0]->thin;
    for (unsigned i = 0; i < SAMPLED_SEGMENT; i++) {
        int64_t *row = rows->self_ns + rows->rows * ranks;
        bool seen = true;
        for (size_t r = 0; r < ranks && seen; r++) {
            const int64_t *times = sampled_collectives_segment(samples[r], segment);
            seen = times && times[i] != SAMPLED_NONE;
            row[r] = seen ? times[i] : 0;
        }
        rows->numbers[rows->rows] = (segment << thin) * SAMPLED_SEGMENT + i;
        rows->rows += seen;
    }
}

bool sampled_rows_make(struct sampled_rows *rows, struct sampled_collectives *const *samples, size_t ranks) {
    unsigned thin = 0;
    for (size_t r = 0; r < ranks; r++)
        if (samples[r]->thin > thin)
            thin = samples[r]->thin;
    for (size_t r = 0; r < ranks; r++)
        sampled_collectives_thin(samples[r], thin);
    /* one row more than there can be: the next one is written before it is known whether all saw it */
    size_t room = (size_t)samples[0]->count * SAMPLED_SEGMENT + 1;
    *rows = (struct sampled_rows){.self_ns = malloc(room * ranks * sizeof *rows->self_ns),
                                  .numbers = malloc(room * sizeof *rows->numbers)};
    if (!rows->self_ns || !rows->numbers)
        return false;
    for (uint32_t s = 0; s < samples[0]->count; s++)
        add_rows(rows, samples, ranks, samples[0]->first + s);
    return true;
}

void sampled_rows_free(struct sampled_rows *rows) {
    free(rows->self_ns);
    free(rows->numbers);
    *rows = (struct sampled_rows){0};
}
