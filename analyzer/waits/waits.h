/* SPDX-License-Identifier: Apache-2.0
 *
 * What late arrivals cost: instances and messages -> waits per rank.
 * Lives here: wait states, imposed wait and waited-for of one matched collective or message, and their sums.
 * Must not live here: matching, who is to blame for certain.
 *
 * e = enter, x = leave, on the common clock; of a non-blocking operation e is the entry of the Wait or Test call that
 * saw it complete, and nothing before that counts. A wait below the clocks' error bound is none.
 *  - Wait at N to N: min(x_i, last e) - e_i. Completion, of the same operations: x_i - first x.
 *  - Wait at fence: the same in MPI_Win_fence, but for fences that are no barrier: what is waited for there is not
 * known.
 *  - Late broadcast (from a root): min(x_i, e_root) - e_i.
 *  - Wait at N to 1 (to a root): min(x_root, last other e) - e_root. Early reduce is the part of it until the first
 *    other one entered. That is Scalasca's definition ("before any data could have been sent"): the root could do
 *    nothing at all. But it cannot leave before the last one has come either, and what the last one's lateness costs
 *    is what blame, imposed wait and the critical path are about: so that is the wait, and early reduce is told beside.
 *  - Wait at scan: as N to N, but for lower ranks only.
 *  - Wait at neighbours: as N to N, but for those alone that the rank takes from; who came only after it had left gave
 *    it nothing. Where nobody knows whom it takes from, and for who takes from nobody, there is none.
 *  - Late sender: min(x_r, e_s) - e_r. Of several messages that one Wait call completes only the last sent one kept the
 *    receiver waiting (Scalasca counts the same way). The data of a non-blocking send that the library does not buffer
 *    leaves when the sender is back in the library: where the receiver waited until then and not much longer, e_s is
 * the entry of the sender's Wait or Test call.
 *  - Late receiver: min(x_s, e_r) - e_s, only where the sender can have waited for the receiver at all: a synchronous
 *    send, or one that was left only after the receive was entered (rendezvous); never a send that shares its Wait call
 *    or its Sendrecv with other operations, since there it is not known what was waited for.
 *    A send on a GPU that was over when an earlier receive of its channel made room waited for that one.
 *  - Late post, in an epoch among groups: min(x, last e_post) - e of Start, or of Complete where Start let the rank
 * pass: only of those that were left after the post was entered. Early wait: min(x, last e_complete) - e of Wait.
 *  - Transfer: what is left of the time in a collective: x_i - last e for who waited until then.
 * On an intercommunicator a group waits for the other one only: N to N for its last member, from a root for the root,
 * to a root the root for the last of the other group; who stands by beside the root neither waits nor is waited for.
 * Imposed wait of the last arriver = (n - 1) * (last e - second last e), of each rank at most what it really waited.
 */
#ifndef COMMTAP_WAITS_WAITS_H
#define COMMTAP_WAITS_WAITS_H

#include "analyzer/waits/link_waits.h"
#include "analyzer/waits/site_waits.h"
#include "analyzer/waits/transfers.h"
#include "analyzer/waits/wall_time.h"
#include "analyzer/match/instances.h"
#include "analyzer/match/progress.h"

enum wait_state {
    WAIT_AT_NXN, /* N to N */
    WAIT_AT_FENCE,
    WAIT_LATE_BROADCAST,
    WAIT_AT_NX1,
    WAIT_EARLY_SCAN,
    WAIT_AT_NEIGHBOURS,
    WAIT_LATE_SENDER,
    WAIT_LATE_RECEIVER,
    WAIT_LATE_POST,
    WAIT_EARLY_WAIT,
    WAIT_STATES
};

/* One wait for one rank. */
struct longest_wait {
    int64_t length_ns; /* 0: there is none */
    int64_t until_ns;  /* common ns */
    uint32_t dump;     /* who waited */
    uint32_t stack;    /* where who was waited for came to it, STACK_NONE = unknown */
};

