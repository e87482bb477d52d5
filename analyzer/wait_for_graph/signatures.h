/* SPDX-License-Identifier: Apache-2.0
 *
 * One collective as a member of its communicator called it: what has to agree among all members.
 * Lives here: reading that from slots, pending operations and rings. Must not live here: comparing (diagnose/desync.h).
 */
#ifndef COMMTAP_WAIT_FOR_GRAPH_SIGNATURES_H
#define COMMTAP_WAIT_FOR_GRAPH_SIGNATURES_H

#include "analyzer/wait_for_graph/world.h"

struct signature {
    const struct call_name *call; /* NULL: not known any more */
    uint64_t bytes;               /* BYTES_UNKNOWN */
    int32_t root;                 /* PEER_NONE: has none */
    uint8_t dtype, redop;
    bool recorded;      /* dtype and redop are known */
    bool captured;      /* into a graph: nothing ran then */
    bool told, begun;   /* imported, and had not ended: was it seen to begin? */
    bool unfit;         /* ... what it puts out has a size that does not fit `bytes`: */
    uint64_t bytes_out; /* this one */
    uint32_t stack;
    const struct call_name *refused; /* a call of its rank that returned an error just before it, NULL = none */
};

/* How many of the newest records of a lane are looked at for a call. */
#define RECORDS_LOOKED_AT 4096

/* The collective number `seq` as a member called it; its `call` is NULL where nothing of it is left. */
struct signature signature_of(const struct world *world, const struct membership *member, uint64_t seq);

#endif
