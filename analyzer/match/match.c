/* SPDX-License-Identifier: Apache-2.0
 *
 * One walk over all dumps.
 * Lives here: what a record says about a collective or a message, the order of dumps, the workers and their rounds.
 * Must not live here: putting together what belongs together (pairing.c), what a late arrival costs.
 */
#include "analyzer/match/match.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash.h"
#include "analyzer/base/hash_table.h"
#include "analyzer/base/side_by_side.h"
#include "analyzer/match/arrivals.h"
#include "analyzer/match/between.h"
#include "analyzer/match/channel.h"
#include "analyzer/match/epochs.h"
#include "analyzer/match/group_messages.h"
#include "analyzer/match/messages.h"
#include "analyzer/match/pairing.h"
#include "analyzer/match/polling.h"
#include "analyzer/match/shares.h"
#include "analyzer/match/slips.h"
#include "analyzer/match/stream.h"
#include "analyzer/match/wildcards.h"

enum {
    BATCH = 128,        /* records of one dump between looks at the others */
    ROUND_BATCHES = 64, /* that a worker reads in a round ... */
    SHARED_ROUND = 512, /* ... where other processes wait for it: milliseconds, beside which messages are short */
    DONES_MAX = 256,    /* completions of one lane that wait for the record of their Wait call */
    PROGRESS_RECORDS = 1 << 17,
    GROUPS_INTERVAL = 1 << 20, /* records of all dumps after which the messages of a group may be given up ... */
    GROUPS_PER_DUMP = 4096,    /* ... and at least so many of the group's own dump */
};

/* A completion whose Wait or Test call has not been recorded yet: that record follows. */
struct completion {
    bool message; /* half of a message; else part of a collective */
    union {
        struct channel_arrival part;
        struct message_half half;
    };
};

/* What completions were waited for in. */
struct waiting {
    int64_t from, to; /* from > to: nothing */
    uint32_t stack;
};
static const struct waiting no_waiting = {INT64_MAX, INT64_MIN, STACK_NONE};

struct walk_lane {
    struct completion *completions; /* DONES_MAX, allocated at the first */
    uint32_t count;
    bool overrun; /* completions of the same stretch, between two calls, have been settled: there were too many */
    struct waiting wait; /* the last Wait or Test call, with the polls before it */
    int64_t called;      /* entry of the last call, MATCH_ABSENT: none yet */
    struct polling polling;
};

/* A call that enqueued GPU work: a launch begins within the few calls before it, or long after its own. */
struct enqueuing_call {
    uint32_t op;
    int64_t left; /* common ns */
};
enum { LAUNCH_CALLS = 16 };

struct walk_dump {
    struct record_stream stream;
    struct walk_lane *lanes;
    struct arrival_turn turn; /* of its next batch */
    struct group_messages groups;
    uint64_t walked; /* records */
    struct enqueuing_call launch_calls[LAUNCH_CALLS];
};

/* How far the numbers of a channel have come, as one worker reads them. */
struct walk_channel {
    struct channel_key key;
    bool any;
    uint32_t newest;
    uint64_t told_in; /* the batch at whose end the others are told */
};

HASH_TABLE_OF(walk_channels, struct walk_channel, struct channel_key);

/* The reading half of one worker. */
struct match_walk {
    const struct common_clock *clock;
    const struct match_directory *directory;
    const struct match_sink *sink;
    void *state;
    unsigned number, workers;
    const uint32_t *worker_of; /* per dump: who reads it, and pairs the messages to it */
    struct arrivals *told;     /* to each worker, in this round */
    struct walk_dump *dumps;   /* shared: each worker touches its own */
    uint32_t *heap;            /* own dumps that have records left, the earliest first */
    size_t heap_count;
    struct walk_channel *channels; /* one per communicator */
    struct hash_table started;     /* those of persistent and captured collectives */
    struct channel_key *to_tell;   /* of those that came further in this batch */
    size_t to_tell_count, to_tell_room;
    uint64_t batch; /* number of it, from 1 */
    uint64_t read;  /* records */
    struct epochs epochs;
    const struct wildcards *wildcards; /* per dump; shared by the workers */
    const struct slips *slips;         /* likewise */
    bool failed;
    struct match_totals totals;
};

/* ---- which dump is next ------------------------------------------------------------------------------------------ */

static bool before(const struct match_walk *walk, uint32_t a, uint32_t b) {
    return arrival_turn_before(&walk->dumps[a].turn, &walk->dumps[b].turn);
}

static void sift_down(struct match_walk *walk, size_t at) {
    uint32_t moving = walk->heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= walk->heap_count)
            break;
        if (child + 1 < walk->heap_count && before(walk, walk->heap[child + 1], walk->heap[child]))
            child++;
        if (!before(walk, walk->heap[child], moving))
            break;
        walk->heap[at] = walk->heap[child];
        at = child;
    }
    walk->heap[at] = moving;
}

/* When the dump's next batch is to come: never before the last one, whatever a damaged dump says. */
static void set_turn(struct match_walk *walk, uint32_t dump) {
    uint64_t ticks = record_stream_front(&walk->dumps[dump].stream);
    int64_t front = ticks == UINT64_MAX ? INT64_MAX : to_common(walk->clock, dump, ticks);
    struct arrival_turn *turn = &walk->dumps[dump].turn;
    *turn = (struct arrival_turn){front > turn->front ? front : turn->front, dump};
}

/* ---- telling those who pair -------------------------------------------------------------------------------------- */

/* NULL when memory is short. */
static struct walk_channel *walk_channel_of(struct match_walk *walk, const struct channel_key *key) {
    struct walk_channel *channel =
        key->started ? walk_channels_add(&walk->started, key) : &walk->channels[key->communicator];
    if (!channel)
        walk->failed = true;
    return channel;
}

