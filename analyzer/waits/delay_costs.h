/* SPDX-License-Identifier: Apache-2.0
 *
 * Who was it really: a rank that comes late may itself have been kept waiting.
 * Lives here: passing the cost of every wait on to those who caused it in the end, and to where in the program they
 * did; the critical path.
 * Must not live here: matching, single waits (waits.h), comparing two ranks' times (delays.h), verdicts.
 *
 * A wait of w of rank A caused by rank B is shared between B's own delays and B's own waits since A and B last met:
 * with d_a = max(0, t_B(a) - t_A(a)) over the ways a of B through the program (delays.h) and o = B's waits in that
 * interval, each a gets w * d_a / (sum d + sum o), and each of B's waits w * o_k / (sum d + sum o), which is added to
 * what that wait costs and goes on to who caused it. Where B shows neither, all goes to the call that B came late to.
 * (Delay costs: Boehme, Geimer, Arnold, Voigtlaender, Wolf, "Identifying the root causes of wait states in large-scale
 * parallel applications", TOPC 2016, by backward replay.) The critical path is walked back from the last event: along a
 * rank until a wait of its ended, then to the rank that ended it. Its pieces follow each other without gap, so its
 * length is the time looked at. Each stretch of the covered time has a path of its own, and nothing is passed on from
 * one to another: of what lies between them nothing is known.
 */
#ifndef COMMTAP_WAITS_DELAY_COSTS_H
#define COMMTAP_WAITS_DELAY_COSTS_H

#include "analyzer/match/match.h"
#include "analyzer/waits/timeline.h"
#include "analyzer/waits/waits.h"

/* Delay costs in Scalasca's words: direct are the waits for this rank that its own delays made, propagated are those
 * that others passed on, having been kept waiting by it. */
struct rank_delay_costs {
    int64_t delay_cost_ns; /* of all ranks' waits, what comes from this one in the end; sums to the sum of all waits */
    int64_t direct_ns;     /* of delay_cost_ns; the rest is propagated */
    int64_t passed_on_ns;  /* others waited for this rank directly, but it had been kept waiting itself */
    int64_t imposed_ns;    /* of imposed wait (waits.h), after the same sharing */
    int64_t critical_path_ns; /* of the critical path: time on this rank */
    int64_t
        longest_work_ns;   /* by how much longer, at most, its own work before one call took it than those who waited */
    int64_t first_wait_ns; /* the longest wait for it before its first call was over: nothing on record kept it */
};

/* What of these happens at one call site of one rank: in the call, and in the rank's own work before it. */
struct site_delay_costs {
    uint32_t dump, stack;                   /* STACK_NONE: not known */
    uint16_t call;                          /* index into the directory's calls, CALL_UNKNOWN where none is known */
    int64_t path_inside_ns, path_before_ns; /* of critical_path_ns; over all of a rank's sites they sum to it */
    int64_t delay_cost_inside_ns, delay_cost_before_ns; /* of delay_cost_ns, likewise */
};

/* A part of the critical path: time in one call of one rank, or in the rank's own work that leads to it. */
struct path_part {
    int64_t from_ns, to_ns; /* common clock */
    uint32_t dump, stack;   /* STACK_NONE: not known */
    uint16_t call;          /* as in struct site_delay_costs */
    bool inside;            /* in the call; else in the work before it */
};

struct delay_costs {
    struct rank_delay_costs *ranks; /* per dump */
    struct site_delay_costs *sites; /* by dump; without those where all is 0 */
    size_t site_count;
    int64_t from_ns, to_ns; /* the time looked at, common clock; from > to: nothing */
    int64_t path_ns;        /* length of the critical path: what is covered of that time */
    int64_t waits_ns;       /* sum of all waits in it */
    size_t path_pieces;
    struct path_part *parts; /* of the critical path by time, where they were asked for; without gap in each stretch */
    size_t part_count;
    uint64_t parts_left_out; /* earlier ones, beyond as many as were asked for */
    bool end_only;           /* there is too much to look at all of it: only the end was */
    bool partial;            /* not all of the run was looked at: only the end, or some of its records are missing */
    bool unresolved;         /* the clocks tell of hardly any wait: of the above, only the time looked at is known */
};

/* Of more records than `most` only those of the end are to be looked at: moves *from_ns (common clock) to the moment
 * from which on, judged by the dumps' anchors. Returns whether anything is left out. */
bool delay_costs_window(const struct common_clock *clock, uint64_t most, int64_t *from_ns);

/* What is gathered during a walk (match_run), worker by worker. */
struct delay_costs_build;

/* Starts gathering for `workers` workers. `covered` is that of the walk (struct match_sink) and must outlive the build.
 * NULL when memory is short; ended by delay_costs_finish or delay_costs_drop. */
struct delay_costs_build *delay_costs_begin(const struct common_clock *clock, const struct match_directory *directory,
                                            const struct covered_time *covered, unsigned workers);
/* Asks for the parts of the critical path, of more than `most` for the last ones. */
void delay_costs_keep_parts(struct delay_costs_build *build, size_t most);
/* What a worker's waits (waits.h) have to tell. */
struct wait_listener delay_costs_listener(struct delay_costs_build *build, unsigned worker);
/* Takes one of a worker's records. */
void delay_costs_add_record(struct delay_costs_build *build, unsigned worker, const struct match_record *item);

/* Packs what a worker was told of, or unpacks it into the same worker of a build that has taken nothing from it ... */
void delay_costs_parcel(struct delay_costs_build *build, unsigned worker, struct parcel *parcel);
/* ... and the records of a dump, which are one worker's. */
void delay_costs_parcel_dump(struct delay_costs_build *build, size_t dump, struct parcel *parcel);

/* Passes the costs on. Ends `build`. Returns false when memory is, or was, short; the caller frees with
 * delay_costs_free in every case. The result is the same for any number of workers and threads. */
bool delay_costs_finish(struct delay_costs *costs, struct delay_costs_build *build, unsigned threads);
void delay_costs_drop(struct delay_costs_build *build); /* NULL is accepted */
/* Takes back what was found from waits nearly all of which turn out to be shorter than the clocks' error: who pays for
 * them is not known, nor which way the critical path went. */
void delay_costs_forget(struct delay_costs *costs);
void delay_costs_free(struct delay_costs *costs);

#endif
