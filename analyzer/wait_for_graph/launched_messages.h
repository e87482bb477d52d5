/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's sends and receives that were launched on GPUs and have not ended there, and what became of the other halves.
 * Lives here: reading them from records and from how far each communicator's launches came.
 * Must not live here: who waits (devices.c), collectives.
 *
 * The launches of one communicator run one after the other, on whatever streams they are: the first that has not ended
 * is what its GPU is at there, once it has begun. A group of operations is one launch.
 */
#ifndef COMMTAP_WAIT_FOR_GRAPH_LAUNCHED_MESSAGES_H
#define COMMTAP_WAIT_FOR_GRAPH_LAUNCHED_MESSAGES_H

#include "analyzer/base/hash_table.h"
#include "analyzer/wait_for_graph/world.h"

/* A send or a receive that has not ended. */
struct launched_message {
    uint32_t party;
    struct shared_communicator *communicator;
    const struct call_name *call;
    uint32_t local;  /* its own index of the communicator */
    uint32_t launch; /* number of the launch that it is part of */
    int32_t peer;    /* rank of the communicator */
    uint32_t seq;    /* among the sends, or receives, with that peer; SEQ_NONE not known */
    uint32_t number; /* that the recorder it was imported from gave it; SEQ_NONE: none did */
    uint32_t stack;
    uint64_t bytes;
    uint64_t enter; /* ticks: the call, or since when it runs */
    bool send;
    bool first;   /* of the communicator's launches there is none before it that has not ended */
    bool begun;   /* on the GPU; or its host is in the call that launches it, */
    bool calling; /* as it is here */
    bool seen;    /* of an import: that it had begun by then, and not ended, was noted */
};

struct launched_messages {
    struct launched_message *items; /* by party, communicator and launch */
    size_t count;
    size_t *first; /* those of party p are items[first[p]] .. items[first[p + 1] - 1] */
    struct hash_table numbers;
    uint64_t rows_looked_at;
};

/* What became of a message's other half. */
enum partner {
    PARTNER_UNKNOWN = 0,
    PARTNER_THERE,  /* begun: both GPUs are at it */
    PARTNER_BEHIND, /* called, but not begun: its GPU is at something else */
    PARTNER_ABSENT, /* not called */
    PARTNER_ENDED,
};

/* Finds them all. Returns false when memory is short; the caller frees with launched_messages_free in every case. */
bool launched_messages_find(struct launched_messages *messages, const struct world *world);
void launched_messages_free(struct launched_messages *messages);

/* Whose the other half of a message is (*party), and what became of it. */
enum partner launched_message_partner(struct launched_messages *messages, struct world *world,
                                      const struct launched_message *message, uint32_t *party);
/* Whether a process has called halves that may belong to the message and have not ended: *begun tells whether its GPU
 * has begun one of them. */
bool launched_message_may_have(const struct launched_messages *messages, const struct world *world,
                               const struct launched_message *message, uint32_t party, bool *begun);
/* Whether the one that it goes to, or comes from, has no other halves for this rank on record, neither this one's nor
 * any before, though it has a dump. */
bool launched_message_is_the_only_side(const struct world *world, const struct launched_message *message);
/* The other half where it has not ended either; NULL: it has, or was not called, or nothing tells. */
const struct launched_message *launched_message_other(const struct launched_messages *messages,
                                                      const struct world *world,
                                                      const struct launched_message *message);

#endif
