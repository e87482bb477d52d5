/* SPDX-License-Identifier: Apache-2.0
 *
 * Two runs side by side: what takes longer or happens more often in the second.
 * Lives here: pairing operations, call sites and steps of two runs; the test whether a difference is chance.
 * Must not live here: opening directories, printing.
 *
 * Rows are paired by what does not depend on a run: the function, the communicator's size (not its uid), the bytes,
 * the label of the call site. Times are tested with Mann and Whitney's rank sum over the calls' times, ties corrected;
 * all ranks of one collective count as one observation, since they end together. What the test cannot see is how much
 * one run differs from the next on the same machine: a row is called slower or faster only where its mean also moved
 * by the threshold. All rows are corrected for each other (Benjamini-Hochberg).
 */
#ifndef COMMTAP_PROFILE_COMPARE_H
#define COMMTAP_PROFILE_COMPARE_H

#include "analyzer/base/significance.h"
#include "analyzer/steps/steps.h"
#include "analyzer/profile/summary.h"

enum compared_kind { COMPARED_STEP, COMPARED_OPERATION, COMPARED_SITE };
enum compared_verdict { COMPARED_SAME, COMPARED_SLOWER, COMPARED_FASTER, COMPARED_ONLY_A, COMPARED_ONLY_B };

/* One run's side of a row. */
struct compared_side {
    uint64_t count, timed; /* calls, or steps */
    uint64_t time_total_ns;
    double observations;            /* that count as independent of each other */
    struct summary_sample *samples; /* ascending once judged; owned by the comparison */
    size_t sample_count, sample_room;
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
    enum compared_verdict verdict;
    bool count_changed;
};

struct comparison {
    struct compared_row *rows;
    size_t count;
};

/* Add one run's (side 0 or 1) entries: operations from summary_build by op, bytes and comm, sites from
 * summary_build_sites by site and op. `ranks` is the number of the run's processes. They return false when memory is
 * short. */
bool compare_add_summary(struct comparison *comparison, int side, const struct summary *summary, size_t ranks);
bool compare_add_steps(struct comparison *comparison, int side, const struct steps *steps);

/* Judges all rows and sorts them: slower ones first, by what they cost, then faster ones, then the rest. `threshold` is
 * the least change of a mean that matters, 0.05 = 5 %. Returns false when memory is short. */
bool compare_judge(struct comparison *comparison, double threshold);
void comparison_free(struct comparison *comparison);

/* Mean time of the timed calls, < 0 = unknown. */
double compared_mean_ns(const struct compared_side *side);

/* Chance of a difference like this or a larger one between samples of one distribution, both directions. Samples are
 * ascending; `n` says how many of each count as independent. 1 where that is fewer than 4. */
double compare_chance(const struct compared_side *a, const struct compared_side *b);

#endif
