/* SPDX-License-Identifier: Apache-2.0
 *
 * The job once more, with other durations: what would have waited for what, and how long all of it would have taken.
 * Lives here: the graph of who waits for whom, made from records and what they match, and running through it.
 * Must not live here: which durations to change and why (what_if.h), matching, verdicts.
 *
 * A node is one call, one launch on a GPU, or one stretch of named work of an imported trace. A flow is what goes on
 * one after the other: a thread; a process whose GPU is timed; a rank of an imported trace. A node is entered its own
 * work after everything on its flow that had ended by then, and is left its tail after it was entered and everybody it
 * needs has come: all members of an N to N collective, the root, the others for the root, the sender of what is
 * received, the receiver of a send that had to wait for one. A Wait or Test call needs whom the operations need that
 * ended in it. What takes time but needs nobody is all tail. Work and tail are as recorded unless they are changed, so
 * that replaying what was recorded gives the recorded times to the nanosecond, whatever the clocks were wrong by.
 *
 * Where one end of a message waits while the other, its operation posted, is away from the library, and the message is
 * over as soon as that one is back, it needed it back (instances.h).
 * So may an MPI_Win_complete need its target back. Libraries hand the data of collectives with a root on from member to
 * member: that one needs another one there is learnt from all of its kind (replay_relays.c). MPI_Finalize needs all,
 * where nobody left it before the last one came.
 *
 * A collective that lay ready behind another one needs, of what its GPU worked beside that, what the others' needed.
 * Where a trace tells launches, nothing on a GPU needs what was launched after it, nor sends that others like it did
 * not wait for (replay_launches.c).
 *
 * Orders on a flow stay as recorded: what is not recorded there (other threads, work on a GPU that no communication
 * follows) is own work of what comes next. But where records are missing, nothing goes on: a flow lies within one
 * stretch of the covered time, each stretch is replayed for itself, and the time that all takes is the sum of theirs.
 */
#ifndef COMMTAP_REPLAY_REPLAY_H
#define COMMTAP_REPLAY_REPLAY_H

#include "analyzer/base/parcel.h"
#include "analyzer/match/cut.h"
#include "analyzer/match/match.h"

enum replay_kind {
    REPLAY_CALL = 0, /* blocking communication, or a launch on a GPU */
    REPLAY_POST,     /* starts operations that end in a REPLAY_WAIT */
    REPLAY_WAIT,     /* Wait or Test calls; Test calls that follow each other closely are one node */
    REPLAY_WORK,     /* work that an imported trace names, as all of its rank's: its tail is own work */
    REPLAY_KERNELS,  /* the same of a GPU; what the host does between has no name */
};

/* What a launch on a GPU is. */
enum replay_launch {
    REPLAY_NO_LAUNCH = 0,
    REPLAY_SEND,
    REPLAY_RECEIVE,
    REPLAY_COLLECTIVE,
    REPLAY_TOGETHER, /* several of these */
};

/* Who of two ranks begins their exchange: a stage of a pipeline asks the next one, whose answers come later, and
 * answers the one before it, so that the first and the last make the same calls in the same order and work in other
 * places. */
enum replay_role {
    REPLAY_NO_ROLE = 0, /* no message, or not known */
    REPLAY_ASKS,        /* as many messages went to the partner before as came from it, or more */
    REPLAY_ANSWERS,
};

/* Whether the tail of such a node is own work. */
static inline bool replay_is_work(enum replay_kind kind) {
    return kind == REPLAY_WORK || kind == REPLAY_KERNELS;
}

struct replay_node {
    int64_t enter, leave; /* as recorded, common ns */
    int64_t launched_ns;  /* of what a GPU ran; of all else, and where that is not told, as `enter` */
    uint32_t flow;
    uint32_t signature; /* equal for like operations: call, size, members */
    uint32_t before;    /* equal for like operations that follow like operations: what the work before it is told by */
    uint32_t stack;     /* an id of the dump's, STACK_NONE = unknown */
    uint32_t
        segment;    /* stretches that the rank's cut (cut.h) ended up to here: equal on all ranks it is compared with */
    uint16_t call;  /* index into the directory's calls */
    uint8_t kind;   /* enum replay_kind */
    uint8_t launch; /* enum replay_launch */
    uint8_t role;   /* enum replay_role */
    uint32_t communicator; /* of a launch; as its rank numbers them */
    int32_t peer;
};

