/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: finding the members of a launch, and one event for them, or several.
 * Must not live here: which launches wait (flight_order.c).
 */
#include "analyzer/import/flight_launches.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash.h"
#include "analyzer/base/hash_table.h"
#include "analyzer/import/formats.h"

/* What a group is launching, as far as the entries were gone through. */
struct open_launch {
    const char *key;             /* the group's name */
    uint32_t first, last, count; /* entries, linked by `next`; 0 of them: none */
};

HASH_TABLE_OF_TEXTS(open_launches, struct open_launch);

/* What became of entries that nothing closes, in a recorder that leaves out what had ended: each is a launch that has
 * not ended, or a member that is left of one that has. */
enum fate { FATE_UNKNOWN, FATE_OPEN, FATE_OVER };

struct fates {
    const struct flight_document *document;
    uint8_t *by_status; /* per entry: what the state of its process group tells, an enum fate */
    size_t front;       /* the first entry that is not one that has ended by that, though it was not seen to begin */
};

struct gathering {
    struct flight_document *document;
    uint32_t *next;
    struct hash_table open;
    struct fates fates; /* of a recorder of open operations */
    int32_t rank;
    flight_place place;
    void *context;
};

bool flight_document_add(struct flight_document *document, struct import_limits *limits,
                         const struct flight_entry *entry) {
    /* the array doubles, and gathering needs a link and rows of two tables */
    if (!limits_keep(limits, 2 * sizeof *entry + 160) || !grow_list(document->entries, document->count))
        return false;
    document->entries[document->count++] = *entry;
    document->tells_start |= entry->seen_started;
    return document->count < UINT32_MAX;
}

static int64_t number_of(const json_t *status, const char *key) {
    const json_t *number = json_object_get(status, key);
    const char *digits = json_string_value(number);
    return digits ? strtoll(digits, NULL, 10) : (int64_t)json_integer_value(number);
}

bool flight_document_status(struct flight_document *document, struct import_limits *limits, const json_t *statuses) {
    const char *group;
    json_t *status;
    json_object_foreach((json_t *)statuses, group, status) {
        int64_t started = number_of(status, "last_started_collective");
        document->timed |= started > 0;
        if (!limits_keep(limits, 2 * sizeof *document->statuses) ||
            !grow_list(document->statuses, document->status_count))
            return false;
        document->statuses[document->status_count++] =
            (struct flight_status){strtoll(group, NULL, 10), number_of(status, "last_enqueued_collective"),
                                   number_of(status, "last_completed_collective")};
    }
    return true;
}

void flight_document_clear(struct flight_document *document) {
    document->count = document->status_count = 0;
    document->tells_start = document->timed = document->lost = document->only_open = false;
}

void flight_document_free(struct flight_document *document) {
    free(document->entries);
    free(document->statuses);
    *document = (struct flight_document){0};
}

