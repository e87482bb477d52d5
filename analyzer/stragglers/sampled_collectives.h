/* SPDX-License-Identifier: Apache-2.0
 *
 * Self time before single collectives, of a sample of them.
 * Lives here: which collectives are kept, on every rank the same ones.
 * Must not live here: what self time is (ranks.h), what follows from it (rotating_stragglers.h).
 *
 * Bins (ranks.h) hold the sum of many collectives where a run is long: another rank slow each time is invisible there.
 * Kept are whole segments of SAMPLED_SEGMENT neighbouring numbers, those whose segment number is a multiple of 2^thin,
 * with the least `thin` that lets the run fit. Two of equal thin hold the same collectives on every rank.
 */
#ifndef COMMTAP_STRAGGLERS_SAMPLED_COLLECTIVES_H
#define COMMTAP_STRAGGLERS_SAMPLED_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/base/parcel.h"

enum { SAMPLED_SEGMENT = 64 };

#define SAMPLED_NONE INT64_MIN /* the collective was not seen */

struct sampled_collectives {
    unsigned thin;
    uint32_t first;           /* number of the first segment >> thin */
    uint32_t count, capacity; /* segments */
    uint32_t room;            /* segments that there is memory for, which grows up to the capacity */
    int64_t *self_ns;         /* SAMPLED_SEGMENT for each segment */
};

/* For up to `segments` >= 2. Returns false when memory is short. Freed with sampled_collectives_free. */
bool sampled_collectives_init(struct sampled_collectives *sampled, uint32_t segments);
void sampled_collectives_free(struct sampled_collectives *sampled);

/* Takes the self time before collective `seq`; one that is older than the first segment is left out. */
void sampled_collectives_add(struct sampled_collectives *sampled, uint32_t seq, int64_t self_ns);

/* Adds to the self time before `seq`, where it was kept. */
void sampled_collectives_raise(struct sampled_collectives *sampled, uint32_t seq, int64_t by_ns);

/* Packs or unpacks a sample that has the same room on both ends. */
void sampled_collectives_parcel(struct sampled_collectives *sampled, struct parcel *parcel);

/* Keeps only the segments whose number is a multiple of 2^thin; thin is at least the present one. */
void sampled_collectives_thin(struct sampled_collectives *sampled, unsigned thin);

/* The stretches that all of several ranks kept, as a table. */
struct sampled_rows {
    size_t rows;
    int64_t *self_ns;  /* rows * ranks, row by row */
    uint32_t *numbers; /* per row */
};

/* Thins all `ranks` >= 1 samples alike. Returns false when memory is short; the caller frees with sampled_rows_free in
 * every case. */
bool sampled_rows_make(struct sampled_rows *rows, struct sampled_collectives *const *samples, size_t ranks);
void sampled_rows_free(struct sampled_rows *rows);

/* The times of the segment numbered number << thin, NULL where nothing of it was kept. */
const int64_t *sampled_collectives_segment(const struct sampled_collectives *sampled, uint32_t number);

#endif
