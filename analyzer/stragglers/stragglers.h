/* SPDX-License-Identifier: Apache-2.0
 *
 * Who makes the others wait: the whole analysis from records to named ranks and hosts.
 * Lives here: one walk over all dumps, what every rank lost and cost, and who is named for it.
 * Must not live here: opening files, printing.
 *
 * A rank (or a host) is named when three things hold: it is slower than its peers in so many independent batches of the
 * run that chance is ruled out (significance.h), or is ahead of all others by more than chance gives it in few of its
 * stretches or for a part of the run (leads.h); there its own work takes at least SLOW_RATIO times theirs; and what it
 * works more, and what the others waited for it (in collectives, or by the time they sit in communication), are each at
 * least a hundredth of the time looked at, and mending it would gain as much (gains.h). Peers of a rank are the ranks
 * of its rank class (rank_classes.h); rank classes are compared with each other in the same way.
 */
#ifndef COMMTAP_STRAGGLERS_STRAGGLERS_H
#define COMMTAP_STRAGGLERS_STRAGGLERS_H

#include "analyzer/base/team.h"
#include "analyzer/waits/delay_costs.h"
#include "analyzer/stragglers/comparison_groups.h"
#include "analyzer/stragglers/efficiencies.h"
#include "analyzer/leads/leads.h"
#include "analyzer/links/group_links.h"
#include "analyzer/waits/launches.h"
#include "analyzer/links/links.h"
#include "analyzer/stragglers/ranks.h"
#include "analyzer/stragglers/rank_classes.h"
#include "analyzer/base/significance.h"
#include "analyzer/waits/waits.h"
#include "analyzer/replay/what_if.h"
#include "analyzer/load/filter.h"
#include "analyzer/symbols/site_labels.h"

enum { SLOW_GROUPS_MOST = 8 };

enum straggler_kind {
    STRAGGLER_RANK,
    STRAGGLER_HOST,
    STRAGGLER_RANK_CLASS, /* all ranks that do one part of the work: imbalance by design, nobody to blame */
    STRAGGLER_ROTATING,   /* ranks that take turns in being slow: each time another one, dumps[] are those that were */
    STRAGGLER_LINK,       /* messages between them take longer than those between other pairs (links.h) */
};

struct straggler {
    enum straggler_kind kind;
    uint32_t host;       /* index into the clock's hosts */
    const size_t *dumps; /* whom it concerns: one rank, or the host's or rank class's ranks; owned by the analysis */
    size_t dump_count;
    int64_t imposed_ns, waited_for_ns; /* sums over them */
    int64_t extra_ns;                  /* own time beyond that of the others */
    int64_t others_comm_ns;            /* how much longer the median of the others sits in communication */
    int64_t done_later_ns;             /* by how much the median of the others is done earlier */
    int64_t work_ns, others_work_ns;   /* own time per collective, message or (by_steps) step, and the median of the
                                          others'; 0 both: not known */
    double slowdown_ratio;             /* own self time / median of the others', >= 1 */
    double persistence, confidence;    /* 0 .. 1 */
    double slowest;                    /* share of batches in which it was the slowest; rotating: of `stood_out` */
    double estimated_speedup;          /* >= 1: what mending would give by waits alone, without a replay */
    double what_if_speedup; /* >= 1: time looked at / that time with it mended (what_if.h). Of the costliest few by
                               replay; of further ones an estimate that does not follow waits which would only move */
    size_t batches;
    bool by_tasks;             /* a worker of a master: work_ns is that of a task, batches are its tasks */
    bool by_steps, marked;     /* these are steps, not parts of equal work: marked, or between collectives of all */
    size_t parts, stood_out;   /* rotating: parts of the run looked at; of them, with a rank that stands out */
    unsigned part_collectives; /* rotating: collectives in one part */
    unsigned part_begin;       /* rotating: number of a part's first collective modulo that */
    bool at_times;             /* a rank: slow in `when` only, and not in most batches */
    struct rank_leads when;
    int64_t longer_ns;     /* at times: what all its slow stretches take longer than those of the others */
    uint32_t communicator; /* of ranks that are slow together: the one that is theirs alone, NOWHERE without */
    struct slow_link link; /* of a link; its extra_ns is that of its messages, and what the receivers waited for it.
                              dumps: the two ranks, or those of the two hosts, or of the one */
};

/* Why nobody is named although nobody was cleared either. */
enum judgement {
    JUDGED = 0,
    JUDGED_ALONE,         /* one rank: nobody to compare with */
    JUDGED_NO_COLLECTIVE, /* no communicator whose collectives could be compared */
    JUDGED_UNLIKE,        /* two ranks compared by messages, of which one does next to nothing */
    JUDGED_TOO_SHORT, /* fewer than TIME_BATCHES_MIN batches or STEP_ROWS_MIN steps, and nothing is said of any rank */
};

