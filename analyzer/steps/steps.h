/* SPDX-License-Identifier: Apache-2.0
 *
 * Iterations of the job: where each rank's steps begin, and what filled them.
 * Lives here: records of one rank -> its steps; MindSpore's step trace and overlap figures; numbering steps alike on
 * all ranks.
 * Must not live here: how a period is found (step_period.h), printing.
 *
 * A step goes from one anchor to the next: from a marker of the user's, or the entry of a function the user names, else
 * from the return of an operation that comes back once per step (step_period.h), the same on all ranks; where that one
 * is a step's first act, from the end of the operation before it. What lies between two anchors is a step only where no
 * rank's records are missing.
 *
 * Step trace (MindSpore Insight): start to the first operation (`interval`: data loading), to the last gradient
 * synchronisation (`forward and backward`), to the next step (`tail`). Where the step begins with its only one, which
 * was named as the anchor, that is the tail, and the interval follows it. The last gradient synchronisation is the last
 * call of the operation that moves most bytes per step among reductions that all members need. Overlap figures, T = the
 * step's length: receive_alone = receiving that no other communication overlaps; stage = T - receive_alone;
 * communication_alone = communication that nothing hides; computation = T - communication_alone; collective_alone = of
 * it, what is not receiving. What a host does outside of blocking calls counts as computation; where work is on record
 * (imported time lines and traces), it hides the communication that it overlaps; else, on a GPU's timeline,
 * communication is hidden unless a stream waits for it: without such waits on record none of the three is known. Idle
 * is what is neither communication nor work nor copying, known only where work is on record, too.
 */
#ifndef COMMTAP_STEPS_STEPS_H
#define COMMTAP_STEPS_STEPS_H

#include "analyzer/base/team.h"
#include "analyzer/job/covered_time.h"
#include "analyzer/steps/gpu_times.h"
#include "analyzer/steps/step_period.h"
#include "analyzer/load/filter.h"

#define STEP_UNKNOWN INT64_MIN /* of times */
#define NO_STEP      UINT32_MAX

/* What begins a step. All zero: found from the sequence of operations. */
struct step_marker {
    bool pcontrol;      /* MPI_Pcontrol ... */
    bool any_level;     /* ... with any level from 100 up */
    int32_t level;      /* ... or with this one */
    const char *anchor; /* functions' globs as for --op; NULL = none */
    bool operations;    /* found from the operations although there are marks */
};

/* What a step's first operation is: of a kind the intervals before it can be compared. A receive may be posted at once,
 * a send comes after the work that it sends. */
enum step_begin {
    STEP_BEGINS_WITH_NOTHING,
    STEP_BEGINS_WITH_COLLECTIVE,
    STEP_BEGINS_WITH_RECEIVE,
    STEP_BEGINS_WITH_SEND, /* or anything else */
    STEP_BEGINS,           /* how many of them */
};

struct step {
    uint32_t number; /* the same on all ranks; NO_STEP: fits none of the reference's */
    int64_t start_ns, end_ns;
    uint64_t comm;              /* uid; with `seq` the collective that begins the step */
    uint32_t seq;               /* SEQ_NONE: a marker or another operation does */
    uint32_t operations, sends; /* of them, sends, and what else is neither a collective nor a receive */
    int64_t comm_ns;            /* union of communication */
    int64_t first_ns;           /* start to the first operation: interval */
    int64_t queued_ns; /* of that, the operation was in its GPU's stream already; STEP_UNKNOWN where it has no stream */
    int64_t sync_ns;   /* first operation to the last gradient synchronisation, STEP_UNKNOWN without one */
    int64_t tail_ns;   /* from there to the end */
    int64_t receive_alone_ns, communication_alone_ns, collective_alone_ns; /* STEP_UNKNOWN: see above */
    int64_t idle_ns;                                                       /* likewise */
    int64_t wait_ns;       /* for others; STEP_UNKNOWN until step_waits.h has looked */
    uint8_t begins;        /* enum step_begin */
    bool waits_unresolved; /* wait_ns is not known only because all waits are shorter than the clocks' error */
    bool gpu_known;        /* all that ran on the GPU is on record, and something did */
    struct gpu_times gpu;
};

struct rank_steps {
    size_t dump;
    struct step *steps;
    size_t count;
    struct step_periods periods;    /* empty where a marker was used */
    const struct call_name *anchor; /* NULL: a marker, or no steps */
    size_t operations;              /* of the rank in all */
    bool device;                    /* times are a GPU's */
    struct gpu_span *gpu_spans;     /* sorted; none where not all that ran on its GPU is on record, or is wanted */
    size_t gpu_span_count;
};

struct steps {
    struct rank_steps *ranks; /* per dump */
    size_t rank_count;
    size_t reference;      /* rank whose steps give the numbers; = rank_count: nobody has any */
    uint32_t first, count; /* numbers in use: first .. first + count - 1 */
    bool marked;           /* they go from mark to mark */
};

/* Finds the steps of every dump of `clock`, which must outlive them: from mark to mark where the job has marks and
 * nothing else is asked for. Returns false when memory is short; the caller
 * frees with steps_free in every case. */
bool steps_find(struct steps *steps, const struct common_clock *clock, const struct step_marker *marker);

enum { STEPS_AT_ONCE = 8 }; /* ranks whose records are in memory at a time, 200 bytes each */

struct steps_request {
    const struct step_marker *marker;
    const struct filter
        *counted;      /* figures are about the functions and communicators that it lets pass, NULL: all. What
                          is left out counts as nothing, so that the computation of a step is not known */
    struct team *team; /* its processes, which all ask for the same, share the ranks; NULL: nobody else */
    unsigned threads;  /* that share those of a process, at most STEPS_AT_ONCE */
};

/* The same on several threads and processes. Returns false also where another process has failed. */
bool steps_find_as_asked(struct steps *steps, const struct common_clock *clock, const struct steps_request *request);

/* The steps in which one rank began collectives of the communicator with that uid: steps[i], counted from its first
 * one, of the collective with the number seqs[i], ascending; NO_STEP where it is not on record, or in none. Its steps
 * are found as above, without being asked for. Returns false when memory is short. */
bool steps_of_collectives(uint32_t *steps, const struct common_clock *clock, size_t dump, uint64_t comm,
                          const uint32_t *seqs, size_t count);
void steps_free(struct steps *steps);

#endif
