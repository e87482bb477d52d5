/* SPDX-License-Identifier: Apache-2.0
 *
 * Which track a slice goes to.
 * Lives here: tracks of every rank as they are needed, further ones for what overlaps, the counters beside them.
 * Must not live here: matching.
 */
#ifndef COMMTAP_TRACKS_LAYOUT_H
#define COMMTAP_TRACKS_LAYOUT_H

#include "analyzer/base/hash_table.h"
#include "analyzer/tracks/held.h"

struct layout {
    const struct track_request *request;
    struct track_totals *totals;
    struct hash_table tracks; /* by kind, rank and number */
    uint32_t last_id;
    bool no_memory;
};

/* Starts zeroed but for request and totals; freed with layout_free. */
void layout_free(struct layout *layout);

/* Hands out the slice of a record of dump `d`, and its counters. *last_track is kept for the lane from record to
 * record, and 0 at first: most of a lane's records go where the one before them went. */
void layout_draw_record(struct layout *layout, size_t d, uint32_t lane, const struct held_record *held,
                        uint32_t *last_track);
void layout_draw_step(struct layout *layout, size_t d, const struct step *step);

#endif