static void pass_number(struct match_walk *walk, const struct channel_key *key, uint32_t seq) {
    struct walk_channel *channel = walk_channel_of(walk, key);
    if (!channel || (channel->any && seq <= channel->newest))
        return;
    channel->any = true;
    channel->newest = seq;
    if (channel->told_in == walk->batch)
        return;
    channel->told_in = walk->batch;
    if (grow_by_one(walk->to_tell, walk->to_tell_count, walk->to_tell_room))
        walk->to_tell[walk->to_tell_count++] = *key;
    else
        walk->failed = true;
}

static void tell_part(struct match_walk *walk, struct channel_arrival *part) {
    const struct channel_key *key = &part->channel;
    const struct walk_channel *channel = walk_channel_of(walk, key);
    if (!channel)
        return;
    part->newest = channel->newest;
    uint64_t uid = walk->directory->communicators[key->communicator].uid;
    arrivals_add(&walk->told[channel_worker(key, uid, part->seq, walk->workers)], ARRIVAL_PART, part, sizeof *part);
}

static void tell_half(struct match_walk *walk, enum arrival_kind kind, const struct message_half *half) {
    uint32_t dump = kind == ARRIVAL_SENT ? half->sender : half->receiver;
    arrivals_add(&walk->told[walk->worker_of[dump]], kind, half, sizeof *half);
}

static void begin_batch(struct match_walk *walk, uint32_t dump) {
    walk->batch++;
    walk->to_tell_count = 0;
    for (unsigned w = 0; w < walk->workers; w++)
        arrivals_begin_batch(&walk->told[w], &walk->dumps[dump].turn);
}

static void end_batch(struct match_walk *walk, unsigned taken) {
    for (size_t i = 0; i < walk->to_tell_count; i++) {
        const struct walk_channel *channel = walk_channel_of(walk, &walk->to_tell[i]);
        for (unsigned w = 0; channel && w < walk->workers; w++)
            arrivals_add(&walk->told[w], ARRIVAL_PASSED, &(struct channel_passed){walk->to_tell[i], channel->newest},
                         sizeof(struct channel_passed));
    }
    for (unsigned w = 0; w < walk->workers; w++) {
        arrivals_end_batch(&walk->told[w], taken);
        walk->failed |= walk->told[w].no_memory;
    }
}

/* ---- records --------------------------------------------------------------------------------- */

/* Tells of a completion, which was waited for in `in` if it lies there. */
static void complete(struct match_walk *walk, struct completion *completion, const struct waiting *in, bool shared) {
    struct match_member *member = completion->message ? &completion->half.member : &completion->part.member;
    member->shared = shared;
    member->wait = member->leave;
    if (in->from <= member->leave && member->leave <= in->to) {
        member->wait = in->from > member->enter ? in->from : member->enter;
        member->wait_stack = in->stack;
    }
    if (completion->message)
        tell_half(walk, ARRIVAL_HALF, &completion->half);
    else
        tell_part(walk, &completion->part);
}

/* Tells of all completions of a lane. */
static void settle_lane(struct match_walk *walk, struct walk_lane *lane, const struct waiting *in) {
    for (uint32_t i = 0; i < lane->count; i++)
        complete(walk, &lane->completions[i], in, lane->count > 1 || lane->overrun);
    lane->count = 0;
    lane->overrun = false;
}

/* The record of its Wait or Test call is the last of its kind: it came before. */
static bool is_behind_its_wait(const struct walk_lane *lane, int64_t leave) {
    return lane->wait.from <= leave && leave <= lane->wait.to;
}

/* Tells of a completion whose Wait call is known, or keeps it until that call's record comes. */
static void hold(struct match_walk *walk, struct walk_lane *lane, struct completion *completion) {
    int64_t leave = completion->message ? completion->half.member.leave : completion->part.member.leave;
    if (is_behind_its_wait(lane, leave)) {
        complete(walk, completion, &lane->wait, true);
        return;
    }
    if (!lane->completions && !(lane->completions = calloc(DONES_MAX, sizeof *lane->completions))) {
        walk->failed = true;
        return;
    }
    if (lane->count == DONES_MAX) {
        settle_lane(walk, lane, &no_waiting);
        lane->overrun = true;
    }
    lane->completions[lane->count++] = *completion;
}

/* When the device came to a launch. The event before it is recorded just before the call that launches, and passes on
 * an idle stream at once: where the call took its time until after that, the launch came at the end of the call. A
 * kernel that tells its own beginning began then, be it before its call returned. */
static int64_t arrival_of(struct match_walk *walk, const struct match_record *item) {
    int64_t begin = item->begin;
    bool kernels = walk->directory->dumps[item->dump]->header->gpu_timing == GPU_TIMING_KERNEL;
    if (item->record->kind == RECORD_POLL)
        return to_common(walk->clock, item->dump, record_polls_since(item->record));
    if (!record_is_device(item->record) || kernels || (item->record->flags & FLAG_CAPTURED))
        return begin;
    const struct enqueuing_call *call = &walk->dumps[item->dump].launch_calls[item->record->op % LAUNCH_CALLS];
    if (call->op != item->record->op || call->left <= begin || call->left > item->t1)
        return begin;
    return call->left;
}

static void note_launch_call(struct match_walk *walk, const struct match_record *item) {
    walk->dumps[item->dump].launch_calls[item->record->op % LAUNCH_CALLS] =
        (struct enqueuing_call){item->record->op, item->t1};
}

/* With processes that another MPI_Init made (spawned, connected): nothing common to both names a communicator. */
static bool is_foreign(const struct match_walk *walk, const struct match_record *item) {
    const struct dump_communicator *communicator =
        dump_communicator(walk->directory->dumps[item->dump], item->record->comm);
    return communicator && communicator->definition->flags & COMMUNICATOR_FOREIGN;
}

