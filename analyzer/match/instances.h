/* SPDX-License-Identifier: Apache-2.0
 *
 * What matching hands out: collectives with all their members, messages with both halves, single records.
 * Lives here: these, the consumers that take them, and how much could be matched. Must not live here: matching
 * (match.h).
 */
#ifndef COMMTAP_MATCH_INSTANCES_H
#define COMMTAP_MATCH_INSTANCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "analyzer/align/common_clock.h"
#include "analyzer/job/covered_time.h"
#include "analyzer/match/directory.h"

struct parcel;

#define MATCH_ABSENT INT64_MIN

/* One member's part in an instance, common ns. */
struct match_member {
    int64_t enter;  /* MATCH_ABSENT: this member's record is missing. A receive that was probed for: since then. On a
                       GPU: the launch's start, or where the call  that  launched it returned only after that and before
                       its end, the call's return */
    int64_t leave;  /* left the call; non-blocking: seen complete */
    int64_t wait;   /* blocked since: = enter for a blocking call; non-blocking: entry of the Wait or Test call that saw
                       the completion, or the beginning of the polls before it; = leave where no such call is known */
    int64_t before; /* of a blocking receive: entry of the call before it; MATCH_ABSENT: not known */
    uint32_t stack; /* where it was called from, an id of the member's dump; STACK_NONE = unknown */
    uint32_t wait_stack; /* of the Wait or Test call whose entry `wait` is; STACK_NONE = there is none, or unknown */
    uint16_t call;       /* index into the directory's calls, CALL_UNKNOWN */
    bool shared;         /* what it was waited for in may have waited for other operations, too: a Wait or Test call
                            that saw several complete, or the launch of an NCCL group */
    bool in_collective;  /* of a message: the launch of its group is that of a collective, too, which nobody leaves
                            before all have come: who was waited for is told there */
    bool share;          /* enter to leave is a share of an interval (record_is_share): it tells of no bandwidth */
    bool bystander;      /* of the root's group on an intercommunicator, not the root: takes no part */
    uint32_t lane;       /* its record: that ticket of this lane of the member's dump */
    uint32_t parts;      /* of a collective: alike operations of a group that the record stands for (record_parts) */
    uint64_t ticket;
};

struct match_instance {
    const struct match_communicator *communicator;
    uint32_t seq;
    uint32_t start;                     /* ordinal of the start of a persistent collective, or of the replay of a
                                           captured one, else 0 */
    uint16_t call;                      /* index into the directory's calls: that of the member found first */
    bool complete;                      /* every member that has a dump is here */
    uint32_t others;                    /* members that called a different function: 0 = all agree */
    uint16_t other_call;                /* of the first of them, where there are */
    uint32_t other_position;            /* its place in `members` */
    uint32_t seen;                      /* members present */
    uint64_t bytes;                     /* largest of the members', BYTES_UNKNOWN where unknown */
    uint32_t root;                      /* its place in `members`, NOWHERE where the call or the dumps have none */
    bool device;                        /* enter and leave are times on the members' GPUs */
    bool fence;                         /* of a window, which nobody leaves before all have entered it */
    const struct match_member *members; /* communicator->dump_count of them, valid during the call */
};

/* Whether nobody left it before all had entered. */
static inline bool match_nobody_left_early(const struct match_instance *instance) {
    int64_t entered = INT64_MIN, left = INT64_MAX;
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++) {
        const struct match_member *member = &instance->members[i];
        if (member->enter == MATCH_ABSENT)
            return false;
        entered = member->enter > entered ? member->enter : entered;
        left = member->leave < left ? member->leave : left;
    }
    return left >= entered;
}

/* MPI lets ranks pass it, and libraries mostly do not: making a communicator of another one (MPI 4.1, 7.4), whose
 * number all members have to agree on, and a fence that need be no barrier (12.5.1). */
static inline bool match_may_be_passed(const struct match_instance *instance, const struct call_name *call) {
    return call_makes_communicator(call) ||
           (call->call_class == CLASS_RMA_SYNC && !instance->fence && strcmp(call->name, "MPI_Win_fence") == 0);
}

/* How data flows in an instance of a function that is known: in a group of NCCL operations, which all end together, in
 * a fence among all, and where nobody passed what may be passed. */
static inline enum flow match_instance_flow(const struct match_instance *instance, const struct call_name *call) {
    if (match_may_be_passed(instance, call))
        return match_nobody_left_early(instance) ? FLOW_ALL : FLOW_NONE;
    return instance->fence || call->call_class == CLASS_GROUP ? FLOW_ALL : (enum flow)call->flow;
}

/* Where a member waited: the line of its Wait, not that of the call that posted. */
static inline uint32_t match_member_waited_at(const struct match_member *member) {
    return member->wait_stack != STACK_NONE ? member->wait_stack : member->stack;
}

/* A send and its receive. Ranks are those of the communicator (directory.h); members' times are as in an instance. */
struct match_message {
    uint32_t communicator; /* index into the directory */
    uint32_t from, to;
    int32_t tag;
    uint32_t ordinal; /* of the message in its channel (communicator, from, to, tag) */
    uint32_t from_dump, to_dump;
    bool synchronous; /* the send completes only after the receive was entered */
    bool device;      /* enter and leave are times on both ends' GPUs */
    uint64_t bytes;   /* that were sent: a receive may know no more than the size of its buffer */
    struct match_member send, receive;
    int64_t released; /* entry of an earlier receive of the channel, which made room for a send that was over before its
                         own receive began; MATCH_ABSENT: none did. Only on GPUs, where a send ends when its bytes lie
                         in the connection's buffer */
};

