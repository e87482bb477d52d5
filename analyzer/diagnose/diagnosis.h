/* SPDX-License-Identifier: Apache-2.0
 *
 * What is found about a job that hangs, or was killed: the verdict, who is to blame, and what speaks for it.
 * Lives here: the facts, and what is asked. Must not live here: how they are found (diagnose.h), sentences
 * (findings/diagnosis_text.h).
 */
#ifndef COMMTAP_DIAGNOSE_DIAGNOSIS_H
#define COMMTAP_DIAGNOSE_DIAGNOSIS_H

#include "analyzer/diagnose/absence.h"
#include "analyzer/diagnose/desync.h"
#include "analyzer/diagnose/standing.h"
#include "analyzer/diagnose/unmatched_messages.h"
#include "analyzer/wait_for_graph/deaths.h"
#include "analyzer/wait_for_graph/graph.h"

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

void diagnosis_free(struct diagnosis *diagnosis);

const char *verdict_name(enum verdict verdict);
const char *culprit_state_name(enum culprit_state state);

/* The party that is known to have died before anybody else, NOBODY. */
uint32_t certain_death(const struct diagnosis *diagnosis);
/* Whether a party goes on with what it does, and has not come to MPI_Finalize. */
bool is_at_work(const struct party_state *state);
/* Whether the circle of a deadlock leads through GPUs: one that waits in a collective goes on with other streams, and
 * begins there what others wait for, so that only time tells that it does not. */
bool circle_has_gpus(const struct diagnosis *diagnosis);

#endif
