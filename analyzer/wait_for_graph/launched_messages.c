/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: what has been launched and not ended, by `op` (format.h, struct progress).
 * Must not live here: who waits.
 */
#include "analyzer/wait_for_graph/launched_messages.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/wait_for_graph/pending_messages.h"
#include "analyzer/wait_for_graph/slots.h"

#define ROWS_LOOKED_AT_MOST (UINT64_C(1) << 27) /* of tables, for messages that are not on record: about a second */

/* How far the launches of a process's communicator came. */
struct horizon {
    uint32_t launched, begun, ended, unfollowed;
    uint64_t begun_ns;
    uint32_t calling; /* the launch that a host is just making; 0: none */
    bool open;        /* there may be some that have not ended */
};

enum part { PART_GROUP, PART_COLLECTIVE, PART_MESSAGE };

/* What a record says of a launch. */
struct entry {
    enum part part;
    uint32_t order;                  /* of the launch among those of the communicator */
    bool of_group;                   /* one of several operations */
    bool idle;                       /* a group: nothing ran, or only in graphs */
    struct launched_message message; /* of the other parts `local` and `launch` alone */
};

struct reading {
    const struct world *world;
    const struct dump *dump;
    uint32_t party;
    struct horizon *horizons; /* by local index */
    uint32_t oldest;          /* launches up to this one have ended */
    uint32_t newest_op;       /* of the newest entry's record */
    bool open, no_memory;
    struct entry *entries;
    size_t count;
};

struct message_key {
    uint32_t communicator, seq;
    int32_t from, to;
    uint32_t send;
};

struct message_number {
    struct message_key key;
    uint32_t unused;
    size_t number; /* index of the item + 1; 0: new */
};

HASH_TABLE_OF(message_numbers, struct message_number, struct message_key);

/* Numbers go on from 1 when they have reached the end. */
static bool is_after(uint32_t op, uint32_t other) {
    return other == 0 || (int32_t)(op - other) > 0;
}

/* ---- how far launches came -------------------------------------------------------------------- */

static void read_horizon(struct reading *r, uint32_t local) {
    const struct dump_communicator *communicator = &r->dump->communicators[local];
    const struct progress *progress = communicator->progress;
    struct horizon *h = &r->horizons[local];
    if (!progress || communicator->freed)
        return;
    h->ended = __atomic_load_n(&progress->ended_op, __ATOMIC_ACQUIRE);
    h->begun = __atomic_load_n(&progress->begun_op, __ATOMIC_ACQUIRE);
    h->begun_ns = progress->begun_ns;
    h->unfollowed = __atomic_load_n(&progress->unfollowed_op, __ATOMIC_ACQUIRE);
    h->launched = __atomic_load_n(&progress->launched_op, __ATOMIC_ACQUIRE);
    h->open = h->launched != 0 && is_after(h->launched, h->ended);
}

static bool is_message(const struct call_name *call) {
    return call->api == API_NCCL && (call->call_class == CLASS_SEND || call->call_class == CLASS_RECV);
}

static struct entry *add_entry(struct reading *r, enum part part, uint32_t local, uint32_t launch) {
    if (!grow_list(r->entries, r->count)) {
        r->no_memory = true;
        return NULL;
    }
    struct entry *entry = &r->entries[r->count++];
    *entry = (struct entry){.part = part,
                            .order = launch - r->oldest,
                            .message = {.party = r->party, .local = local, .launch = launch, .number = SEQ_NONE}};
    return entry;
}

/* Whether the slot (a copy) is in a call that launches messages. A library that connects two ranks at their first one
 * keeps the host there until both have called. */
static bool is_launching(const struct dump *dump, const struct in_flight *slot) {
    const struct call_name *call = slot->tid ? slot_call(dump, slot) : NULL;
    return call && call->api == API_NCCL && slot->op != 0 && slot->comm < dump->communicator_count &&
           (is_message(call) || call->call_class == CLASS_GROUP);
}

static void take_slot(struct reading *r, const struct in_flight *slot) {
    const struct call_name *call = slot_call(r->dump, slot);
    bool sure = true, send = call->call_class == CLASS_SEND;
    r->horizons[slot->comm].calling = slot->op;
    struct entry *entry = is_message(call) ? add_entry(r, PART_MESSAGE, slot->comm, slot->op) : NULL;
    if (!entry)
        return;
    uint64_t before = messages_counted(r->dump, slot->comm, send ? FLAG_SEND : FLAG_RECV, slot->peer, &sure);
    entry->message.call = call;
    entry->message.peer = slot->peer;
    entry->message.seq = sure && before < SEQ_NONE ? (uint32_t)before : SEQ_NONE;
    entry->message.stack = slot->stack;
    entry->message.bytes = slot->bytes;
    entry->message.enter = slot->enter;
    entry->message.send = send;
}

