/* SPDX-License-Identifier: Apache-2.0
 *
 * A flight recorder's entries as launches: what was coalesced runs, and ends, together.
 * Lives here: the entries of one document, and which of them are one launch.
 * Must not live here: reading an entry (flight_entries.h), process groups, other ranks.
 */
#ifndef COMMTAP_IMPORT_FLIGHT_LAUNCHES_H
#define COMMTAP_IMPORT_FLIGHT_LAUNCHES_H

#include "analyzer/import/flight_entries.h"

/* How far a process group came, by its number in the process: its newest launch, and the last that was seen to end.
 * Collectives and messages are numbered apart, and nothing tells which of them a number is of. */
struct flight_status {
    int64_t group, enqueued, completed;
};

struct flight_document {
    struct flight_entry *entries; /* in the order in which they were recorded */
    size_t count;
    struct flight_status *statuses;
    size_t status_count;
    bool tells_start; /* some start was noted */
    bool timed;       /* starts are noted at all */
    bool lost;        /* entries were overwritten, or left out */
    bool only_open;   /* there are entries, and none of anything that has ended */
};

typedef bool (*flight_place)(void *context, const char *group, int32_t partner, struct trace_event event);

/* These return false when memory is short, or a limit is exceeded. */
bool flight_document_add(struct flight_document *document, struct import_limits *limits,
                         const struct flight_entry *entry);
/* Reads "pg_status". */
bool flight_document_status(struct flight_document *document, struct import_limits *limits, const json_t *statuses);
/* Sets what all of the entries tell. */
void flight_document_look(struct flight_document *document);
/* Then: hands out the events of all launches that were made. */
bool flight_document_launches(struct flight_document *document, int32_t rank, flight_place place, void *context);
void flight_document_clear(struct flight_document *document);
void flight_document_free(struct flight_document *document);

#endif
