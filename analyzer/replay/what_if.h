/* SPDX-License-Identifier: Apache-2.0
 *
 * How much faster the job would be: with everybody alike, with somebody mended, with the work before a call evened out.
 * Lives here: which durations of a replay are changed to what, and the ratios that come out.
 * Must not live here: the replay (replay.h), who is suspected, sentences.
 *
 * Slowdown and the worst workers' share are those of Lin, Jiang, Song et al., "Understanding Stragglers in Large Model
 * Training Using What-if Analysis", OSDI 2025: S = T / T_ideal, where every stretch of work takes the mean and every
 * transfer the median of its like (replay.h: `before`, `signature`; a call's tail is its transfer), and
 * M_W = (T - T_W) / (T - T_ideal), where only the worst 3 % of the ranks, at least one, are mended so. The
 * worst are those with the most work and transfer beyond the ideal; the paper combines the slowdowns of the rows and
 * columns of a grid of ranks.
 *
 * T is the time as it was. Only where an imported trace names all own work, what lies between is none and waited for
 * something that the trace does not name; as in the paper, such delays are left out of both times. A profiler's trace
 * names the kernels of a GPU alone, between which its host may be late: of those nothing is left out.
 */
#ifndef COMMTAP_REPLAY_WHAT_IF_H
#define COMMTAP_REPLAY_WHAT_IF_H

#include "analyzer/replay/work_kinds.h"

enum { WHAT_IF_SITES = 4, WHAT_IF_WORST_PERCENT = 3 };

/* Work before one kind of call, where some ranks take longer for it than their peers. */
struct what_if_site {
    uint32_t dump, stack; /* where the rank comes from that takes longest; STACK_NONE: unknown */
    uint16_t call;        /* index into the directory's calls */
    double speedup;       /* if nobody took longer than the median of its peers; > 1 */
    int64_t extra_ns;     /* that all ranks together took longer */
};

struct what_if {
    bool known;                               /* ranks wait for each other in what was looked at */
    double slowdown;                          /* S, at least 1 */
    double worst_workers_share;               /* M_W, negative: unknown, since there is next to no slowdown to share */
    size_t worst_workers;                     /* how many ranks that is about */
    struct what_if_site sites[WHAT_IF_SITES]; /* the largest speed-up first */
    size_t site_count;
    int64_t covered_ns; /* the time looked at */
    bool partial;       /* which is not all of the run: only its end, or some of its records are missing */
    bool end_only;
};

/* Who is compared with whom: per dump, equal numbers are peers; NOWHERE is nobody's. */
struct what_if_peers {
    const uint32_t *classes;           /* those of one rank class */
    const uint32_t *comparison_groups; /* where a whole rank class is suspected */
};

/* What all of it is asked of. */
struct what_if_basis {
    const struct replay *replay;
    struct work_kinds work;
};

/* Leaves out delays that nothing explains, as above: changes the replay's durations and wall_ns. To be called once,
 * before all else; the replay outlives the basis. Returns false when memory is short; the caller frees with
 * what_if_free in every case. */
bool what_if_prepare(struct what_if_basis *basis, struct replay *replay);
void what_if_free(struct what_if_basis *basis);

/* Fills in all but the slowdown, the worst workers' share of it, and the sites, which may be measured side by side
 * where `known` came out true. */
void what_if_begin(struct what_if *what_if, const struct replay *replay);
/* The slowdown and the worst workers' share of it. Returns false when memory is short. */
bool what_if_measure_slowdown(struct what_if *what_if, const struct what_if_basis *basis);

/* Sites that may be worth a replay, at most WHAT_IF_SITES. */
struct what_if_site_list;

/* NULL when memory is short; freed by what_if_free_sites, which takes NULL. */
struct what_if_site_list *what_if_list_sites(const struct what_if_basis *basis, const struct what_if_peers *peers);
void what_if_free_sites(struct what_if_site_list *sites);
size_t what_if_site_count(const struct what_if_site_list *sites);
/* Time / time with the site of that number mended, at least 1. Negative: no memory. */
double what_if_site_mended(const struct what_if_basis *basis, const struct what_if_site_list *sites, size_t number);
/* Makes those that matter, by what all of them came to, the sites of `what_if`. */
void what_if_keep_sites(struct what_if *what_if, const struct what_if_basis *basis,
                        const struct what_if_site_list *sites, const double *speedups);

/* Whom to mend. */
struct what_if_mend {
    const size_t *dumps;
    size_t count;
    unsigned collectives; /* the run is looked at in parts of so many segments (replay.h); 0 is 1 */
    unsigned begin;       /* below that: parts begin with segments that leave it as the remainder */
    double now_and_then;  /* 0: their own work becomes that of their peers: their k-th shortest part takes what the
                             median of the peers takes for theirs. Else only parts in which a rank takes more than this
                             many times the median of all peers are mended, down to that median. */
};

/* Time / time with these ranks mended, at least 1. Peers are the ranks of the rank class that are not to be mended or,
 * where a whole rank class is, the others of the comparison group; where there are none, 1. Negative: no memory. */
double what_if_mended(const struct what_if_basis *basis, const struct what_if_peers *peers,
                      const struct what_if_mend *mend);

/* Whose messages. */
struct what_if_ends {
    const uint32_t *host_of; /* per dump, where the ends are hosts; NULL: they are dumps */
    uint32_t from, to;       /* equal: between this one and all others */
    bool both;               /* the way back, too */
};

/* Time / time with these messages `ratio` times as fast, at least 1. Negative: no memory. */
double what_if_link(const struct what_if_basis *basis, const struct what_if_ends *ends, double ratio);

#endif