static void read_horizons(struct reading *r, const struct in_flight *slots, uint32_t slot_count) {
    bool from_start = false;
    for (uint32_t local = 0; local < r->dump->communicator_count; local++)
        read_horizon(r, local);
    for (uint32_t i = 0; i < slot_count; i++)
        r->horizons[slots[i].comm].open = true;
    for (uint32_t local = 0; local < r->dump->communicator_count; local++) {
        const struct horizon *h = &r->horizons[local];
        if (!h->open)
            continue;
        from_start |= h->ended == 0;
        r->oldest = !r->open || is_after(r->oldest, h->ended) ? h->ended : r->oldest;
        r->open = true;
    }
    r->oldest = from_start ? 0 : r->oldest;
}

/* ---- records --------------------------------------------------------------------------------- */

static void take_record(struct reading *r, const struct record *record) {
    const struct call_name *call = dump_call(r->dump, record->call);
    if (!call || call->api != API_NCCL || record->comm >= r->dump->communicator_count)
        return;
    const struct horizon *h = &r->horizons[record->comm];
    bool group = record->kind == RECORD_GROUP, of_group = !group && record->tag != TAG_NONE;
    uint32_t launch = of_group ? (uint32_t)record->tag : record->op;
    bool idle = record->flags & (FLAG_FAILED | FLAG_CAPTURED);
    if (!h->open || !is_after(launch, h->ended) || (idle && !group))
        return;
    enum part part = group ? PART_GROUP : is_message(call) ? PART_MESSAGE : PART_COLLECTIVE;
    struct entry *entry = add_entry(r, part, record->comm, launch);
    if (!entry)
        return;
    r->newest_op = record->op;
    entry->of_group = of_group;
    entry->idle = idle || (group && call_is_named(call, "ncclGroupSimulateEnd"));
    entry->message.call = call;
    entry->message.peer = record->peer;
    entry->message.seq = record->flags & FLAG_ORDINAL_UNKNOWN ? SEQ_NONE : record->seq;
    entry->message.stack = record->stack;
    entry->message.bytes = record->bytes;
    entry->message.enter = record->t0;
    entry->message.send = (record->flags & FLAG_SEND) != 0;
}

/* It comes right before the operation's own record, which was read just now. */
static void take_told(struct reading *r, const struct record *told) {
    if (r->count == 0 || told->op != r->newest_op)
        return;
    r->entries[r->count - 1].message.number = told->seq;
    r->entries[r->count - 1].message.seen = told->result == TOLD_BEGUN;
}

