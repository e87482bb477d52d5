/* SPDX-License-Identifier: Apache-2.0
 *
 * What every process does right now, and whom it waits for.
 * Lives here: blocked calls, the requests behind a Wait, unfinished GPU work, the graph of waits.
 * Must not live here: verdicts.
 *
 * A wait is only what must happen before the process can go on: where a message may have arrived already, or a send
 * may have been buffered, there is none. So whoever is left unreleased cannot go on; some who cannot may be released.
 */
#ifndef COMMTAP_WAIT_FOR_GRAPH_GRAPH_H
#define COMMTAP_WAIT_FOR_GRAPH_GRAPH_H

#include "analyzer/base/and_or_graph.h"
#include "analyzer/wait_for_graph/deaths.h"
#include "analyzer/wait_for_graph/world.h"

/* A send of at least this many bytes is never buffered by any MPI: it ends only when it was received. */
#define NEVER_BUFFERED (UINT64_C(256) << 10)

enum doing {
    DOING_USER_CODE = 0,
    DOING_BLOCKED, /* at least one wait stands for it */
    DOING_CALL,    /* in a call that waits for nobody, or nobody known: see `call` */
    DOING_POLL,    /* in Test or Iprobe: it asks again and again */
    DOING_INIT,    /* MPI_Init has not returned */
    DOING_FINALIZE,
    DOING_FINISHED, /* MPI_Finalize has returned */
    DOING_GONE,     /* exited, aborted, or dead while others live */
    DOING_UNKNOWN,  /* no dump, or nothing in it could be read */
};

/* Why a process is gone. */
enum gone { GONE_NOT = 0, GONE_DIED, GONE_EXITED, GONE_ABORTED };

struct party_state {
    enum doing doing;
    enum gone gone;
    bool stopped;                 /* the process is, by a signal */
    bool partner_untold;          /* nothing tells whether the other half of its message was called, or has ended */
    bool held;                    /* it has called what others wait for, but its GPU has not begun it */
    const struct call_name *call; /* DOING_CALL, DOING_POLL */
    uint64_t since;               /* ticks of its own clock: entered the call, or left the last one; 0 unknown */
    uint32_t stack;               /* of the call */
    uint32_t first_wait, wait_count;
};

/* One thread that is blocked, or one GPU operation that does not end. */
struct wait {
    uint32_t party;
    uint32_t node; /* in the graph; waits for what this waits for */
    const struct call_name *call;
    struct shared_communicator *communicator; /* NULL: none, or not comparable */
    bool collective;                          /* number `seq` of the communicator */
    bool started;                             /* of a persistent collective: `tag` is the ordinal of the start */
    bool locked;                              /* a lock on a window, that those hold whom it waits for */
    bool device;
    uint32_t seq;
    uint32_t number;     /* of a message, in the recorder that it was imported from; SEQ_NONE: none */
    uint32_t peer_party; /* NOBODY */
    int32_t peer, tag;   /* as in the call; PEER_ANY, PEER_NONE; Sendrecv: of the send */
    int32_t source;      /* Sendrecv: where it receives from, PEER_NONE unknown */
    uint32_t requests;   /* Wait and its like: how many it waits for, 0 unknown */
    uint64_t bytes;
    uint32_t stack;
    uint64_t enter;
    bool unequal;         /* both halves of the message have begun, and the other one is of another size: */
    uint64_t other_bytes; /* this one, */
    uint32_t other_stack; /* called here, */
    const struct call_name *other_call; /* by this */
    bool met;                           /* of a message on a GPU: both halves have begun, and nothing else is missing */
    bool uncalled;                      /* ... its other half was not called */
    bool never;                         /* ... of an import, nor one of any message before */
    uint32_t perhaps;  /* a node, of a launch of messages: one or more of those it waits for lack a half, and nothing
                          tells which. AND_OR_GRAPH_NO_NODE: that is not so */
    bool replayed;     /* on a GPU, by a CUDA graph: */
    uint64_t launched; /* so many launches were made, of graphs that hold the communicator, */
    bool polled;       /* it asks again and again */
    int64_t usual_ns;  /* replayed, polled: the second longest that such a replay, or asking so, took; -1: none did */
};

/* A collective that somebody waits in. */
struct stalled {
    struct shared_communicator *communicator;
    uint32_t seq;
    bool started;                 /* a start of a persistent collective: `seq` is that of the initialising call, */
    uint32_t start;               /* this the ordinal of the start; 0 where not `started` */
    const struct call_name *call; /* of the first who waits in it */
    bool device;
    bool replayed;             /* ... by CUDA graphs: `seq` is among the collectives that these ran */
    uint64_t called_least;     /* where `replayed`: the fewest collectives that any member has called of itself */
    bool rooted;               /* on an intercommunicator, from or to a root: of its group it alone takes part */
    unsigned root_side;        /* where `rooted` */
    int32_t root_rank;         /* in its group */
    uint8_t *needed;           /* of a neighbourhood collective, by rank: has not come, and somebody in it takes from it
                                  or gives to it. NULL: all members are needed. Owned */
    uint32_t missing, unknown; /* members that have not come and are needed; of these, how many cannot be named */
    uint32_t all, any;         /* nodes: of all and any missing member; AND_OR_GRAPH_NO_NODE where nobody is missing */
    uint32_t all_of[2];        /* the first for one side of an intercommunicator */
};

struct wait_for_graph {
    struct world *world;
    struct and_or_graph graph; /* nodes 0 .. party_count - 1 are the parties */
    struct party_state *parties;
    struct wait *items; /* by party */
    size_t count;
    struct stalled *stalled; /* by communicator, number and start */
    size_t stalled_count;
    bool any_alive; /* of the processes that wrote a dump, some are known to live */
};

/* What is known besides the dumps. */
struct circumstances {
    bool settled;             /* looked at twice with time between: what had not changed has nothing under way */
    const struct moment *now; /* where `settled`: when it was; NULL: not known */
    const bool *moving;       /* per party: it had changed, so that it waits for nobody for long; NULL: none had */
    uint32_t dead;            /* a party that is known to have died before all others, NOBODY */
    const struct first_death *first; /* whose end came first, where that is known */
    bool suspended;                  /* all processes are stopped, which is no reason to wait for one of them */
    bool deaths_left_out;            /* as if nobody had ended: where everybody was when the first did */
};

/* Finds all waits. The graph is complete and released. Returns false when memory is short; the caller frees with
 * wait_for_graph_free in every case. */
bool wait_for_graph_build(struct wait_for_graph *waits, struct world *world, const struct circumstances *circumstances);
void wait_for_graph_free(struct wait_for_graph *waits);

/* Whether it is that collective that is waited in. */
bool wait_is_in(const struct wait *wait, const struct stalled *stalled);

/* False for members of an intercommunicator that take no part: the root's neighbours. */
bool stalled_expects(const struct stalled *stalled, unsigned side, uint32_t rank);

/* False for those of whom nobody needs anything who waits in it, as far as neighbourhood collectives tell. */
bool stalled_needs(const struct stalled *stalled, uint32_t rank);

/* True when a member has not come to a stalled collective. */
bool stalled_misses(const struct world *world, const struct stalled *stalled, const struct membership *member);

#endif
