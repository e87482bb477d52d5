/* SPDX-License-Identifier: Apache-2.0
 *
 * What the makers of the graph of waits share. Private to this folder: one file per kind of wait.
 * Lives here: the state of the building. Must not live here: anything for others (graph.h).
 */
#ifndef COMMTAP_WAIT_FOR_GRAPH_GRAPH_BUILD_H
#define COMMTAP_WAIT_FOR_GRAPH_GRAPH_BUILD_H

#include "analyzer/base/hash_table.h"
#include "analyzer/wait_for_graph/graph.h"
#include "analyzer/wait_for_graph/launched_messages.h"
#include "analyzer/wait_for_graph/pending_messages.h"

struct reach;
struct captured_members;

struct builder {
    struct wait_for_graph *waits;
    struct world *world;
    struct pending_messages sends, receives; /* posted, not seen complete */
    struct launched_messages launched;       /* on GPUs, not ended there */
    uint32_t *members_of;                    /* per communicator and side: node of any member, AND_OR_GRAPH_NO_NODE */
    struct hash_table stalled_numbers;       /* of waits->stalled, by communicator and number */
    uint32_t free_node;                      /* waits for nobody */
    struct reach *reach;                     /* per communicator: how far GPUs came; NULL until somebody asks */
    struct captured_members *captured;       /* per communicator: how far graphs came; NULL until somebody asks */
    struct hash_table captured_messages;
    bool captured_noted; /* the messages are in there */
    uint64_t looks;
    const struct circumstances *known;
    bool no_memory;
};

/* What a blocked call or a pending operation is about: the fields that both have. */
struct operation {
    uint32_t party;
    const struct call_name *call;
    uint32_t local, seq;
    int32_t peer, tag;
    uint64_t bytes;
    uint32_t flags;
    bool maybe_over; /* one of several of a Wait: may be complete, only that nobody has looked */
};

/* Appends a wait to a party's; those of a party come one after the other. NULL when memory is short. */
struct wait *add_wait(struct builder *b, uint32_t party);

/* The following return the node that stands for what is waited for; free_node where it may be there already. */

/* ---- collectives (collectives.c) */
uint32_t wait_in_collective(struct builder *b, const struct operation *o);
/* The collective that somebody waits in, made when he is the first; `o`: his operation, NULL on a device. NULL when
 * memory is short. */
struct stalled *find_stalled(struct builder *b, struct shared_communicator *communicator, uint32_t seq,
                             const struct call_name *call, bool device, const struct operation *o);
/* The same of one that graphs run. */
struct stalled *find_stalled_replay(struct builder *b, struct shared_communicator *communicator, uint32_t seq,
                                    const struct call_name *call);

/* ---- messages (messages.c) */
/* Indexes what a process has posted. */
void note_messages(struct builder *b, uint32_t party);
uint32_t wait_for_message(struct builder *b, const struct operation *o);
uint32_t wait_for_receiver(struct builder *b, const struct operation *o);
/* Any member of the communicator (of the other side of an intercommunicator). */
uint32_t wait_for_any_member(struct builder *b, uint32_t party, uint32_t local);
/* An operation of any kind. */
uint32_t wait_for_operation(struct builder *b, const struct operation *o);
bool may_be_buffered(const struct operation *o);

/* ---- requests (requests.c) */
/* A Wait of any kind. `slot` is its slot; fills in what `wait` is about. */
uint32_t wait_for_requests(struct builder *b, uint32_t party, const struct in_flight *slot, struct wait *wait);

/* Any of the operations that are pending: of a Test nobody tells which it is about. */
uint32_t wait_for_any_request(struct builder *b, uint32_t party, struct wait *wait);

/* ---- epochs of one-sided communication (epochs.c) */
/* A call that begins or ends one among groups; `call` is the slot's. */
uint32_t wait_in_epoch(struct builder *b, uint32_t party, const struct in_flight *slot, const struct call_name *call);
/* A lock on one rank's part of a window. */
uint32_t wait_for_lock(struct builder *b, uint32_t party, const struct in_flight *slot, struct wait *wait);

/* ---- polls (requests.c) */
/* A process that did nothing but ask in vain between two looks waits, too. */
void add_poll_wait(struct builder *b, uint32_t party);

/* ---- GPU work (devices.c) */
/* Processes in their own code whose GPU sits in a collective: the host as a rule waits for the GPU. */
void add_device_waits(struct builder *b, uint32_t party);
/* ... or in messages; or those in the call that launches them. */
void add_launched_waits(struct builder *b, uint32_t party);
/* Of an import: whether others have ended a collective with the party that its own records do not have, so that these
 * are from before. Whatever the clocks say: nobody comes out of such a collective before all have come to it. */
bool is_outdated(struct builder *b, uint32_t p);
void free_reach(struct builder *b);

/* ---- replays of graphs (captures.c) */
/* Processes in their own code whose GPU sits in a graph that others have not launched. */
void add_captured_waits(struct builder *b, uint32_t party);
void free_captured(struct builder *b);

#endif