/* A thread's numbers grow, and those of a launch's operations are behind what its communicator has ended. */
static void read_lane(struct reading *r, uint32_t lane) {
    const struct dump_lane *l = &r->dump->lanes[lane];
    bool one_thread = l->state && !l->state->shared;
    struct record_reader reader;
    record_reader_begin(&reader, r->dump, lane);
    for (uint64_t t = l->end_ticket; t > l->first_ticket && !r->no_memory; t--) {
        const struct record *record = record_reader_at(&reader, t - 1);
        if (record && record->kind == RECORD_TOLD)
            take_told(r, record);
        if (!record || record->op == 0 || (record->kind != RECORD_POST && record->kind != RECORD_GROUP))
            continue;
        if (is_after(record->op, r->oldest))
            take_record(r, record);
        else if (one_thread)
            return;
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

static int compare_entries(const void *a, const void *b) {
    const struct entry *left = a, *right = b;
    if (left->message.local != right->message.local)
        return left->message.local < right->message.local ? -1 : 1;
    if (left->order != right->order)
        return left->order < right->order ? -1 : 1;
    return (int)left->part - (int)right->part;
}

static bool keep_message(struct launched_messages *messages, const struct world *world,
                         const struct launched_message *message) {
    uint32_t my_rank = (uint32_t)world->parties[message->party].dump->communicators[message->local].definition->my_rank;
    if (!grow_list(messages->items, messages->count))
        return false;
    messages->items[messages->count++] = *message;
    if (message->seq == SEQ_NONE)
        return true;
    const struct message_key key = {.communicator = (uint32_t)(message->communicator - world->communicators),
                                    .seq = message->seq,
                                    .from = message->send ? (int32_t)my_rank : message->peer,
                                    .to = message->send ? message->peer : (int32_t)my_rank,
                                    .send = message->send};
    struct message_number *known = message_numbers_add(&messages->numbers, &key);
    if (known && known->number == 0)
        known->number = messages->count;
    return known != NULL;
}

/* The entries from `from` up to `to` are of one launch, which was made or is being made if `made`. `first`: all before
 * it have ended. False when memory is short. */
static bool keep_launch(const struct reading *r, struct launched_messages *messages, size_t from, size_t to, bool made,
                        bool first) {
    const struct launched_message *any = &r->entries[from].message;
    const struct horizon *h = &r->horizons[any->local];
    struct shared_communicator *communicator = world_communicator(r->world, r->party, any->local);
    bool running = h->begun != 0 && is_after(h->begun, h->ended);
    bool followed = h->unfollowed == 0 || !is_after(h->unfollowed, h->ended);
    if (!communicator || (!followed && any->launch != h->begun && !is_after(any->launch, h->unfollowed)))
        return true;
    first &= followed || any->launch == h->begun;
    first &= !running || !is_after(any->launch, h->begun); /* else one runs that is not on record */
    for (size_t i = from; i < to; i++) {
        struct launched_message message = r->entries[i].message;
        if (r->entries[i].part != PART_MESSAGE)
            continue;
        message.communicator = communicator;
        message.calling = any->launch == h->calling;
        message.first = made && first;
        message.begun = made && (message.calling || (h->begun != 0 && !is_after(any->launch, h->begun)));
        uint64_t begun = h->begun == any->launch && h->begun_ns ? dump_ticks_at(r->dump, h->begun_ns) : 0;
        message.enter = begun > message.enter ? begun : message.enter;
        if (!keep_message(messages, r->world, &message))
            return false;
    }
    return true;
}

/* A group's operations are on record before it is launched, which its own record then tells. */
static bool is_made(const struct reading *r, size_t from, size_t to) {
    const struct entry *entry = &r->entries[from];
    const struct horizon *h = &r->horizons[entry->message.local];
    bool of_group = false;
    for (size_t i = from; i < to; i++)
        of_group |= r->entries[i].of_group;
    return entry->part == PART_GROUP || !of_group || entry->message.launch == h->calling;
}

static bool keep_launches(struct reading *r, struct launched_messages *messages) {
    uint32_t local = UINT32_MAX;
    bool first = true;
    if (r->count > 0)
        qsort(r->entries, r->count, sizeof *r->entries, compare_entries);
    for (size_t from = 0, to; from < r->count; from = to) {
        const struct entry *entry = &r->entries[from];
        for (to = from + 1; to < r->count && r->entries[to].message.local == entry->message.local &&
                            r->entries[to].message.launch == entry->message.launch;)
            to++;
        if (entry->message.local != local)
            first = true;
        local = entry->message.local;
        if (entry->part == PART_GROUP && entry->idle)
            continue;
        bool made = is_made(r, from, to);
        if (!keep_launch(r, messages, from, to, made, first))
            return false;
        first &= !made;
    }
    return true;
}

/* Copies of the slots of hosts that are launching messages; there is room for all. */
static uint32_t read_slots(const struct dump *dump, struct in_flight *slots) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        slots[count] = slot_read(&dump->in_flight[i]);
        count += is_launching(dump, &slots[count]);
    }
    return count;
}

static bool read_party(struct launched_messages *messages, const struct world *world, uint32_t party) {
    const struct dump *dump = world->parties[party].dump;
    struct reading r = {.world = world, .dump = dump, .party = party};
    if (dump->header->nccl_version == 0 && dump->device_count == 0)
        return true;
    r.horizons = calloc((size_t)dump->communicator_count + 1, sizeof *r.horizons);
    struct in_flight *slots = malloc(((size_t)dump->in_flight_count + 1) * sizeof *slots);
    bool done = r.horizons && slots;
    uint32_t slot_count = done ? read_slots(dump, slots) : 0;
    if (done)
        read_horizons(&r, slots, slot_count);
    for (uint32_t i = 0; i < slot_count; i++)
        take_slot(&r, &slots[i]);
    for (uint32_t lane = 0; r.open && lane < dump->lane_count; lane++)
        if (!dump_lane_is_device(&dump->lanes[lane]))
            read_lane(&r, lane);
    done = done && !r.no_memory && keep_launches(&r, messages);
    free(slots);
    free(r.horizons);
    free(r.entries);
    return done;
}

bool launched_messages_find(struct launched_messages *messages, const struct world *world) {
    messages->first = calloc((size_t)world->party_count + 2, sizeof *messages->first);
    bool done = messages->first != NULL;
    for (uint32_t p = 0; done && p < world->party_count; p++) {
        messages->first[p] = messages->count;
        done = !world->parties[p].dump || read_party(messages, world, p);
        messages->first[p + 1] = messages->count;
    }
    return done;
}