struct replay {
    size_t dump_count, node_count, flow_count;
    size_t *first;                       /* dump d's nodes are [first[d], first[d + 1]), by enter */
    struct replay_node *nodes;           /* at most REPLAY_RECORDS_MOST or so */
    int64_t *work_ns;                    /* per node: own work between what had ended before on its flow and it */
    int64_t *tail_ns;                    /* per node: after all it needs was there; wrong clocks can make it negative */
    int64_t *late_tail_ns;               /* of this, what would remain to a Wait entered late */
    uint32_t *gives, *takes;             /* links that wait for a node, and that it waits for: */
    uint32_t *gives_first, *takes_first; /* node n's are [first[n], first[n + 1]) */
    uint32_t *behind; /* per node: the last piece of its GPU's work that it needs beside all else that had ended;
                         itself: none; NOWHERE: all of them. NULL: all nodes need all */
    uint32_t link_count;
    uint32_t *link_from, *link_to; /* dumps of a message's sender and receiver; NOWHERE for collectives */
    uint64_t linked;               /* nodes that wait for others or are waited for */
    uint64_t untied;               /* nodes that wait for nobody since their records contradict each other */
    int64_t wall_ns;               /* what the durations above take: what was recorded; at least 1 */
    int64_t missing_ns;            /* of the run, of which it is not known what happened in it ... */
    double missing_ratio;          /* ... over what is known, Init and Finalize left out */
    bool end_only;                 /* only the end of the run: there is too much for all of it */
    bool partial;                  /* only the end of the run, or some of its records are missing */
    /* private */
    struct time_stretch *spans; /* per stretch of the covered time: from the first entering to the last leaving */
    uint32_t span_count;
    uint32_t *span_of;             /* per flow */
    uint32_t *order;               /* nodes * 2 + (0 entering, 1 leaving), each after all it depends on */
    int64_t *flow_start;           /* when the first node of a flow is entered */
    uint32_t *launches_first;      /* per flow: in a list of all by flow and launch, its first; NULL where launches tell
                                      nothing: no GPU's work is on record. Likewise: */
    uint32_t *place;               /* per node: where its launch comes among its flow's, from 1 */
    uint32_t *reach, *reach_sends; /* per node: up to where what it can need, and sends that it needs */
};

enum { REPLAY_RECORDS_MOST = 1 << 20 };

/* What is gathered during a walk (match_run), worker by worker. */
struct replay_build;

/* Starts gathering for `workers` workers. `covered` is that of the walk (struct match_sink), `cuts` holds what ends
 * each dump's stretches; both must outlive the build. NULL when memory is short; ended by replay_finish or replay_drop.
 */
struct replay_build *replay_begin(const struct common_clock *clock, const struct match_directory *directory,
                                  const struct covered_time *covered, const struct cut *cuts, unsigned workers);
void replay_add_record(struct replay_build *build, unsigned worker, const struct match_record *item);
void replay_add_instance(struct replay_build *build, unsigned worker, const struct match_instance *instance);
void replay_add_message(struct replay_build *build, unsigned worker, const struct match_message *message);
void replay_add_epoch(struct replay_build *build, unsigned worker, const struct match_message *need);

/* Packs what a worker was handed, or unpacks it into the same worker of a build that has taken nothing from it ... */
void replay_parcel(struct replay_build *build, unsigned worker, struct parcel *parcel);
/* ... and the records of a dump, which are one worker's. */
void replay_parcel_dump(struct replay_build *build, size_t dump, struct parcel *parcel);

/* Makes the graph. Ends `build`. Returns false when memory is, or was, short; the caller frees with replay_free in
 * every case. The result of every run is the same for any number of workers. */
bool replay_finish(struct replay *replay, struct replay_build *build);
void replay_drop(struct replay_build *build); /* NULL is accepted */
void replay_free(struct replay *replay);

/* How long all of it takes with these durations (as work_ns and tail_ns), ns; at least 1. Negative when memory is
 * short. */
int64_t replay_run(const struct replay *replay, const int64_t *work_ns, const int64_t *tail_ns);

/* All stretches of the covered time together, ns, at least 1. `ends`: when each would be over, NULL: as recorded. */
int64_t replay_length(const struct replay *replay, const int64_t *ends);

/* How long all of it takes on a network on which transfers take no time, ns; at least 1. Init, Finalize and
 * collectives that found no counterpart take what they took: nothing tells what of it is transfer.
 * Negative when memory is short. */
int64_t replay_on_ideal_network(const struct replay *replay);

/* Per link, when the last of those had come that it waits for, as recorded. NULL when memory is short; the caller
 * frees.
 */
int64_t *replay_arrivals(const struct replay *replay);

#endif