/* ---- what was left over ----------------------------------------------------------------------- */

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
static enum fate fate_by_status(const struct seen_group *group, const struct flight_entry *entry) {
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

/* In time that grows as the entries do. False: memory is short. */
static bool find_fates(struct fates *fates, const struct flight_document *document) {
    struct hash_table groups = {0};
    *fates = (struct fates){.document = document, .by_status = malloc(document->count + 1), .front = document->count};
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

static void free_fates(struct fates *fates) {
    free(fates->by_status);
    *fates = (struct fates){0};
}

/* Where starts are noted, what has not begun stands behind something. A launch that the next record follows has no
 * other entries: a closing one were that record. Where that record had ended, and others come, the host went on: it was
 * hardly held up before. */
static enum fate fate_of(const struct fates *fates, uint32_t at) {
    const struct flight_document *document = fates->document;
    const struct flight_entry *entry = &document->entries[at], *next = entry + 1;
    const struct flight_entry *end = document->entries + document->count;
    if (entry->event.state != TRACE_POSTED || (next < end && next->record == entry->record + 1 && entry->record >= 0))
        return FATE_OPEN;
    if (document->timed && entry->message && at <= fates->front) /* a kernel of its own may hold up a collective */
        return FATE_OVER;
    enum fate fate = (enum fate)fates->by_status[at];
    return fate == FATE_UNKNOWN && next < end ? FATE_OVER : fate;
}

/* ---- one launch ------------------------------------------------------------------------------ */

static void take_times(struct trace_event *event, const struct trace_event *closing) {
    event->posted_ns = closing->posted_ns;
    event->returned_ns = closing->returned_ns;
    event->enter_ns = closing->enter_ns;
    event->leave_ns = closing->leave_ns;
    event->state = closing->state;
    event->begun_seen = closing->begun_seen;
    event->timed = closing->timed;
}

static uint64_t add_bytes(uint64_t sum, uint64_t more) {
    return sum == BYTES_UNKNOWN || more == BYTES_UNKNOWN || sum > UINT64_MAX / 2 || more > UINT64_MAX / 2
               ? BYTES_UNKNOWN
               : sum + more;
}

/* Several collectives that run together are one, with a number of its own: what they all are, and all of their bytes.
 */
static bool place_collectives(const struct gathering *g, const struct open_launch *launch,
                              const struct flight_entry *closing) {
    const struct flight_entry *entries = g->document->entries, *first = &entries[launch->first];
    struct trace_event event = first->event;
    bool named = strcmp(import_nccl_calls[closing->event.call].name, "coalesced collectives") != 0;
    for (uint32_t i = 1, at = g->next[launch->first]; i < launch->count; i++, at = g->next[at]) {
        const struct trace_event *part = &entries[at].event;
        event.bytes = add_bytes(event.bytes, part->bytes);
        event.signature = hash_mix(hash_mix(event.signature, i), part->signature); /* equal ones do not vanish */
        event.call = part->call == event.call ? event.call : closing->event.call;
    }
    event.call = named ? closing->event.call : event.call;
    event.bytes_out = BYTES_UNKNOWN;
    if (launch->first == 0 && g->document->lost && !g->document->only_open) /* some of its parts may be overwritten */
        event.signature = 0;
    take_times(&event, &closing->event);
    event.launch = launch->first + 1;
    event.rank = g->rank;
    return g->place(g->context, first->group, -1, event);
}

/* Messages that run together keep what they are; their time is the group's. */
static bool place_messages(const struct gathering *g, const struct open_launch *launch,
                           const struct flight_entry *closing) {
    const struct flight_entry *entries = g->document->entries;
    struct trace_event group = closing->event;
    group.bytes = 0;
    for (uint32_t i = 0, at = launch->first; i < launch->count; i++, at = g->next[at]) {
        struct trace_event event = entries[at].event;
        take_times(&event, &closing->event);
        event.grouped = launch->count > 1;
        event.batched = true;
        event.epoch = entries[at].others;
        event.timed &= !event.grouped;
        event.launch = launch->first + 1;
        event.rank = g->rank;
        group.bytes = add_bytes(group.bytes, event.bytes);
        if (!g->place(g->context, entries[at].group, entries[at].partner, event))
            return false;
    }
    group.launch = launch->first + 1;
    group.rank = g->rank;
    group.stack = entries[launch->first].event.stack;
    return launch->count == 1 || g->place(g->context, closing->group, -1, group);
}

/* Entries that nothing closes: one is a launch. More are not yet launched, or had ended where what had ended is left
 * out: members' own entries never tell. */
static bool place_unclosed(const struct gathering *g, const struct open_launch *launch) {
    const struct flight_entry *entries = g->document->entries;
    bool several = launch->count > 1, only_open = g->document->only_open;
    if (several && !only_open)
        return true;
    enum fate fate = several ? FATE_OVER : only_open ? fate_of(&g->fates, launch->first) : FATE_OPEN;
    uint32_t count = entries[launch->first].message ? launch->count : 1;
    for (uint32_t i = 0, at = launch->first; i < count; i++, at = g->next[at]) {
        struct trace_event event = entries[at].event;
        event.state = fate == FATE_OVER ? TRACE_FINISHED : event.state;
        event.ordinal_unknown = fate == FATE_UNKNOWN && entries[at].message;
        event.signature = several ? 0 : event.signature;
        event.launch = launch->first + 1;
        event.rank = g->rank;
        event.epoch = entries[at].others;
        if (!g->place(g->context, entries[at].group, entries[at].partner, event))
            return false;
    }
    return true;
}

static bool place_closed(const struct gathering *g, const struct open_launch *launch, uint32_t closing) {
    const struct flight_entry *entry = &g->document->entries[closing];
    if (launch->count > 0)
        return entry->message ? place_messages(g, launch, entry) : place_collectives(g, launch, entry);
    if (entry->message) /* its members are overwritten */
        return true;
    struct trace_event event = entry->event; /* before 2.7 collectives' members have no entries */
    event.signature = closing == 0 && g->document->lost && !g->document->only_open ? 0 : event.signature;
    event.launch = closing + 1;
    event.rank = g->rank;
    return g->place(g->context, entry->group, -1, event);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* What is coalesced has one number of either kind. Versions of PyTorch that number batches as collectives give their
 * messages the number of the message before them. */
static bool is_of(const struct gathering *g, const struct open_launch *launch, const struct flight_entry *entry) {
    const struct flight_entry *first = &g->document->entries[launch->first];
    return launch->count > 0 && first->message == entry->message && first->event.order == entry->event.order &&
           first->others == entry->others;
}

static bool take_entry(struct gathering *g, uint32_t at) {
    const struct flight_entry *entry = &g->document->entries[at];
    struct open_launch *launch = open_launches_add(&g->open, entry->group);
    if (!launch)
        return false;
    if (launch->count > 0 && !is_of(g, launch, entry)) {
        if (!place_unclosed(g, launch))
            return false;
        launch->count = 0;
    }
    if (entry->closing) {
        bool done = place_closed(g, launch, at);
        launch->count = 0;
        return done;
    }
    if (launch->count++ == 0)
        launch->first = at;
    else
        g->next[launch->last] = at;
    launch->last = at;
    return true;
}

void flight_document_look(struct flight_document *document) {
    bool any_ended = false;
    for (size_t i = 0; i < document->count; i++)
        any_ended |= document->entries[i].event.state == TRACE_FINISHED;
    document->only_open = document->count > 0 && !any_ended;
    document->lost =
        document->count > 0 && (document->entries[0].record != 0 ||
                                document->entries[document->count - 1].record != (int64_t)document->count - 1);
}

bool flight_document_launches(struct flight_document *document, int32_t rank, flight_place place, void *context) {
    struct gathering g = {.document = document, .rank = rank, .place = place, .context = context};
    g.next = malloc((document->count + 1) * sizeof *g.next);
    bool done = g.next && (!document->only_open || find_fates(&g.fates, document));
    for (uint32_t i = 0; done && i < document->count; i++)
        done = take_entry(&g, i);
    const struct open_launch *launches = g.open.items;
    for (size_t i = 0; done && i < g.open.count; i++)
        done = launches[i].count == 0 || place_unclosed(&g, &launches[i]);
    free_fates(&g.fates);
    hash_table_free(&g.open);
    free(g.next);
    return done;
}
