/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures DeepSpeed's comms logger would have printed on one rank, bug for bug: bandwidth with the size of the
 * world, twice the usual algbw for all_reduce, reduce_scatter n times too high, trimmed means.
 * Lives here: those formulas, the straggler figure joined by (communicator, number).
 * Must not live here: commtap's own bandwidth (summary.h), printing.
 */
#ifndef COMMTAP_PROFILE_SUMMARY_DEEPSPEED_H
#define COMMTAP_PROFILE_SUMMARY_DEEPSPEED_H

#include "analyzer/profile/summary.h"

struct deepspeed_row {
    const char *op;     /* torch.distributed's name; lives as long as the log */
    const char *caller; /* function that called; NULL: not asked for. Lives as long */
    uint64_t msg_bytes; /* bytes of the tensor argument */
    bool approximate;   /* averages are from histograms */
    uint64_t count;     /* calls with a time */
    double total_ms, avg_ms;
    double tput_gbps, busbw_gbps; /* trimmed means */

    /* straggler: calls that all members of the communicator were seen in */
    uint64_t matched;
    double comm_total_ms, straggler_total_ms, comm_avg_ms, straggler_avg_ms;
};

struct deepspeed {
    struct deepspeed_row *rows; /* by op, then size */
    size_t count;
    int32_t rank; /* whose figures these are: the lowest that passes the filter */
    int32_t world_size;
    int64_t ended_realtime_s; /* when that rank's process ended or was last known to start something */
    bool stragglers_known;    /* false: there are too many records to join */
    uint64_t unmatched;       /* collectives of this rank that could not be joined: a record of another is missing */
    int64_t not_on_record;    /* calls that are in no row, for rows by caller are of the records that are left; -1: of a
                                 part of the time this is not known */
    struct summary summary;   /* private: holds the strings */
};

/* Builds it from the lowest rank of `set` that passes `filter`, joined with all others; where `scope` is not NULL, from
 * the records in it alone (`set` as for summary_build_scope). With `labels`, whose symbols are those of set->dumps,
 * rows are told apart by the calling function, as DeepSpeed does with `debug`, and come from records, too: tables do
 * not tell sizes and callers together. Returns false when memory is short; otherwise the caller frees with
 * deepspeed_free. */
bool deepspeed_build(struct deepspeed *log, const struct dump_set *set, const struct scope *scope,
                     const struct filter *filter, struct site_labels *labels);
void deepspeed_free(struct deepspeed *log);

/* DeepSpeed's own formulas (calc_bw_log): Gbit/s of one call of `op` with `msg_bytes` that took `ns`, in a world of n
 * processes. Both 0 for an op it does not know. */
void deepspeed_bandwidth(const char *op, uint64_t msg_bytes, uint64_t ns, int32_t n, double *tput_gbps,
                         double *busbw_gbps);

/* Mean of ascending samples without the lowest and highest k = round_half_even(0.1 * n) calls; `value` gives the figure
 * of one sample. 0 for no samples. */
double deepspeed_trimmed_mean(const struct summary_sample *samples, size_t count,
                              double (*value)(uint64_t ns, const void *argument), const void *argument);

#endif
