/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of a part of the job, one by one, as columns of numbers: the block "operations".
 * Lives here: keeping slices, numbering what they name. Must not live here: choosing the part.
 */
#ifndef COMMTAP_PAGE_OPERATIONS_H
#define COMMTAP_PAGE_OPERATIONS_H

#include <jansson.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/match/directory.h"
#include "analyzer/page/text_list.h"
#include "analyzer/symbols/site_labels.h"
#include "analyzer/tracks/tracks.h"

enum { OPERATION_COLUMNS = 14 };

struct operations {
    const struct match_directory *directory; /* these two: not owned */
    struct site_labels *labels;
    int64_t from, to; /* ns, as slices have them: what touches this part is kept */
    size_t most;
    uint64_t left_out; /* beyond `most` */
    size_t kept;
    json_t *columns[OPERATION_COLUMNS], *tracks, *communicators;
    json_t *own_work; /* per name: it is no communication */
    struct text_list names, sites;
    struct hash_table communicator_numbers; /* private: by uid */
    uint32_t *track_numbers;                /* private: by id, +1; 0: not kept */
    size_t track_room;
    bool no_memory;
};

/* Starts with directory, labels, from, to and most set, all else zero; freed with operations_free in every case. */
void operations_begin(struct operations *operations);
void operations_free(struct operations *operations);

/* Takes a slice of an operation on that track. */
void operations_add(struct operations *operations, const struct track *track, const struct slice *slice);

/* Hands the block over. NULL when memory is, or was, short. */
json_t *operations_to_json(struct operations *operations);

#endif