void launched_messages_free(struct launched_messages *messages) {
    free(messages->items);
    free(messages->first);
    hash_table_free(&messages->numbers);
    *messages = (struct launched_messages){0};
}

/* ---- the other half -------------------------------------------------------------------------- */

static int compare_rank(const void *key, const void *member) {
    int32_t rank = *(const int32_t *)key, other = ((const struct membership *)member)->rank;
    return rank < other ? -1 : rank > other;
}

/* Numbers and counts of messages go together only where all calls were counted. */
static bool counts_all(const struct dump *dump) {
    return dump->pauses == 0 && dump->operations[0] == '\0' && dump->region[0] == '\0' &&
           dump->order_answer.pauses == 0 && dump->order_answer.filters == 0;
}

/* What is not among those that have not ended has either ended or was never called. */
static enum partner absent_partner(struct launched_messages *messages, struct world *world,
                                   const struct launched_message *message, uint32_t *party) {
    const struct shared_communicator *communicator = message->communicator;
    const struct membership *other = bsearch(&message->peer, communicator->present, communicator->present_count,
                                             sizeof *communicator->present, compare_rank);
    if (!other) {
        *party = world_peer(world, message->party, message->local, message->peer);
        return *party != NOBODY && !world->parties[*party].dump ? PARTNER_ABSENT : PARTNER_UNKNOWN;
    }
    *party = other->party;
    const struct dump *dump = world->parties[other->party].dump;
    int32_t my_rank = world->parties[message->party].dump->communicators[message->local].definition->my_rank;
    bool sure = counts_all(dump);
    for (uint32_t lane = 0; lane < dump->lane_count; lane++)
        messages->rows_looked_at += dump->lanes[lane].peer_count;
    if (!sure || messages->rows_looked_at > ROWS_LOOKED_AT_MOST)
        return PARTNER_UNKNOWN;
    uint64_t called = messages_counted(dump, other->local, message->send ? FLAG_RECV : FLAG_SEND, my_rank, &sure);
    if (!sure)
        return PARTNER_UNKNOWN;
    return called > message->seq ? PARTNER_ENDED : PARTNER_ABSENT;
}

const struct launched_message *launched_message_other(const struct launched_messages *messages,
                                                      const struct world *world,
                                                      const struct launched_message *message) {
    int32_t my_rank = world->parties[message->party].dump->communicators[message->local].definition->my_rank;
    if (message->seq == SEQ_NONE || message->peer < 0)
        return NULL;
    const struct message_key key = {.communicator = (uint32_t)(message->communicator - world->communicators),
                                    .seq = message->seq,
                                    .from = message->send ? my_rank : message->peer,
                                    .to = message->send ? message->peer : my_rank,
                                    .send = !message->send};
    const struct message_number *known = message_numbers_find(&messages->numbers, &key);
    return known ? &messages->items[known->number - 1] : NULL;
}

enum partner launched_message_partner(struct launched_messages *messages, struct world *world,
                                      const struct launched_message *message, uint32_t *party) {
    *party = NOBODY;
    if (message->seq == SEQ_NONE || message->peer < 0)
        return PARTNER_UNKNOWN;
    const struct launched_message *other = launched_message_other(messages, world, message);
    if (!other)
        return absent_partner(messages, world, message, party);
    *party = other->party;
    return other->first && other->begun ? PARTNER_THERE : PARTNER_BEHIND;
}

bool launched_message_may_have(const struct launched_messages *messages, const struct world *world,
                               const struct launched_message *message, uint32_t party, bool *begun) {
    const struct dump *dump = world->parties[message->party].dump;
    bool any = false;
    *begun = false;
    for (size_t i = messages->first[party]; i < messages->first[party + 1]; i++) {
        const struct launched_message *other = &messages->items[i];
        if (other->communicator != message->communicator || other->send == message->send ||
            other->peer != dump->communicators[message->local].definition->my_rank)
            continue;
        any = true;
        *begun |= other->begun;
    }
    return any;
}

bool launched_message_is_the_only_side(const struct world *world, const struct launched_message *message) {
    const struct shared_communicator *communicator = message->communicator;
    const struct membership *other = bsearch(&message->peer, communicator->present, communicator->present_count,
                                             sizeof *communicator->present, compare_rank);
    const struct dump *dump = other ? world->parties[other->party].dump : NULL;
    bool sure = dump && counts_all(dump);
    int32_t my_rank = world->parties[message->party].dump->communicators[message->local].definition->my_rank;
    uint16_t theirs = message->send ? FLAG_RECV : FLAG_SEND;
    return sure && messages_counted(dump, other->local, theirs, my_rank, &sure) == 0 && sure;
}
