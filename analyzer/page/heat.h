/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of its time every rank waited and communicated, interval by interval: the block "heat".
 * Lives here: adding slices up. Must not live here: where slices come from.
 */
#ifndef COMMTAP_PAGE_HEAT_H
#define COMMTAP_PAGE_HEAT_H

#include <jansson.h>

#include "analyzer/tracks/tracks.h"

enum {
    HEAT_CELLS_MOST = 600000, /* ranks x intervals, about 5 bytes of a page each */
    HEAT_INTERVALS_LEAST = 64,
    HEAT_INTERVALS_MOST = 600, /* a screen has about two pixels for each */
};

struct heat_cell {
    float waited, communicated; /* ns; of several threads or streams at once each counts */
};

struct heat {
    struct heat_cell *cells; /* rank by rank */
    size_t ranks, intervals;
    int64_t span_ns; /* of all intervals, from 0 on */
};

/* Returns false when memory is short; the caller frees with heat_free in every case. */
bool heat_init(struct heat *heat, size_t ranks, int64_t span_ns);
void heat_free(struct heat *heat);

/* Takes what a slice of an operation says; ns since the beginning of the first interval. */
void heat_add(struct heat *heat, const struct slice *slice);

/* Shares in per cent, at most 100. NULL when memory is short. */
json_t *heat_to_json(const struct heat *heat);

#endif
