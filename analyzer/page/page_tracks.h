/* SPDX-License-Identifier: Apache-2.0
 *
 * The job as it went by: what every rank did over all of its time (heat.h), the memory in use on GPUs (memory.h), and
 * single operations of a part of it (operations.h).
 * Lives here: the one walk that gathers them, choosing the part.
 * Must not live here: keeping them, drawing.
 */
#ifndef COMMTAP_PAGE_PAGE_TRACKS_H
#define COMMTAP_PAGE_PAGE_TRACKS_H

#include "analyzer/cli/session.h"
#include "analyzer/page/heat.h"
#include "analyzer/page/memory.h"
#include "analyzer/page/operations.h"
#include "analyzer/steps/steps.h"

enum { OPERATIONS_MOST = 100000 }; /* that a page holds one by one, about 40 bytes each */

struct page_tracks {
    struct heat heat;
    struct memory memory;
    struct operations operations;
    struct track *tracks; /* private: by id */
    size_t track_room;
};

/* `steps` (waits filled in) choose the part whose operations are held: round the step with the longest waits, as many
 * steps as there is room for. Without steps it is all of the job, or its end. Returns false when memory is short; the
 * caller frees with page_tracks_free in every case. */
bool page_tracks_build(struct page_tracks *tracks, const struct session *session, const struct steps *steps);
void page_tracks_free(struct page_tracks *tracks);

#endif