/* A member's part in an operation that can be matched. */
static struct channel_arrival collective_arrival(struct match_walk *walk, const struct match_record *item,
                                                 const struct channel_key *channel, uint32_t position, uint32_t seq) {
    const struct record *record = item->record;
    const struct match_communicator *communicator = &walk->directory->communicators[channel->communicator];
    struct channel_arrival arrival = {
        .channel = *channel,
        .seq = seq,
        .position = position,
        .call = item->call,
        .base = item->call == CALL_UNKNOWN ? CALL_UNKNOWN : walk->directory->calls[item->call].base,
        .root = match_rank_of(communicator, position, record->peer),
        .bytes = record->bytes,
        .device = record_is_device(record),
        .fence = item->call != CALL_UNKNOWN && record_is_barrier(record, walk->directory->calls[item->call].name),
        .member = {.enter = arrival_of(walk, item),
                   .leave = item->t1,
                   .stack = record->stack,
                   .call = item->call,
                   .lane = item->lane,
                   .ticket = record->commit - 1,
                   .share = record_is_share(record),
                   .bystander = communicator->kind == COMMUNICATOR_INTER && record->peer == PEER_NULL},
    };
    if (arrival.member.leave < arrival.member.enter) /* damage */
        arrival.member.leave = arrival.member.enter;
    arrival.member.wait = record->kind == RECORD_DONE ? arrival.member.leave : arrival.member.enter;
    return arrival;
}

static void take_collective(struct match_walk *walk, const struct match_record *item, struct walk_lane *lane) {
    const struct record *record = item->record;
    struct match_place place = match_place_of(walk->directory, item->dump, record->comm);
    bool replayed = (record->flags & FLAG_CAPTURED) != 0;
    walk->totals.collective++;
    if (place.communicator == NOWHERE || record->seq == SEQ_NONE || (replayed && !item->replay)) {
        walk->totals.unmatchable++;
        walk->totals.foreign += is_foreign(walk, item);
        return;
    }
    struct channel_key channel = {.communicator = place.communicator};
    uint32_t seq = record->seq + slips_before(&walk->slips[item->dump], record->comm, record->seq);
    /* what a graph replays has its number from the capture: the same at every replay */
    if (replayed || record->flags & FLAG_STARTED) {
        channel.started = 1;
        channel.start_of = seq;
        seq = replayed ? item->replay : (uint32_t)record->tag;
    }
    pass_number(walk, &channel, seq);
    struct completion completion = {.part = collective_arrival(walk, item, &channel, place.position, seq)};
    if (record->kind == RECORD_DONE && !(record->flags & FLAG_UNOBSERVED))
        hold(walk, lane, &completion);
    else
        tell_part(walk, &completion.part);
}

static struct match_member half_member(struct match_walk *walk, const struct match_record *item) {
    const struct record *record = item->record;
    struct match_member member = {.enter = record->kind == RECORD_CALL ? item->since : arrival_of(walk, item),
                                  .leave = item->t1,
                                  .stack = record->stack,
                                  .call = item->call,
                                  .lane = item->lane,
                                  .ticket = record->commit - 1,
                                  .share = record_is_share(item->record)};
    if (member.leave < member.enter) /* damage */
        member.leave = member.enter;
    member.wait = record->kind == RECORD_DONE ? member.leave : member.enter;
    member.shared = item->message_count > 0;
    member.in_collective = member.shared && record->flags & FLAG_COLLECTIVE;
    return member;
}

static uint32_t ordinal_of(const struct match_walk *walk, size_t dump, const struct record *record) {
    return record->flags & FLAG_ORDINAL_UNKNOWN ? wildcards_ordinal(&walk->wildcards[dump], record->op) : record->seq;
}

/* Half of a message, or false where nothing can tell which. `record` says what it is: that of the item, or one of the
 * messages of the group that the item is the launch of. NCCL has no tags, and keeps other things there; what a graph
 * replays has the same ordinal at every replay. */
static bool make_half(struct match_walk *walk, const struct match_record *item, const struct record *record,
                      struct message_half *half) {
    const struct match_directory *directory = walk->directory;
    bool device = record_is_device(item->record);
    struct match_place place = match_place_of(directory, item->dump, record->comm);
    bool send = (record->flags & FLAG_SEND) != 0;
    uint32_t ordinal = ordinal_of(walk, item->dump, record);
    if (place.communicator == NOWHERE || record->peer < 0 || ordinal == SEQ_NONE ||
        (record->flags & (FLAG_CANCELLED | FLAG_FAILED | FLAG_PARTITIONED)))
        return false;
    const struct match_communicator *communicator = &directory->communicators[place.communicator];
    int32_t peer = match_rank_of(communicator, place.position, record->peer);
    uint32_t position = match_position_of(communicator, peer);
    if (position == NOWHERE) /* it has no dump */
        return false;
    uint32_t me = communicator->rank_of[place.position];
    *half = (struct message_half){
        .key = {.communicator = place.communicator,
                .from = send ? me : (uint32_t)peer,
                .to = send ? (uint32_t)peer : me,
                .tag = device ? (int32_t)item->replay : record->tag,
                .ordinal = ordinal},
        .send = send,
        .dump = (uint32_t)item->dump,
        .receiver = send ? communicator->dump_of[position] : (uint32_t)item->dump,
        .sender = send ? (uint32_t)item->dump : communicator->dump_of[position],
        .op = record->op,
        .device = device,
        .synchronous = !device && (record->flags & FLAG_SYNCHRONOUS) != 0,
        .bytes = record->flags & FLAG_BYTES_POSTED ? BYTES_UNKNOWN : record->bytes,
        .member = half_member(walk, item),
        .error = device ? device_error_at(walk->clock, item->dump, item->begin) : 0,
    };
    return true;
}

