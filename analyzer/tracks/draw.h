/* SPDX-License-Identifier: Apache-2.0
 *
 * From records and what matching says of them to slices, counters and tracks, handed out one by one.
 * Lives here: the walk that draws a job.
 * Must not live here: what a wait is (waits/).
 *
 * A record is held until matching has told what it took part in. One that nothing is told of is held until as many
 * records have been walked as matching keeps the half of a message for (match.c): memory is bounded as it is there.
 */
#ifndef COMMTAP_TRACKS_DRAW_H
#define COMMTAP_TRACKS_DRAW_H

#include "analyzer/tracks/tracks.h"

/* Hands out everything. Returns false when memory is short. */
bool tracks_draw(const struct track_request *request, struct track_totals *totals);

#endif
