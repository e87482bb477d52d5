/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the waits of a job that is gone had stood when it ended, compared with what was usual in this very job: a
 * job killed at work is full of waits too.
 * Lives here: the last sign of life of every host, the oldest wait, how long such calls took before.
 * Must not live here: who waits for whom, verdicts.
 *
 * Dumps of killed processes do not tell when they were killed. What they last wrote is a lower bound: a wait that was
 * old by then was old. That it was young when the job ended follows only where the end is known: from the note of
 * `commtap run`, or nearly so from a GPU's memory, which is sampled every two seconds whatever the job does.
 */
#ifndef COMMTAP_DIAGNOSE_STANDING_H
#define COMMTAP_DIAGNOSE_STANDING_H

#include "analyzer/job/deaths.h"
#include "analyzer/wait_for_graph/graph.h"
#include "analyzer/wait_for_graph/standing_limits.h"

enum standing_kind {
    STANDING_NONE = 0, /* nobody waits; or not asked, since the job was seen to stand */
    STANDING_LONG,     /* longer than such calls used to take */
    STANDING_BRIEF,    /* not so, up to the end of the job */
    STANDING_UNTOLD,   /* not so as far as the dumps tell, which may have stopped telling long before the end */
};

struct standing {
    enum standing_kind kind;
    const struct call_name *call; /* the oldest wait */
    uint32_t party;               /* ... its process */
    int64_t age_ns;               /* ... its length at the last sign of life of its host */
    int64_t usual_ns;             /* what such calls took at least twice in a process before; -1 there were none */
    bool unlike;                  /* there were none: that is of other calls */
    bool untimed;                 /* there were some, but how long they took is not on record */
    bool end_known;               /* that was the end of the job, or near it */
    struct moment until;          /* the last sign of life of its host */
    int64_t slack_ns;             /* ... by how much the job may have lived on after that; INT64_MAX: not known */
};

/* Judges the waits; `end` is what was noted of the job's end, NULL nothing. Returns false when memory is short. */
bool standing_find(struct standing *standing, const struct wait_for_graph *waits, const struct job_end *end);
/* The same at the moment when the first process ended. */
bool standing_find_before(struct standing *standing, const struct wait_for_graph *waits, const struct moment *death);

/* What CUDA graphs hold runs at replays, which hosts launch without a call of the library that was captured, and which
 * are on record where they have ended. So of ranks that replay graphs nobody knows whether they wait for each other:
 * only for how long nothing of their communication has been seen. */
struct silence {
    struct standing standing; /* of the rank of which nothing has been seen for longest, NOBODY: none replays graphs.
                                 `call` is NULL, `usual_ns` from one end on its GPU to the next */
    uint32_t replay;          /* the number of the last one that is on record; 0: none is */
};

/* `now`: a job that lives was seen to stand then; NULL: it is over. Returns false when memory is short. */
bool standing_find_silence(struct silence *silence, const struct wait_for_graph *waits, const struct job_end *end,
                           const struct moment *now);

#endif
