/* SPDX-License-Identifier: Apache-2.0
 *
 * One entry of a flight recorder.
 * Lives here: the keys that PyTorch writes, in all versions of its format.
 * Must not live here: what several entries are together (flight_launches.h), process groups.
 */
#ifndef COMMTAP_IMPORT_FLIGHT_ENTRIES_H
#define COMMTAP_IMPORT_FLIGHT_ENTRIES_H

#include <jansson.h>

#include "analyzer/import/trace.h"

enum { FLIGHT_NAME = 96 };

struct flight_entry {
    struct trace_event event; /* communicator and peer are not yet known; `order` is PyTorch's number */
    char group[FLIGHT_NAME];
    int32_t partner;       /* of a message, rank in the group; -1 = none */
    int64_t record;        /* number in the recorder, -1 = not told */
    int64_t others;        /* how many of the other kind, message or collective, its group had called by then */
    int64_t process_group; /* its number in the process, -1 = not told */
    bool seen_started;     /* its start was noted */
    bool message;
    bool closing; /* the last of several that were launched together, and the one that has their state */
};

/* Fills *entry, and sets *known: it says enough, and is of a known kind. Its frames go to the trace. Returns false when
 * memory is short, or a limit is exceeded. */
bool flight_entry_read(struct flight_entry *entry, struct trace *trace, const json_t *piece, bool *known);

#endif