/* Whether one end of a message had posted its non-blocking operation and was away from the library until after the
 * other end had begun to wait: what the library does not do behind the program's back is done only when it is back. */
static inline bool message_end_was_away(const struct match_member *away, const struct match_member *waiting) {
    int64_t since = waiting->wait > waiting->enter ? waiting->wait : waiting->enter;
    return away->wait > away->enter && away->wait < away->leave && away->wait > since;
}

/* Whether the message was over soon after that end was back, as seen from its posting: a transfer that went on without
 * it ends at any time. */
enum { MESSAGE_SOON = 8 };
static inline bool message_over_soon(int64_t posted, int64_t back, int64_t over) {
    return over >= back && over - back <= (over - posted) / MESSAGE_SOON;
}
static inline bool message_end_was_needed(const struct match_member *away, const struct match_member *waiting) {
    return message_end_was_away(away, waiting) && message_over_soon(away->enter, away->wait, waiting->leave);
}

/* The same of a blocking send whose receiver had yet to come to its receive: the send was over as soon as the receiver
 * was in its call before that. */
static inline bool message_send_was_held(const struct match_member *send, const struct match_member *receive) {
    return send->wait == send->enter && send->leave <= receive->enter && receive->before > send->enter &&
           message_over_soon(send->enter, receive->before, send->leave);
}

/* What one rank needs of another in an epoch among groups: the tag of such a message. */
enum epoch_need {
    EPOCH_POST_TO_START,    /* Start may wait until the other one has posted ... */
    EPOCH_POST_TO_COMPLETE, /* ... and where it did not, Complete may */
    EPOCH_COMPLETE_TO_WAIT, /* Wait waits until the other one has completed */
};

/* One record with its times on the common clock. t0 of a launch on a GPU is when the device came to it, as a member's
 * `enter`; that of a series of polls leaves out the own work in it; `begin` is the start as recorded. */
struct match_record {
    const struct record *record;
    const struct record *messages; /* of the launch of an NCCL group: its sends and receives, as posted */
    uint32_t message_count;
    size_t dump;
    uint16_t call;         /* index into the directory's calls, CALL_UNKNOWN */
    bool gap;              /* records before it are missing on its lane */
    uint32_t stretch;      /* of the covered time: between those of two stretches, nothing is known of the rank */
    uint32_t lane;         /* of the dump */
    uint32_t replay;       /* of what a graph replayed: which replay of it, from 1; 0: none, or not known */
    int64_t begin, t0, t1; /* t0 and t1 no further than the stretch reaches */
    int64_t since;         /* since when what the call got was asked for (polling.h): in place of the records of polls
                              before it; t0 where there are none */
};

/* Consumers; each may be NULL. `state` is the worker's own. Every record of one dump goes to one worker, in the
 * dump's order (stream.h), and comes before what it is a part of: where one worker does all by little, otherwise by any
 * number of records. */
struct match_sink {
    void (*instance)(void *state, const struct match_instance *instance);
    void (*record)(void *state, const struct match_record *record);
    void (*message)(void *state, const struct match_message *message);
    /* A message between GPUs once more, to the worker that gets what its sender receives: several that are sent and
     * received at once end together. */
    void (*sent)(void *state, const struct match_message *message);
    /* Of an epoch among groups: the call that was needed as the send, the one that needs it as the receive, the tag an
     * enum epoch_need. */
    void (*epoch)(void *state, const struct match_message *message);
    /* Packs what a worker has gathered when all has been handed out, or unpacks it into the same worker's state in
     * another process, where it has gathered nothing (parcel.h): what follows the walk finds it as if it had been
     * gathered there. Several workers' may be packed or unpacked at a time. Dumps,
     * communicators, calls, lanes and tickets have the same numbers in all processes. NULL: the states stay at home. */
    void (*parcel)(void *state, struct parcel *parcel);
    unsigned parcel_parts; /* in which they travel, one after the other (parcel_has): 0 is 1 */
    /* Called now and then by the first worker with the share of the records done, in 1/1000. */
    void (*progress)(void *context, unsigned permille);
    void *progress_context;
    /* Only records that touch a stretch of it are there at all, and what does not lie within one is matched with
     * nothing. NULL: all are. */
    const struct covered_time *covered;
    /* Where `limited`, only records that touch [from_ns, to_ns] (common clock) are there at all. */
    bool limited;
    int64_t from_ns, to_ns;
};

/* A call that was refused at one rank while others took part in it; see slips.h. */
struct match_slip {
    size_t dump;
    struct match_place communicator;
    uint16_t call; /* index into the directory's calls */
    uint32_t seq;
};

struct match_totals {
    uint64_t records;            /* all records walked */
    uint64_t collective;         /* of these: parts of a collective that can be matched in principle (one per member) */
    uint64_t matched;            /* of these: in complete instances */
    uint64_t unmatchable;        /* collective records on communicators that are never matched; in `collective` too */
    uint64_t instances;          /* complete ones */
    uint64_t partial;            /* instances closed with members missing */
    uint64_t stale;              /* records too far behind the others, or twice in one place */
    uint64_t mismatches;         /* instances whose members called different functions */
    uint64_t halves;             /* sends and receives that can be paired in principle */
    uint64_t messages;           /* pairs of them */
    uint64_t halves_alone;       /* of the halves: the other one was not found */
    uint64_t halves_unmatchable; /* not in `halves`: wildcards whose order is unknown, partners without a dump ... */
    uint64_t slips;
    struct match_slip first_slip;
    uint64_t foreign; /* of the unmatchable ones, of both kinds: with processes of another world */
};

/* Adds all but the slips. */
void match_totals_add(struct match_totals *sum, const struct match_totals *part);

#endif
