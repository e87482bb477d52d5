/* SPDX-License-Identifier: Apache-2.0
 *
 * What late arrivals cost: instances -> waits per rank.
 * Lives here: wait, imposed wait and waited-for of one matched collective, and their sums.
 * Must not live here: matching, who is to blame for certain.
 *
 * e = enter, x = leave, on the common clock. N to N: wait_i = min(x_i, last e) - e_i. From a root: min(x_i, e_root) -
 * e_i. To a root: only the root waits, until the last other one entered. Of a non-blocking collective only what was
 * spent inside Wait or Test counts. A wait below the clocks' error bound is none.
 * On an intercommunicator a group waits for the other one only: N to N for its last member, from a root for the root,
 * to a root the root for the last of the other group; who stands by beside the root neither waits nor is waited for.
 * Imposed wait of the last arriver = (n - 1) * (last e - second last e), at most what the others really waited.
 */
#ifndef COMMTAP_ANALYSE_WAITS_H
#define COMMTAP_ANALYSE_WAITS_H

#include "analyzer/analyse/site_waits.h"
#include "analyzer/match/match.h"

struct rank_waits {
    int64_t wait_ns;        /* this rank waited */
    int64_t imposed_ns;     /* as the last arriver */
    int64_t waited_for_ns;  /* the others waited for this rank */
    int64_t mended_ns;      /* sum of (last e - second last e), at most the longest wait: what the job would gain */
    int64_t deepspeed_ns;   /* sum of (t - min t), t = x - e: DeepSpeed's straggler figure, which scores the victims */
    int64_t late_sender_ns; /* of wait_ns: as a receiver, for a send that came later */
    int64_t late_receiver_ns; /* of wait_ns: as a sender, for a receive that came later */
    uint64_t last;            /* times it was the last arriver of a collective that others waited in */
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

/* Told of single waits while they are added. `channel` is the same for all operations on one communicator, or between
 * two ranks. Each may be NULL. */
struct wait_listener {
    void *context;
    /* `dump` waited until the common time `until`, `length` long, for `cause` */
    void (*wait)(void *context, uint32_t dump, uint32_t cause, int64_t until, int64_t length, uint64_t channel);
    /* of the waits told last on `channel`, so much is imposed wait */
    void (*imposed)(void *context, int64_t imposed);
    /* everybody on `channel` had come at `at`; ends what was told of one instance or message */
    void (*met)(void *context, int64_t at, uint64_t channel);
};

struct waits {
    struct wait_listener listener;
    const struct common_clock *clock;
    const struct match_directory *directory;
    struct rank_waits *ranks; /* per dump */
    struct site_waits sites;  /* the same by call site */
    uint64_t judged;          /* instances that entered the sums */
    uint64_t messages;        /* messages that did */
    struct first_mismatch mismatch;
};

bool waits_init(struct waits *waits, const struct common_clock *clock, const struct match_directory *directory);
void waits_free(struct waits *waits);

/* Takes one instance. Incomplete and mismatched ones, and those of calls that are not communication, add no wait. */
void waits_add(struct waits *waits, const struct match_instance *instance);
/* Takes one message. Late sender: the receiver waits until the send is entered. Late receiver: a blocking send that
 * leaves after the receive was entered (rendezvous) waited until then. The later side imposed that wait. */
void waits_add_message(struct waits *waits, const struct match_message *message);
/* Adds another worker's sums. */
void waits_merge(struct waits *into, const struct waits *from);

#endif