/* `record`: as in make_half. */
static void walk_message(struct match_walk *walk, const struct match_record *item, const struct record *record,
                         struct walk_lane *lane) {
    struct completion completion = {.message = true};
    if (record->peer == PEER_NULL) /* goes nowhere */
        return;
    if (!make_half(walk, item, record, &completion.half)) {
        walk->totals.halves_unmatchable++;
        walk->totals.foreign += is_foreign(walk, item);
        return;
    }
    completion.half.member.before = item->record->kind == RECORD_CALL ? lane->called : MATCH_ABSENT;
    if (walk->sink->sent && completion.half.device)
        tell_half(walk, ARRIVAL_SENT, &completion.half);
    walk->totals.halves++;
    if (item->record->kind == RECORD_DONE && !(item->record->flags & FLAG_UNOBSERVED))
        hold(walk, lane, &completion);
    else
        tell_half(walk, ARRIVAL_HALF, &completion.half);
}

/* One rank's half of what two of them need of each other in an epoch. */
static void take_epoch_half(struct match_walk *walk, const struct match_record *item,
                            const struct epoch_partner *partner, enum epoch_need need, bool gives, bool shared) {
    struct record record = *item->record;
    struct message_half half;
    record.peer = partner->peer;
    record.seq = partner->ordinal;
    record.tag = (int32_t)need;
    record.flags = gives ? FLAG_SEND : FLAG_RECV;
    if (!make_half(walk, item, &record, &half))
        return;
    half.member.shared = shared;
    tell_half(walk, ARRIVAL_NEED, &half);
}

/* A call that ends an epoch: it needs, or is needed by, everybody whom the call named that began it. */
static void end_epoch(struct match_walk *walk, const struct match_record *item, bool completes) {
    struct epoch_group group;
    if (!epochs_end(&walk->epochs, &(struct epoch_key){(uint32_t)item->dump, item->record->comm, completes}, &group))
        return;
    for (uint32_t i = 0; i < group.count; i++) {
        if (completes)
            take_epoch_half(walk, item, &group.partners[i], EPOCH_POST_TO_COMPLETE, false, group.count > 1);
        take_epoch_half(walk, item, &group.partners[i], EPOCH_COMPLETE_TO_WAIT, completes, group.count > 1);
    }
}

static void walk_epoch(struct match_walk *walk, const struct match_record *item) {
    const struct record *record = item->record;
    if (item->call == CALL_UNKNOWN || !walk->sink->epoch)
        return;
    enum epoch_part part = walk->directory->calls[item->call].name->epoch;
    if (record->kind == RECORD_CALL && (part == EPOCH_COMPLETE || part == EPOCH_WAIT) && !(record->flags & FLAG_FAILED))
        end_epoch(walk, item, part == EPOCH_COMPLETE);
    if (record->kind != RECORD_PARTNER || (part != EPOCH_POST && part != EPOCH_START))
        return;
    struct epoch_partner partner = {record->peer, record->flags & FLAG_ORDINAL_UNKNOWN ? SEQ_NONE : record->seq};
    bool post = part == EPOCH_POST;
    walk->failed |=
        !epochs_begin(&walk->epochs, &(struct epoch_key){(uint32_t)item->dump, record->comm, !post}, record, &partner);
    take_epoch_half(walk, item, &partner, EPOCH_POST_TO_START, post, !post && record->op > 1);
    if (post)
        take_epoch_half(walk, item, &partner, EPOCH_POST_TO_COMPLETE, true, false);
}

static enum call_class class_of(const struct match_walk *walk, const struct match_record *item) {
    return item->call == CALL_UNKNOWN ? CLASS_OTHER : walk->directory->calls[item->call].name->call_class;
}

/* Since when the call's result was asked for. */
static int64_t asked_since(struct match_walk *walk, const struct match_record *item, struct walk_lane *lane) {
    int64_t from = covered_time_bounds(walk->sink->covered, item->stretch).from;
    int64_t t0 = item->record->kind == RECORD_POLL
                     ? to_common(walk->clock, item->dump, record_polls_since(item->record))
                     : item->begin;
    return polling_pass(&lane->polling, &(struct polling_call){.record = item->record,
                                                               .call_class = class_of(walk, item),
                                                               .stretch = item->stretch,
                                                               .gap = item->gap,
                                                               .t0 = t0 < from ? from : t0,
                                                               .t1 = item->t1});
}

/* A Wait or Test call tells since when the completions inside it were waited for; any other call ends the search. */
static void note_wait(struct match_walk *walk, const struct match_record *item, struct walk_lane *lane) {
    enum call_class class = class_of(walk, item);
    if (class == CLASS_WAIT || class == CLASS_TEST) {
        lane->wait = (struct waiting){item->since, item->t1, item->record->stack};
        settle_lane(walk, lane, &lane->wait);
    } else if (lane->count > 0) {
        settle_lane(walk, lane, &no_waiting);
    }
}

/* Whether nobody is to see a record; else its stretch of the covered time is known. */
static bool is_outside(const struct match_walk *walk, struct match_record *item) {
    const struct match_sink *sink = walk->sink;
    if (sink->limited && (item->t1 < sink->from_ns || item->begin > sink->to_ns))
        return true;
    if (!sink->covered || sink->covered->whole)
        return false;
    if (sink->covered->silent[item->dump])
        return true;
    item->stretch = covered_time_at(sink->covered, item->begin, item->t1);
    return item->stretch == COVERED_NOWHERE;
}

/* What reaches out of the covered time has counterparts that are not on record, or waits that lie outside. */
static bool is_matched(const struct match_walk *walk, const struct match_record *item) {
    const struct match_sink *sink = walk->sink;
    return !sink->covered || sink->covered->whole ||
           covered_time_holds(sink->covered, item->stretch, item->begin, item->t1);
}

