/* SPDX-License-Identifier: Apache-2.0
 *
 * A summary of a part of the job's time, from the records that are still there.
 * Lives here: a recorded call as a row of a table.
 * Must not live here: sums (summary_build.c), which records make a call (recorded_calls.h).
 */
#include "analyzer/profile/recorded_calls.h"
#include "analyzer/profile/summary_build.h"

struct record_taking {
    struct summary_build *build;
    const struct dump *dump;
};

static bool take_call(void *context, const struct recorded_call *call) {
    const struct record_taking *taking = context;
    struct summary_build *build = taking->build;
    if (call->incomplete)
        return summary_add_incomplete(build, taking->dump, call->call, call->comm, call->bytes, call->stack);
    struct operation_row row = {.call = call->call,
                                .source = (uint8_t)call->source,
                                .comm_epoch = call->comm < ROW_COMM_NONE ? call->comm : ROW_COMM_NONE,
                                .bytes = call->bytes,
                                .count = 1,
                                .bytes_total = call->bytes == BYTES_UNKNOWN ? 0 : call->bytes,
                                .time_total = call->ticks,
                                .time_min = call->ticks,
                                .time_max = call->ticks,
                                .untimed = !call->timed,
                                .posting_total = call->posting_ticks,
                                .received_bytes = call->received_bytes,
                                .failed = call->failed,
                                .posted_size = call->posted_size};
    struct summary_group *group;
    if (!summary_add_row(build, taking->dump, NULL, &row, call->stack, &group))
        return false;
    if (!group || !call->timed || build->samples >= SUMMARY_SAMPLES_MAX)
        return true;
    build->samples++;
    return summary_add_sample(group, summary_ns(taking->dump, row.source, call->ticks), 1);
}

bool summary_take_records(struct summary_build *build, const struct dump_set *set, const struct scope *scope) {
    for (size_t d = 0; d < set->count; d++) {
        struct record_taking taking = {build, set->dumps[d]};
        if (summary_counts(build, set, d) &&
            (!summary_enter(build, set->dumps[d], d) || !recorded_calls(scope, set->dumps[d], d, take_call, &taking)))
            return false;
    }
    return true;
}
