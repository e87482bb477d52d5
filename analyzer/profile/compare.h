/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of two sides beside each other: what takes longer or happens more often in the second.
 * Lives here: pairing operations, call sites and steps of two runs; the test whether a difference is chance.
 * Must not live here: opening directories, printing.
 *
 * Rows are paired by what does not depend on a run: the function, the communicator's size (not its uid), the bytes,
 * the label of the call site. Times are tested with Mann and Whitney's rank sum over the calls' times, ties corrected;
 * all ranks of one collective count as one observation, since they end together. That test cannot see how much one run
 * differs from the next on the same machine, which is mostly more than the calls of one run do. So the logarithms of
 * the runs' means have to differ as well: by Student's t where a side has several runs, else by what the user says that
 * runs differ by. Where neither is known a row that moved is called just that. All rows are corrected for each other
 * (Benjamini-Hochberg).
 */
#ifndef COMMTAP_PROFILE_COMPARE_H
#define COMMTAP_PROFILE_COMPARE_H

#include "analyzer/base/significance.h"
#include "analyzer/steps/steps.h"
#include "analyzer/profile/summary.h"

enum compared_kind { COMPARED_STEP, COMPARED_OPERATION, COMPARED_SITE };
enum compared_verdict {
    COMPARED_SAME,
    COMPARED_SLOWER,
    COMPARED_FASTER,
    COMPARED_ONLY_A,
    COMPARED_ONLY_B,
    COMPARED_MOVED, /* beyond what the calls of one run scatter by; what runs differ by is not known */
};

/* One run of a side of a row. */
struct compared_run {
    uint64_t timed, time_total_ns;
};

/* One side of a row: all its runs. */
struct compared_side {
    uint64_t count, timed; /* calls, or steps */
    uint64_t time_total_ns;
    double observations;            /* that count as independent of each other */
    struct summary_sample *samples; /* ascending once judged; owned by the comparison */
    size_t sample_count, sample_room;
    struct compared_run *runs; /* by number; owned by the comparison */
    size_t run_count;
};

struct compared_row {
    enum compared_kind kind;
    const char *op;     /* NULL for steps; texts live as long as the summaries that were added */
    const char *site;   /* NULL where it is no call site */
    uint8_t source;     /* enum source, 0 for steps */
    uint32_t comm_size; /* 0 = unknown or several */
    uint64_t bytes;     /* BYTES_UNKNOWN = unknown or several */
    struct compared_side sides[2];
    struct significance test; /* p and confidence; p 1 where too little is known */
    double run_spread;        /* standard deviation from run to run, a share of the mean; NAN: not known */
    enum compared_verdict verdict;
    bool count_changed;
};

struct comparison {
    struct compared_row *rows;
    size_t count;
};

struct compared_place {
    int side;   /* 0 or 1 */
    size_t run; /* of the side, from 0 */
};

/* Add one run's entries: operations from summary_build by op, bytes and comm, sites from
 * summary_build_sites by site and op. `ranks` is the number of the run's processes. They return false when memory is
 * short. */
bool compare_add_summary(struct comparison *comparison, struct compared_place place, const struct summary *summary,
                         size_t ranks);
bool compare_add_steps(struct comparison *comparison, struct compared_place place, const struct steps *steps);

/* Judges all rows and sorts them: slower ones first, by what they cost, then faster ones, then the rest. */
struct compared_limits {
    double threshold; /* least change of a mean that matters, 0.05 = 5 % */
    double run_noise; /* standard deviation of a mean from run to run where the runs do not tell it; < 0: not known */
    size_t runs[2];   /* of both sides */
};
/* Returns false when memory is short. */
bool compare_judge(struct comparison *comparison, const struct compared_limits *limits);
void comparison_free(struct comparison *comparison);

/* Mean time of the timed calls, < 0 = unknown. */
double compared_mean_ns(const struct compared_side *side);

/* Chance of a difference like this or a larger one between samples of one distribution, both directions. Samples are
 * ascending; `n` says how many of each count as independent. 1 where that is fewer than 4. */
double compare_chance(const struct compared_side *a, const struct compared_side *b);

/* The same of the runs' means, and fills in row->run_spread. 1 where what runs differ by is not known. */
double compare_chance_of_runs(struct compared_row *row, double run_noise);

#endif