static bool is_blocking_send(const struct match_walk *walk, const struct match_record *item) {
    if (item->call == CALL_UNKNOWN)
        return false;
    const struct call_name *call = walk->directory->calls[item->call].name;
    return !call->nonblocking && (call->call_class == CLASS_SEND || call->call_class == CLASS_SENDRECV);
}

/* A launch on a GPU that happened once. */
static bool is_launch(const struct record *record) {
    return (record->kind == RECORD_GPU || record->kind == RECORD_KERNEL) && !(record->flags & FLAG_CAPTURED);
}

/* A probe, and a call that prepares a persistent send or receive, names a partner but is no operation: it has no number
 * of one. Nor has a blocking send, which has a place in its channel, or is one whose place is not known. */
static bool moves_a_message(const struct match_walk *walk, const struct match_record *item) {
    const struct record *record = item->record;
    return record->flags & (FLAG_SEND | FLAG_RECV) &&
           (record->op != 0 || record->seq != SEQ_NONE || is_blocking_send(walk, item)) &&
           (record->kind == RECORD_CALL || record->kind == RECORD_DONE || is_launch(record) || item->replay > 0);
}

static void match_record(struct match_walk *walk, const struct match_record *item, struct walk_lane *lane) {
    const struct record *record = item->record;
    if ((record->flags & FLAG_COLLECTIVE) && (record->kind == RECORD_CALL || record->kind == RECORD_DONE ||
                                              record->kind == RECORD_GPU || record->kind == RECORD_KERNEL))
        take_collective(walk, item, lane);
    else if (item->message_count == 0 && moves_a_message(walk, item))
        walk_message(walk, item, record, lane);
    for (uint32_t i = 0; i < item->message_count; i++)
        walk_message(walk, item, &item->messages[i], lane);
}

static void hand_out_record(struct match_walk *walk, struct match_record item) {
    struct time_stretch bounds = covered_time_bounds(walk->sink->covered, item.stretch);
    item.t0 = arrival_of(walk, &item);
    item.t0 = item.t0 < bounds.from ? bounds.from : item.t0;
    item.t1 = item.t1 > bounds.to ? bounds.to : item.t1;
    item.since = item.since < item.t0 ? item.since : item.t0;
    walk->sink->record(walk->state, &item);
}

/* Whether the launch of the group that this message is in will ask for it. Where launches have no times none will. */
static bool is_message_to_keep(const struct match_walk *walk, const struct match_record *item) {
    return item->call != CALL_UNKNOWN && is_message_of_group(item->record, walk->directory->calls[item->call].name) &&
           dump_has_device_times(walk->directory->dumps[item->dump]);
}

/* The messages of the group that the item is the launch of, NULL where it is none. Which of a captured group's they are
 * tells the number of the replay. */
static const struct posted_group *group_launched(const struct group_messages *groups, const struct match_record *item) {
    if (is_launch(item->record))
        return group_messages_find(groups, (uint32_t)item->dump, item->record->op);
    return item->replay > 0 ? group_messages_captured(groups, (uint32_t)item->dump, item->record->op) : NULL;
}

static void note_messages_of_groups(struct match_walk *walk, struct match_record *item) {
    const struct record *record = item->record;
    struct group_messages *groups = &walk->dumps[item->dump].groups;
    const struct posted_group *group = group_launched(groups, item);
    if (group) {
        item->messages = group->messages;
        item->message_count = group->count;
    }
    if (is_message_to_keep(walk, item))
        walk->failed |= !group_messages_post(groups, (uint32_t)item->dump, record);
    else if (record->kind == RECORD_GROUP && record->flags & FLAG_CAPTURED)
        walk->failed |= !group_messages_capture(groups, (uint32_t)item->dump, record->op);
}

static void walk_record(struct match_walk *walk, size_t dump, const struct record *record) {
    struct record_stream *stream = &walk->dumps[dump].stream;
    struct walk_lane *lane = &walk->dumps[dump].lanes[record_stream_lane(stream)];
    struct match_record item = {.record = record,
                                .dump = dump,
                                .call = match_call_of(walk->directory, dump, record->call),
                                .gap = record_stream_gap(stream),
                                .lane = record_stream_lane(stream),
                                .replay = record_stream_replay(stream).number,
                                .begin = record_begin(walk->clock, dump, record),
                                .t1 = record_end(walk->clock, dump, record), /* whole: hand_out_record cuts it */
                                .since = INT64_MAX};
    if (item.gap)
        epochs_forget(&walk->epochs, (uint32_t)dump);
    if (is_outside(walk, &item))
        return;
    if (record->kind == RECORD_CALL || record->kind == RECORD_POST || record->kind == RECORD_POLL)
        item.since = asked_since(walk, &item, lane);
    if (record->kind == RECORD_CALL)
        note_wait(walk, &item, lane);
    else if (record->kind == RECORD_POST || record->kind == RECORD_GROUP)
        note_launch_call(walk, &item);
    note_messages_of_groups(walk, &item);
    if (walk->sink->record)
        hand_out_record(walk, item);
    if (is_matched(walk, &item)) {
        match_record(walk, &item, lane);
        walk_epoch(walk, &item);
    }
    if (record->kind == RECORD_CALL || record->kind == RECORD_POST)
        lane->called = item.begin;
    walk->totals.records++;
    if (item.message_count > 0 && is_launch(record))
        group_messages_drop(&walk->dumps[dump].groups, (uint32_t)dump, record->op);
}

/* ---- reading ------------------------------------------------------------------------------------------------------
 */

