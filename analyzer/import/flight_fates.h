/* SPDX-License-Identifier: Apache-2.0
 *
 * What became of entries that nothing closes, in a flight recorder that leaves out what had ended: each is a launch
 * that has not ended, or a member that is left of one that has. Lives here: what the process groups' states and the
 * entries around it tell of an entry. Must not live here: which entries are one launch (flight_launches.h).
 */
#ifndef COMMTAP_IMPORT_FLIGHT_FATES_H
#define COMMTAP_IMPORT_FLIGHT_FATES_H

#include "analyzer/import/flight_entries.h"

struct flight_document;

enum flight_fate { FATE_UNKNOWN, FATE_OPEN, FATE_OVER };

struct flight_fates {
    const struct flight_document *document;
    uint8_t *by_status; /* per entry: what the state of its process group tells, an enum flight_fate */
    size_t front;       /* the first entry that is not one that has ended by that, though it was not seen to begin */
};

/* Looks at all entries, in time that grows as they do. False: memory is short. Free it in every case. */
bool flight_fates_find(struct flight_fates *fates, const struct flight_document *document);
void flight_fates_free(struct flight_fates *fates);

/* Of the entry with that number. */
enum flight_fate flight_fate_of(const struct flight_fates *fates, uint32_t entry);

#endif
