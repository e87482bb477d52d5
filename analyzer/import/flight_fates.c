/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/flight_fates.h"

#include <stdlib.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/import/flight_launches.h"

/* A process group, as far as its entries were gone through, from the newest one back. */
struct seen_group {
    int64_t key;                        /* its number in the process */
    const struct flight_status *status; /* NULL: there is none */
    const struct flight_entry *newest;  /* NULL: none yet */
    int64_t others[2];                  /* by what an entry is, collective or message: the largest number of the other
                                           kind that those behind it have */
};

HASH_TABLE_OF(seen_groups, struct seen_group, int64_t);

static bool take_statuses(struct hash_table *groups, const struct flight_document *document) {
    for (size_t i = 0; i < document->status_count; i++) {
        struct seen_group *group = seen_groups_add(groups, &document->statuses[i].group);
        if (!group)
            return false;
        if (!group->status)
            group->status = &document->statuses[i];
    }
    return true;
}

/* How far its group came: a number that the other kind has not reached is one of its own kind. */
static enum flight_fate fate_by_status(const struct seen_group *group, const struct flight_entry *entry) {
    const struct flight_status *status = group->status;
    const struct flight_entry *newest = group->newest ? group->newest : entry;
    int64_t number = (int64_t)entry->event.order;
    int64_t others =
        group->newest && group->others[entry->message] > entry->others ? group->others[entry->message] : entry->others;
    if (!status)
        return FATE_UNKNOWN;
    if (others == 0)
        return status->completed >= number ? FATE_OVER : FATE_OPEN;
    bool seen = status->enqueued == (int64_t)newest->event.order; /* nothing came after the newest entry */
    if (seen && status->completed > others && status->completed >= number)
        return FATE_OVER;
    return seen && entry->message && newest == entry && status->completed != number ? FATE_OPEN : FATE_UNKNOWN;
}

static void see(struct seen_group *group, const struct flight_entry *entry) {
    for (int message = 0; message < 2; message++) {
        int64_t number = (bool)message == entry->message ? entry->others : (int64_t)entry->event.order;
        if (!group->newest || number > group->others[message])
            group->others[message] = number;
    }
    group->newest = group->newest ? group->newest : entry;
}

bool flight_fates_find(struct flight_fates *fates, const struct flight_document *document) {
    struct hash_table groups = {0};
    *fates =
        (struct flight_fates){.document = document, .by_status = malloc(document->count + 1), .front = document->count};
    bool done = fates->by_status && take_statuses(&groups, document);
    for (size_t i = document->count; done && i-- > 0;) {
        const struct flight_entry *entry = &document->entries[i];
        struct seen_group *group = seen_groups_add(&groups, &entry->process_group);
        done = group != NULL;
        if (!done)
            break;
        fates->by_status[i] = (uint8_t)fate_by_status(group, entry);
        if (entry->event.state != TRACE_POSTED || entry->closing || fates->by_status[i] != FATE_OVER)
            fates->front = i;
        see(group, entry);
    }
    hash_table_free(&groups);
    return done;
}

void flight_fates_free(struct flight_fates *fates) {
    free(fates->by_status);
    *fates = (struct flight_fates){0};
}

/* Where starts are noted, what has not begun stands behind something. A launch that the next record follows has no
 * other entries: a closing one were that record. Where that record had ended, and others come, the host went on: it was
 * hardly held up before. */
enum flight_fate flight_fate_of(const struct flight_fates *fates, uint32_t at) {
    const struct flight_document *document = fates->document;
    const struct flight_entry *entry = &document->entries[at], *next = entry + 1;
    const struct flight_entry *end = document->entries + document->count;
    if (entry->event.state != TRACE_POSTED || (next < end && next->record == entry->record + 1 && entry->record >= 0))
        return FATE_OPEN;
    if (document->timed && entry->message && at <= fates->front) /* a kernel of its own may hold up a collective */
        return FATE_OVER;
    enum flight_fate fate = (enum flight_fate)fates->by_status[at];
    return fate == FATE_UNKNOWN && next < end ? FATE_OVER : fate;
}
