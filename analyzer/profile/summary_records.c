/* SPDX-License-Identifier: Apache-2.0
 *
 * A summary of a part of the job's time, from the records that are still there.
 * Lives here: a recorded call as a row of a table.
 * Must not live here: sums (summary_build.c), which records make a call (recorded_calls.h).
 */
#include "analyzer/profile/summary_build.h"

struct record_taking {
    struct summary_build *build;
    const struct dump *dump;
};

static bool take_times(const struct record_taking *taking, struct summary_group *group,
                       const struct recorded_call *call) {
    if (!group || taking->build->samples >= SUMMARY_SAMPLES_MAX)
        return true;
    taking->build->samples++;
    return summary_add_recorded(group, taking->dump, call);
}

static bool take_call(void *context, const struct recorded_call *call) {
    const struct record_taking *taking = context;
    struct summary_build *build = taking->build;
    struct summary_group *group;
    if (call->incomplete) {
        const struct pending pending = {
            .call = call->call,
            .comm = call->comm,
            .bytes = call->bytes,
            .stack = call->stack,
            .posting_ticks = (uint32_t)(call->posting_ticks < UINT32_MAX ? call->posting_ticks : UINT32_MAX)};
        return summary_add_incomplete(build, taking->dump, &pending, &group) && take_times(taking, group, call);
    }
    struct operation_row row = {.call = call->call,
                                .source = (uint8_t)call->source,
                                .comm_epoch = call->comm < ROW_COMM_NONE ? call->comm : ROW_COMM_NONE,
                                .bytes = call->bytes,
                                .count = call->count,
                                .bytes_total = call->bytes == BYTES_UNKNOWN ? 0 : call->bytes * call->count,
                                .time_total = call->ticks,
                                .time_min = call->ticks / call->count,
                                .time_max = call->ticks / call->count,
                                .untimed = !call->timed,
                                .posting_total = call->posting_ticks,
                                .received_bytes = call->received_bytes,
                                .failed = call->failed,
                                .posted_size = call->posted_size,
                                .shares = call->share ? call->count : 0,
                                .shares_total = call->share ? call->ticks : 0};
    const struct summary_row calls = {.row = &row,
                                      .time = !call->in_flight      ? ROW_TIME_INSIDE
                                              : call->posting_known ? ROW_TIME_IN_FLIGHT
                                                                    : ROW_TIME_IN_FLIGHT_ALONE,
                                      .stack = call->stack};
    return summary_add_row(build, taking->dump, &calls, &group) && take_times(taking, group, call);
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
