/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of steps.h share: one rank's records while its steps are looked for.
 * Lives here: operations, stretches of communication and beginnings of steps, and what is done with them in which
 * order. Must not live here: anything that others than steps*.c need (steps.h).
 */
#ifndef COMMTAP_STEPS_STEPS_BUILD_H
#define COMMTAP_STEPS_STEPS_BUILD_H

#include "analyzer/steps/gpu_times.h"
#include "analyzer/steps/steps.h"

enum part_kind {
    PART_OTHER = 0, /* collectives, sends */
    PART_RECEIVE,
    PART_WAIT,            /* becomes one of the above by what it completed */
    PART_EXPOSED,         /* a stream waited: the part of device communication that nothing hid */
    PART_EXPOSED_RECEIVE, /* ... for receives alone */
    PART_WORK,            /* no communication: work that an imported trace names */
    PART_COPY,            /* neither of both: copies on a GPU, likewise */
    PARTS,
};

/* One stretch of communication. */
struct step_part {
    int64_t from, to;
    enum part_kind kind;
    uint32_t op; /* PART_EXPOSED: what was waited for */
};

struct step_operation {
    uint64_t symbol;
    uint64_t order; /* how much it is wanted as an anchor; the same for its counterparts on other ranks */
    int64_t enter, leave;
    int64_t before;   /* end of the communication calls before it, STEP_UNKNOWN: there is none, or it is a replay */
    int64_t enqueued; /* when its call had put it into a stream, STEP_UNKNOWN where it ran in no stream */
    uint64_t bytes, comm;
    uint32_t seq;    /* on its communicator, SEQ_NONE where it is no collective */
    uint32_t number; /* of a collective on its communicator, 0 = none */
    uint32_t op;     /* of the launch, where it ran on a GPU */
    uint32_t stack;
    uint16_t call;
    bool counted; /* the figures are about it */
    bool receive;
    bool reduction; /* of all members, by all members */
};

struct step_completion {
    int64_t at;
    bool receive;
    size_t receives; /* of the completions up to this one, once they are sorted */
};

/* Where a launch ran. */
struct step_launch {
    uint32_t op;
    int64_t from, to;
};

/* The launch that a rank made last. */
struct step_posted {
    uint32_t op;
    int64_t from, to; /* equal: nothing is known of the call, unless the kernel began later */
};

/* Where a step begins. */
struct step_start {
    int64_t at;
    uint64_t comm; /* of the collective that begins it */
    uint32_t seq;  /* its number there, the same on all members; SEQ_NONE: it is no collective */
};

struct step_walk {
    const struct common_clock *clock;
    const struct covered_time *covered;
    const struct step_marker *marker;
    const struct filter *counted; /* what the figures are about, NULL = all */
    struct filter anchor;         /* of the marker */
    size_t dump;
    struct step_operation *operations;
    size_t operation_count, operation_room;
    struct step_part *parts;
    size_t part_count, part_room;
    struct step_completion *completions;
    size_t completion_count, completion_room;
    struct step_launch *launches;
    size_t launch_count, launch_room;
    struct step_start *starts; /* of steps, by a marker or an anchor */
    size_t start_count, start_room;
    struct gpu_span *gpu_spans;
    size_t gpu_span_count, gpu_span_room;
    struct step_posted posted;
    int64_t last_ns;
    int64_t called_ns; /* end of the communication calls so far, STEP_UNKNOWN: there was none */
    bool device, no_memory;
    bool gpu_work;     /* all that ran on the GPU is on record */
    bool stream_waits; /* recorded on this rank: what nothing hides is known */
    bool own_work;     /* likewise: what is neither work nor communication is idle */
};

/* Fills `operations` (in the order of the calls), `parts` (by their beginning, each with its kind) and, with a marker,
 * `starts` from the dump's records. Returns false when memory is short; the caller frees with step_walk_free in every
 * case. */
bool step_walk_read(struct step_walk *w);
void step_walk_free(struct step_walk *w);

/* GPU operations happened where they ran, not where they were enqueued: replaces their times, keeps their order. */
void step_walk_move_to_device(struct step_walk *w);

/* A step begins at that time, with that operation, NULL = a marker. Sets no_memory where it is. */
void step_walk_add_start(struct step_walk *w, int64_t at, const struct step_operation *anchor);

/* Sorts operations and starts by their times. */
void step_walk_sort(struct step_walk *w);

/* The symbol of the gradient synchronisation, 0: there is none. */
uint64_t step_walk_gradient(const struct step_walk *w);

/* The rank's steps from the sorted starts, with all their figures. Returns false when memory is short. */
bool step_walk_make_steps(const struct step_walk *w, struct rank_steps *rank);

#endif