static bool begin_dump(struct match_walk *walk, uint32_t d) {
    const struct match_directory *directory = walk->directory;
    struct walk_dump *dump = &walk->dumps[d];
    uint32_t lanes = directory->dumps[d]->lane_count;
    uint64_t interval = GROUPS_INTERVAL / directory->dump_count;
    group_messages_init(&dump->groups, interval > GROUPS_PER_DUMP ? interval : GROUPS_PER_DUMP);
    dump->lanes = calloc(lanes ? lanes : 1, sizeof *dump->lanes);
    if (!dump->lanes || !record_stream_begin(&dump->stream, directory->dumps[d]))
        return false;
    for (uint32_t l = 0; l < lanes; l++) {
        dump->lanes[l].wait = no_waiting;
        dump->lanes[l].called = MATCH_ABSENT;
    }
    dump->turn.front = INT64_MIN;
    set_turn(walk, d);
    if (dump->turn.front != INT64_MAX)
        walk->heap[walk->heap_count++] = d;
    return true;
}

static bool walk_begin(struct match_walk *walk) {
    const struct match_directory *directory = walk->directory;
    walk->heap = calloc(directory->dump_count, sizeof *walk->heap);
    walk->channels = calloc(directory->communicator_count ? directory->communicator_count : 1, sizeof *walk->channels);
    if (!walk->heap || !walk->channels)
        return false;
    for (uint32_t d = 0; d < directory->dump_count; d++)
        if (walk->worker_of[d] == walk->number && !begin_dump(walk, d))
            return false;
    for (size_t i = walk->heap_count; i-- > 0;)
        sift_down(walk, i);
    return true;
}

static void end_dump(struct walk_dump *dump, const struct dump *file) {
    record_stream_end(&dump->stream);
    for (uint32_t l = 0; dump->lanes && l < file->lane_count; l++)
        free(dump->lanes[l].completions);
    free(dump->lanes);
    group_messages_free(&dump->groups);
}

static void walk_end(struct match_walk *walk) {
    epochs_free(&walk->epochs);
    hash_table_free(&walk->started);
    free(walk->to_tell);
    free(walk->channels);
    free(walk->heap);
}

/* Up to BATCH records of the dump that is furthest behind. */
static void read_batch(struct match_walk *walk) {
    uint32_t d = walk->heap[0];
    struct walk_dump *dump = &walk->dumps[d];
    const struct record *record = NULL;
    unsigned taken = 0;
    begin_batch(walk, d);
    while (taken < BATCH && !walk->failed && (record = record_stream_next(&dump->stream)) != NULL) {
        walk_record(walk, d, record);
        taken++;
    }
    dump->walked += taken;
    walk->read += taken;
    group_messages_walked(&dump->groups, dump->walked);
    for (uint32_t l = 0; taken < BATCH && l < walk->directory->dumps[d]->lane_count; l++)
        settle_lane(walk, &dump->lanes[l], &no_waiting);
    end_batch(walk, taken);
    if (taken == BATCH)
        set_turn(walk, d);
    else
        walk->heap[0] = walk->heap[--walk->heap_count];
    if (walk->heap_count > 0)
        sift_down(walk, 0);
}

/* ---- rounds: everybody pairs what all have read by then, and reads on ---------------------------------------------
 */

/* The walk as all workers share it. */
struct match_workers {
    unsigned count;
    unsigned first, own;     /* those of this process */
    struct between *between; /* the others, NULL: there are none */
    unsigned round_batches;
    struct walk_dump *dumps;
    struct match_walk *walks;
    struct pairing *pairings;
    struct arrivals *told;        /* by worker w to worker v: told[w * count + v], to be paired */
    struct arrivals *told_now[2]; /* the same, from this round and from the last one, in turns */
    unsigned now;                 /* told_now[now] is this round's */
    unsigned batches;             /* read in this round by all of this process */
    uint32_t *worker_of;          /* per dump */
    struct arrival_turn *next;    /* per worker: of its next batch that was not read before this round */
    uint64_t records;             /* of all dumps */
};

/* The turn of what is not there. */
static const struct arrival_turn never = {INT64_MAX, UINT32_MAX};

/* Reading ends for all at the same time: who has less to pair reads more. But nobody gets far ahead, or hardly on. */
static bool is_round_read(struct match_workers *all, unsigned own) {
    unsigned least = all->round_batches / 2, most = all->round_batches + least;
    return own >= most ||
           (own > least && __atomic_load_n(&all->batches, __ATOMIC_RELAXED) >= all->own * all->round_batches);
}

/* A worker alone pairs each batch while it is warm. One whose batches wait for others to come so far reads no more. */
static void read_on(struct match_workers *all, size_t worker) {
    struct match_walk *walk = &all->walks[worker];
    bool ahead = all->told[worker * all->count + worker].batches >= all->round_batches;
    walk->told = all->told_now[all->now] + worker * all->count;
    for (unsigned own = 0; !ahead && walk->heap_count > 0 && !walk->failed && !is_round_read(all, own); own++) {
        read_batch(walk);
        __atomic_add_fetch(&all->batches, 1, __ATOMIC_RELAXED);
    }
}

/* The worker whose oldest batch to this one comes first, unless one that has not been read yet comes before; `count`:
 * none. */
static unsigned first_teller(const struct match_workers *all, size_t worker) {
    struct arrival_turn first = never;
    unsigned teller = all->count;
    for (unsigned w = 0; w < all->count; w++) {
        const struct arrival_batch *batch = arrivals_front(&all->told[(size_t)w * all->count + worker]);
        const struct arrival_turn *turn = batch ? &batch->turn : &all->next[w];
        if (!arrival_turn_before(turn, &first))
            continue;
        first = *turn;
        teller = batch ? w : all->count;
    }
    return teller;
}

/* Adds what worker w told worker v in the last round to what is to be paired. */
static bool take_over(const struct match_workers *all, size_t w, size_t v) {
    struct arrivals *told = &all->told[w * all->count + v];
    arrivals_move(told, &all->told_now[1 - all->now][w * all->count + v]);
    return !told->no_memory;
}