struct rank_waits {
    int64_t wait_ns;                /* this rank waited, thread by thread and stream by stream */
    int64_t states_ns[WAIT_STATES]; /* of wait_ns; they sum to it */
    int64_t unresolved_ns;          /* beside it: waits that are shorter than the clocks' error, by these clocks */
    int64_t early_reduce_ns;        /* of states_ns[WAIT_AT_NX1]: until the first of the others came */
    int64_t transfer_ns;            /* in collectives, likewise: what was no wait */
    int64_t wall_wait_ns;           /* of the rank's time: some wait was going on ... */
    int64_t wall_transfer_ns;       /* ... none was, but a collective; both 0 until waits_measure_wall */
    int64_t completion_ns;          /* of it, N to N: after the first one had left */
    int64_t imposed_ns;             /* as the last arriver */
    int64_t waited_for_ns;          /* the others waited for this rank */
    int64_t mended_ns;    /* sum of (last e - second last e), at most the longest wait: what the job would gain */
    int64_t deepspeed_ns; /* sum of (t - min t), t = x - e: DeepSpeed's straggler figure, which scores the victims */
    struct longest_wait longest; /* of the others for this rank */
    uint64_t last;               /* times it was the last arriver of a collective that others waited in */
};

/* The first collective that members entered with different functions. */
struct first_mismatch {
    bool any;
    int64_t enter_ns;
    const struct match_communicator *communicator;
    uint32_t seq, others, seen, other_position;
    uint16_t call, other_call;
    size_t dump, other_dump;     /* one rank of either side */
    uint32_t stack, other_stack; /* where they called from, STACK_NONE = unknown */
};

/* One wait of one rank. */
struct told_wait {
    uint32_t dump, cause; /* `dump` waited for `cause` */
    uint32_t lane;        /* of the dump, which the record of what it waited in is on */
    int64_t until;        /* common ns */
    int64_t length;
    int64_t imposed;  /* of the imposed wait, what goes with it; at most the length */
    uint64_t channel; /* the same for all operations on one communicator, or between two ranks */
};

/* Told of single waits while they are added, in no order. Each may be NULL. */
struct wait_listener {
    void *context;
    void (*wait)(void *context, const struct told_wait *wait);
    /* `dump` waited since then, by clocks whose error is longer than that wait: how long is not known */
    void (*unresolved)(void *context, uint32_t dump, int64_t since);
    /* everybody on `channel` had come at `at` */
    void (*met)(void *context, int64_t at, uint64_t channel);
};

struct receive_waits; /* calls that may turn out to have waited for a later partner yet */

struct waits {
    struct wait_listener listener;
    const struct common_clock *clock;
    const struct match_directory *directory;
    struct rank_waits *ranks;         /* per dump */
    struct site_waits sites;          /* the same by call site */
    struct link_waits links;          /* those for messages, by link */
    struct wall_times wall;           /* private: what overlaps */
    struct transfers transfers;       /* by operation, communicator and size */
    struct receive_waits **receiving; /* private, per dump; NULL where there is none yet */
    struct match_away away;           /* private: of the instance */
    struct match_member *members;     /* private: the instance's, for those that were away */
    size_t member_room;
    int64_t *gains;    /* private, per dump, 0 between instances: what others would have gained without its lead, + 1 */
    uint64_t judged;   /* instances that entered the sums */
    uint64_t messages; /* messages that did */
    struct first_mismatch mismatch;
    bool no_memory; /* some could not be added */
};

bool waits_init(struct waits *waits, const struct common_clock *clock, const struct match_directory *directory);
void waits_free(struct waits *waits);

/* Takes one instance. Incomplete and mismatched ones, and those of calls that are not communication, add no wait. */
void waits_add(struct waits *waits, const struct match_instance *instance);
/* Takes one message. All messages to one rank have to come to one `waits`, as they do (match.h). */
void waits_add_message(struct waits *waits, const struct match_message *message);
/* Takes what one rank sent in a group on a GPU: what the group waited for a receiver, or for whoever else came last.
 * All of one rank has to come to the `waits` that gets what it receives, as it does. */
void waits_add_sent(struct waits *waits, const struct match_message *message);
/* Takes what one rank needed of another in an epoch among groups; otherwise as waits_add_message. */
void waits_add_epoch(struct waits *waits, const struct match_message *need);
/* After the last one. */
void waits_finish(struct waits *waits);
/* Adds another worker's sums; both have been finished. */
void waits_merge(struct waits *into, const struct waits *from);
/* Packs or unpacks one worker's, which need not be finished (struct match_sink); its listener is left alone. */
void waits_parcel(struct waits *waits, struct parcel *parcel);
/* After all of these: sets what a rank waited of its time, of which `comm_ns` passed in communication. Where there were
 * too many waits to tell which overlap (wall_time.h), it is the most that it can be. */
void waits_measure_wall(struct waits *waits, size_t dump, int64_t comm_ns);

#endif
