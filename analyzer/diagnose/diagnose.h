/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a job hangs: the verdict, and who is to blame.
 * Lives here: from waits and histories to a verdict and culprits.
 * Must not live here: opening files, asking the system, sentences (findings/diagnosis_text.h), printing.
 */
#ifndef COMMTAP_DIAGNOSE_DIAGNOSE_H
#define COMMTAP_DIAGNOSE_DIAGNOSE_H

#include "analyzer/diagnose/absence.h"
#include "analyzer/diagnose/deaths.h"
#include "analyzer/diagnose/desync.h"
#include "analyzer/diagnose/wait_for_graph.h"
#include "analyzer/diagnose/standing.h"
#include "analyzer/diagnose/unmatched_messages.h"

enum verdict {
    VERDICT_OK = 0,
    VERDICT_HANG,      /* members wait for a live rank that is elsewhere */
    VERDICT_DESYNC,    /* members of a communicator called different operations */
    VERDICT_DEADLOCK,  /* a cycle of waits */
    VERDICT_DEAD_RANK, /* members wait for a rank that is dead or left no dump */
    VERDICT_UNKNOWN,
};

enum culprit_state {
    CULPRIT_NEVER_ENTERED = 0,
    CULPRIT_BLOCKED,
    CULPRIT_MISMATCH,
    CULPRIT_DEAD,
    CULPRIT_NO_DUMP,
    CULPRIT_IN_USER_CODE,
    CULPRIT_FINALISED,
    CULPRIT_NOT_COLLECTED,
};

/* Why somebody is to blame. */
enum blame {
    BLAME_AWAITED = 0, /* others wait for it, or it is dead */
    BLAME_MISMATCH,    /* it called another operation than others did, or they than it */
    BLAME_CYCLE,       /* it waits in a circle */
    BLAME_ABSENT,      /* it left out the collective that others of a circle are in */
    BLAME_UNSENT,      /* it takes a message from any of several, none of which can send one */
};

struct culprit {
    uint32_t party;
    enum culprit_state state;
    enum blame blame;
    bool other_side;                   /* BLAME_MISMATCH: it is not on the expected side */
    size_t wait;                       /* BLAME_CYCLE, BLAME_UNSENT: its wait */
    uint64_t received;                 /* BLAME_UNSENT: messages that it could have been, on record as received */
    const struct stalled *absent_from; /* BLAME_ABSENT */
    bool went_on;                      /* ... and has ended other calls since, which these have not */
    const struct call_name *last_call; /* the newest on record, NULL: none is */
    uint32_t last_stack;               /* of that */
    struct absence absence;            /* of a hang */
};

struct diagnosis {
    enum verdict verdict;
    struct world world;
    struct wait_for_graph wait_for_graph;
    struct standing standing; /* of waits that may be a hang, where nobody saw them stand */
    bool suspended;           /* ok: all processes are stopped, as batch systems stop a job that is to go on later */
    bool partner_untold;      /* unknown: all that is waited for ends with messages of which nothing tells who misses */
    bool left_by_exit;        /* unknown: all processes exited, without MPI_Finalize, and nobody waited for another */
    bool starting;            /* unknown: all on record are in MPI_Init, and who is missing may just not have begun */
    bool uncollected;         /* unknown: all who are waited for have dumps that lie on their nodes still, or that
                                 hold nothing since it could not be read */
    bool may_come_back;       /* a hang: those waited for are, or were, away, no longer than work may be */
    bool in_graphs;           /* unknown: nobody waits in a call, and `silence` is longer than is usual at work */
    struct silence silence;   /* where `in_graphs` */
    struct mismatch mismatch; /* of a desync */
    struct mismatch overcome; /* beside another verdict: ranks disagreed, and all of them went on */
    struct job_end end;       /* of the request; nothing known where that has none */
    struct first_death first_death;
    bool stood_before_death; /* the job stood already when that one ended, which therefore is not the cause */
    uint32_t *cycle;         /* indices of waits, in the order of waiting; of a deadlock, or a hang that may be one */
    size_t cycle_count;
    struct culprit *culprits; /* by rank */
    size_t culprit_count;
    struct unmatched_messages unmatched; /* of a hang of any kind */
    bool no_memory;
};

/* What was seen from outside of the dumps. */
struct diagnose_request {
    const enum process_state *states; /* per dump of the job */
    bool settled;                     /* two looks, nothing had changed */
    const int32_t *moving;            /* ranks that came on between two looks */
    size_t moving_count;
    const struct job_end *end; /* what was noted of it; NULL: nothing */
    const struct moment *now;  /* `settled`: when that was seen; NULL: not known */
};

/* Judges a job. Returns false when memory is short; the caller frees with diagnosis_free in every case. The job must
 * outlive it. */
bool diagnose(struct diagnosis *diagnosis, const struct job *job, const struct diagnose_request *request);
/* Finds who waits for whom at this very moment, and judges nothing: in a job that works most waits are over at once. */
bool diagnose_waits(struct diagnosis *diagnosis, const struct job *job, const struct diagnose_request *request);
void diagnosis_free(struct diagnosis *diagnosis);

const char *verdict_name(enum verdict verdict);
const char *culprit_state_name(enum culprit_state state);

/* World ranks of a stalled collective's members that have come, or have not; ascending, written up to `capacity`.
 * Returns how many there are. Members without a known world rank are left out. */
size_t stalled_ranks(struct diagnosis *diagnosis, const struct stalled *stalled, bool missing, int32_t *ranks,
                     size_t capacity);
/* The same of those that wait in it. */
size_t stalled_waiting(const struct diagnosis *diagnosis, const struct stalled *stalled, int32_t *ranks,
                       size_t capacity);
/* The collective that others wait in and that this party has called, but that its GPU has not begun; NULL: none. */
const struct stalled *held_before(const struct diagnosis *diagnosis, uint32_t party);
/* A collective that a party has called, but that its GPU has not begun. */
struct not_begun {
    const struct shared_communicator *communicator;
    const struct call_name *call;
    uint64_t seq;
};

/* The oldest of a communicator, whether others wait in it or not: a broadcast may be over for them. False: there is
 * none, or when GPUs begin is not known. */
bool not_begun_find(const struct diagnosis *diagnosis, uint32_t party, struct not_begun *found);
/* Whether anybody is missing and known to be waited for: worth showing. */
bool stalled_is_open(const struct stalled *stalled);

/* Distinct world ranks that a wait cannot go on without, ascending, at most `capacity`. */
size_t wait_targets(const struct diagnosis *diagnosis, const struct wait *wait, int32_t *ranks, size_t capacity);
/* The same of a launch of messages that waits for one or more of several ranks, of which nothing tells which. */
size_t wait_possible_targets(const struct diagnosis *diagnosis, const struct wait *wait, int32_t *ranks,
                             size_t capacity);

#endif