/* What own workers told: what those of other processes did has come already. */
static void pair(const struct match_workers *all, size_t worker) {
    struct pairing *pairing = &all->pairings[worker];
    for (size_t w = all->first; w < all->first + all->own; w++)
        pairing->no_memory |= !take_over(all, w, worker);
    for (unsigned w; !pairing->no_memory && (w = first_teller(all, worker)) < all->count;) {
        struct arrivals *told = &all->told[(size_t)w * all->count + worker];
        pairing_take(pairing, arrivals_front(told));
        arrivals_pop(told);
    }
}

static void do_round(void *context, size_t number) {
    struct match_workers *all = context;
    pair(all, all->first + number);
    read_on(all, all->first + number);
}

static void close_round(void *context, size_t number) {
    struct match_workers *all = context;
    pair(all, all->first + number);
    if (!all->pairings[all->first + number].no_memory)
        pairing_close(&all->pairings[all->first + number]);
}

/* What was read now is for the next round; what is for other processes is made ready. False when memory is short. */
static bool end_round(struct match_workers *all) {
    bool done = true;
    all->now = 1 - all->now;
    all->batches = 0;
    for (unsigned w = all->first; w < all->first + all->own; w++) {
        const struct match_walk *walk = &all->walks[w];
        all->next[w] = walk->heap_count > 0 ? walk->dumps[walk->heap[0]].turn : never;
        for (unsigned v = 0; v < all->count; v++)
            done = (v >= all->first && v < all->first + all->own) || take_over(all, w, v) ? done : false;
    }
    return done;
}

/* How far own workers have come. Returns false when memory was short. */
static bool look_at_own(const struct match_workers *all, struct between_round *round) {
    bool failed = false;
    *round = (struct between_round){0};
    for (unsigned w = all->first; w < all->first + all->own; w++) {
        failed |= all->walks[w].failed || all->pairings[w].no_memory;
        round->more |= all->walks[w].heap_count > 0;
        round->read += all->walks[w].read;
    }
    return !failed;
}

/* What one worker alone reads is paired while it is warm. */
static bool walk_rounds(struct match_workers *all, struct crew *crew, const struct match_sink *sink) {
    uint64_t shown = PROGRESS_RECORDS;
    struct between_round round;
    bool done = look_at_own(all, &round);
    for (round.more = done; done && round.more;) {
        crew_do(crew, all->own, do_round, all);
        done = end_round(all) && look_at_own(all, &round);
        if (all->between)
            done = between_rounds(all->between, !done, &round);
        if (sink->progress && round.read >= shown) {
            sink->progress(sink->progress_context,
                           round.read < all->records ? (unsigned)(round.read * 1000 / all->records) : 1000);
            shown = round.read + PROGRESS_RECORDS;
        }
    }
    if (done)
        crew_do(crew, all->own, close_round, all);
    return done && look_at_own(all, &round);
}

static bool walk_all(struct match_workers *all, const struct match_sink *sink) {
    struct crew *crew = crew_begin(all->own);
    bool done = walk_rounds(all, crew, sink);
    crew_end(crew);
    return done;
}

void match_totals_add(struct match_totals *sum, const struct match_totals *part) {
    sum->records += part->records;
    sum->collective += part->collective;
    sum->matched += part->matched;
    sum->unmatchable += part->unmatchable;
    sum->instances += part->instances;
    sum->partial += part->partial;
    sum->stale += part->stale;
    sum->mismatches += part->mismatches;
    sum->halves += part->halves;
    sum->messages += part->messages;
    sum->halves_alone += part->halves_alone;
    sum->halves_unmatchable += part->halves_unmatchable;
    sum->foreign += part->foreign;
}

static void count_slips(struct match_totals *totals, const struct match_directory *directory, size_t dump,
                        const struct slips *slips) {
    if (slips->count && !totals->slips)
        totals->first_slip = (struct match_slip){.dump = dump,
                                                 .communicator = match_place_of(directory, dump, slips->items[0].comm),
                                                 .call = slips->items[0].call,
                                                 .seq = slips->items[0].seq};
    totals->slips += slips->count;
}

unsigned match_workers(unsigned wish) {
    return wish < 1 ? 1 : wish < MATCH_THREADS_MAX ? wish : MATCH_THREADS_MAX;
}

/* Processes that have workers, and how many each of them has. */
static unsigned reading_processes(const struct team *team) {
    unsigned processes = team_is_shared(team) ? team->processes : 1;
    return processes < MATCH_WORKERS_MAX ? processes : MATCH_WORKERS_MAX;
}
static unsigned workers_of_each(const struct team *team, unsigned threads) {
    unsigned most = MATCH_WORKERS_MAX / reading_processes(team), workers = match_workers(threads);
    return workers < most ? workers : most;
}

unsigned match_workers_among(const struct team *team, unsigned threads) {
    unsigned all = reading_processes(team) * workers_of_each(team, threads), alone = match_workers(threads);
    return all > alone ? all : alone; /* which is what is needed where the states cannot travel */
}

/* What every worker needs to know of each of its dumps before the walk begins. */
struct foreknowledge {
    const struct match_directory *directory;
    const struct match_workers *all;
    struct wildcards *wildcards;
    struct slips *slips;
    bool no_memory;
};

static bool is_own(const struct match_workers *all, uint32_t worker) {
    return worker >= all->first && worker < all->first + all->own;
}

static void number_wildcards(void *context, size_t dump) {
    struct foreknowledge *known = context;
    if (is_own(known->all, known->all->worker_of[dump]) &&
        !wildcards_number(&known->wildcards[dump], known->directory->dumps[dump]))
        __atomic_store_n(&known->no_memory, true, __ATOMIC_RELAXED);
}