struct straggler_analysis {
    struct site_labels *labels; /* over the clock's dumps; set by who wants call sites in sentences, NULL = nobody */
    const struct common_clock *clock;
    const struct match_directory *directory;
    struct covered_time covered; /* what all that follows rests on: no rank's records are missing in it */
    struct match_totals totals;
    struct waits waits;             /* per dump: waits.ranks[] */
    struct waits shown;             /* of them, those that request.shown lets pass; not there (ranks NULL) without it */
    struct delay_costs delay_costs; /* per dump: delay_costs.ranks[] */
    struct rank_times *times;       /* per dump */
    struct rank_times *tasks;       /* per dump, by the tasks that it was dealt out; NULL where nobody was */
    struct rank_launches *launches; /* per dump */
    struct call_profile *profiles;  /* per dump */
    struct significance *ranks;     /* per dump; ratio 0 where it was not judged */
    struct rank_leads *leads;       /* per dump; self_ratio 0 where it was not judged, or is like the others */
    struct comparison_groups comparison_groups;
    uint32_t *class_of; /* per dump: equal numbers are peers, NOWHERE where it was not judged */
    uint32_t *stage_of; /* per dump: stage of a pipeline, from 1; 0: unknown, or there is none (rank_classes.h) */
    struct what_if what_if;
    struct efficiencies efficiencies;
    enum judgement judgement;
    bool beside_left_out; /* own work that overlaps communication is left out of what ranks are compared by: by all of
                             it nobody is slow */
    bool steps_compared;  /* ranks that meet in collectives were compared by steps, too, since by batches nobody is slow
                           */
    bool unlike;          /* two ranks that are compared by messages do different work */
    size_t batches;       /* of the largest comparison group */
    bool batches_are_steps; /* few enough to be compared one by one (own_steps.h) */
    double independent_batches;
    int64_t from_ns, to_ns;       /* first and last record, common clock; from > to: none */
    int64_t covered_ns;           /* of the time between those two, what every rank's records cover */
    int64_t window_ns;            /* longest stretch of any rank: what "the time looked at" is */
    struct straggler *stragglers; /* claimed, the costliest first */
    size_t straggler_count;
    struct straggler *suspects; /* confidence below CONFIDENCE_VERDICT, at least CONFIDENCE_SUSPECT */
    size_t suspect_count;
    struct straggler *uneven; /* when so many ranks are slow that it is how the work is dealt out */
    size_t uneven_count;
    struct straggler *hidden; /* slow like those that are named, but nobody waits for them: others are slower yet */
    size_t hidden_count;
    double named_speedup; /* >= 1: with all of those named mended at once; 0: nobody is named, or not known */
    double even_speedup;  /* >= 1: the most that any of the replays gains, or all alike; 0: not known */
    struct slow_group slow_groups[SLOW_GROUPS_MOST]; /* what slow communicators have in common, the costliest first */
    size_t slow_group_count;
    struct links links;        /* messages of every link */
    struct group_links groups; /* private: until judged */
    unsigned workers;          /* private: threads of this process */
    bool no_memory;            /* private: a worker ran out of it */
    uint32_t *reader_of;       /* private, per dump: the worker whose records it has + 1; 0: none came */
    size_t *dump_lists;        /* private: what stragglers[].dumps points into */
    size_t *workers_named;     /* private: the same of those by_tasks, one for each dump */
};

/* How to run it. The result is the same for any number of workers and processes. */
struct straggler_request {
    unsigned workers;  /* threads of this process */
    struct team *team; /* who runs it together with this process; NULL: nobody */
    bool limited;      /* look only at what touches [from_ns, to_ns], common clock */
    int64_t from_ns, to_ns;
    const struct filter *shown; /* waits in these functions on these communicators are summed up beside all others, on
                                   which alone the judgement rests; NULL = no such sums */
    size_t path_parts;          /* so many parts of the critical path are kept (delay_costs.h); 0: none */
    void (*progress)(void *context, unsigned permille); /* as in struct match_sink, or NULL */
    void *progress_context;
};

/* Runs the analysis. Clock and directory must outlive it. Returns false when memory is short; the caller frees with
 * straggler_analysis_free in every case. */
bool straggler_analyse(struct straggler_analysis *analysis, const struct common_clock *clock,
                       const struct match_directory *directory, const struct straggler_request *request);
void straggler_analysis_free(struct straggler_analysis *analysis);

/* Whether anything is said of that rank's own speed: that it is slow, may be, is hidden, or has more work. Not that it
 * takes turns, and not that messages to it are slow: these are no rank's. */
bool straggler_analysis_speaks_of(const struct straggler_analysis *analysis, size_t dump);
/* Whether nothing is: ranks were compared, and chance is not ruled out for anything that differs. */
bool straggler_analysis_clears_all(const struct straggler_analysis *analysis);

#endif