static bool foresee(struct foreknowledge *known, const struct match_directory *directory,
                    const struct match_workers *all) {
    size_t count = directory->dump_count ? directory->dump_count : 1;
    *known = (struct foreknowledge){.directory = directory,
                                    .all = all,
                                    .wildcards = calloc(count, sizeof *known->wildcards),
                                    .slips = calloc(count, sizeof *known->slips)};
    if (!all->worker_of || !known->wildcards || !known->slips || !slips_find(known->slips, directory))
        return false;
    side_by_side(all->own, directory->dump_count, number_wildcards, known);
    return !known->no_memory;
}

static void foreknowledge_free(struct foreknowledge *known, const struct match_directory *directory) {
    for (size_t d = 0; known->wildcards && d < directory->dump_count; d++)
        wildcards_free(&known->wildcards[d]);
    for (size_t d = 0; known->slips && d < directory->dump_count; d++)
        slips_free(&known->slips[d]);
    free(known->wildcards);
    free(known->slips);
}

static bool workers_begin(struct match_workers *all, const struct common_clock *clock, const struct match_sink *sink,
                          void *const *states, const struct foreknowledge *known) {
    const struct match_directory *directory = known->directory;
    bool done = all->dumps && all->told && all->told_now[0] && all->told_now[1] && all->worker_of;
    for (size_t d = 0; d < directory->dump_count; d++)
        all->records += share_records(directory->dumps[d]);
    for (unsigned w = all->first; done && w < all->first + all->own; w++) {
        all->walks[w] = (struct match_walk){.clock = clock,
                                            .directory = directory,
                                            .sink = sink,
                                            .state = states[w],
                                            .number = w,
                                            .workers = all->count,
                                            .worker_of = all->worker_of,
                                            .dumps = all->dumps,
                                            .wildcards = known->wildcards,
                                            .slips = known->slips};
        done = walk_begin(&all->walks[w]) && pairing_init(&all->pairings[w], directory, sink, states[w], all->count);
    }
    return done;
}

static void workers_end(struct match_workers *all, const struct match_directory *directory,
                        struct match_totals *totals) {
    for (size_t d = 0; all->dumps && d < directory->dump_count; d++)
        end_dump(&all->dumps[d], directory->dumps[d]);
    for (unsigned w = 0; w < all->count; w++) {
        walk_end(&all->walks[w]);
        pairing_free(&all->pairings[w]);
        match_totals_add(totals, &all->walks[w].totals);
        match_totals_add(totals, &all->pairings[w].totals);
    }
    struct arrivals *const queues[] = {all->told, all->told_now[0], all->told_now[1]};
    for (size_t k = 0; k < sizeof queues / sizeof *queues; k++) {
        for (size_t i = 0; queues[k] && i < (size_t)all->count * all->count; i++)
            arrivals_free(&queues[k][i]);
        free(queues[k]);
    }
    free(all->dumps);
    free(all->worker_of);
}

/* Dumps, how far each of their lanes has come, and what they have in common. */
static uint64_t fingerprint_of(const struct match_directory *directory, unsigned workers) {
    uint64_t fingerprint = hash_mix(hash_mix(1, workers), directory->communicator_count);
    for (size_t d = 0; d < directory->dump_count; d++)
        fingerprint = hash_mix(fingerprint, share_records(directory->dumps[d]));
    return hash_mix(hash_mix(fingerprint, directory->call_count), directory->dump_count);
}

/* `all` with its counts set. */
static bool run_workers(struct match_workers *all, const struct common_clock *clock,
                        const struct match_directory *directory, const struct match_sink *sink, void *const *states,
                        struct match_totals *totals) {
    struct match_walk walks[MATCH_WORKERS_MAX] = {0};
    struct pairing pairings[MATCH_WORKERS_MAX] = {0};
    struct arrival_turn next[MATCH_WORKERS_MAX];
    struct foreknowledge known;
    all->walks = walks;
    all->pairings = pairings;
    all->next = next;
    all->dumps = calloc(directory->dump_count + 1, sizeof *all->dumps);
    size_t queues = (size_t)all->count * all->count;
    all->told = calloc(queues, sizeof *all->told);
    all->told_now[0] = calloc(queues, sizeof *all->told);
    all->told_now[1] = calloc(queues, sizeof *all->told);
    all->worker_of = shares_deal(directory, all->count);
    if (all->between) {
        all->between->told = all->told;
        all->between->next = next;
    }
    *totals = (struct match_totals){0};
    bool done =
        foresee(&known, directory, all) && workers_begin(all, clock, sink, states, &known) && walk_all(all, sink);
    workers_end(all, directory, totals);
    if (all->between)
        done = between_states(all->between, !done, sink, states, totals);
    for (size_t d = 0; done && d < directory->dump_count; d++)
        count_slips(totals, directory, d, &known.slips[d]);
    foreknowledge_free(&known, directory);
    return done;
}

bool match_run(const struct common_clock *clock, const struct match_directory *directory, const struct match_sink *sink,
               void *const *states, unsigned workers, struct match_totals *totals) {
    unsigned count = match_workers(workers);
    struct match_workers all = {.count = count, .own = count, .round_batches = count == 1 ? 1 : ROUND_BATCHES};
    return run_workers(&all, clock, directory, sink, states, totals);
}

bool match_run_among(struct team *team, const struct common_clock *clock, const struct match_directory *directory,
                     const struct match_sink *sink, void *const *states, unsigned threads,
                     struct match_totals *totals) {
    if (!team_is_shared(team) || !sink->parcel)
        return match_run(clock, directory, sink, states, threads, totals);
    unsigned each = workers_of_each(team, threads), count = reading_processes(team) * each;
    struct between between = {
        .team = team, .count = count, .own = each, .fingerprint = fingerprint_of(directory, count)};
    struct match_workers all = {.count = count,
                                .first = between_first(&between, team->number),
                                .own = between_own(&between, team->number),
                                .between = &between,
                                .round_batches = SHARED_ROUND};
    return run_workers(&all, clock, directory, sink, states, totals);
}
