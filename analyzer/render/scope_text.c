/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/render/scope_text.h"

#include <inttypes.h>

static double seconds_into(const struct scope *scope, int64_t ns) {
    return (double)(ns - scope->job_from_ns) / 1e9;
}

/* "step 3", "epochs 3 to 9" */
static void print_range(FILE *stream, const char *what, uint32_t first, uint32_t last) {
    if (first == last)
        fprintf(stream, "%s %" PRIu32, what, first);
    else
        fprintf(stream, "%ss %" PRIu32 " to %" PRIu32, what, first, last);
}

static json_t *range_to_json(bool given, uint32_t first, uint32_t last) {
    return given ? json_pack("[I, I]", (json_int_t)first, (json_int_t)last) : json_null();
}

static void print_why_empty(FILE *stream, const struct scope *scope) {
    const struct filter *filter = scope->filter;
    if (scope->job_to_ns < scope->job_from_ns) {
        fputs("nothing tells when the job ran: no part of its time can be looked at\n", stream);
    } else if (filter->has_epochs && filter->first_epoch >= scope->epoch_count) {
        print_range(stream, "epoch", filter->first_epoch, filter->last_epoch);
        fprintf(stream, ": the job has epochs 0 to %" PRIu32 " (MPI_Pcontrol(2) begins one)\n", scope->epoch_count - 1);
    } else if (!filter->has_steps || (scope->step_count > 0 && filter->first_step < scope->step_count)) {
        fprintf(stream, "nothing of the job lies in the time asked for: it lasted %.3f s\n",
                seconds_into(scope, scope->job_to_ns));
    } else if (scope->step_count == 0) {
        fputs("no steps were found in the records: see commtap steps, --marker and --anchor\n", stream);
    } else {
        print_range(stream, "step", filter->first_step, filter->last_step);
        fprintf(stream, ": the job has steps 0 to %" PRIu32 " on record\n", scope->step_count - 1);
    }
}

void scope_print(FILE *stream, const struct scope *scope) {
    if (!scope_is_limited(scope))
        return;
    if (scope_is_empty(scope)) {
        print_why_empty(stream, scope);
        return;
    }
    fputs("from the records of ", stream);
    if (scope->filter->has_steps) {
        print_range(stream, "step", scope->filter->first_step, scope->filter->last_step);
        fputs(", ", stream);
    }
    if (scope->filter->has_epochs) {
        print_range(stream, "epoch", scope->filter->first_epoch, scope->filter->last_epoch);
        fputs(", ", stream);
    }
    fprintf(stream, "%.6f s to %.6f s of the job: ", seconds_into(scope, scope->from_ns),
            seconds_into(scope, scope->to_ns));
    if (scope->complete)
        fputs("every call that began there", stream);
    else
        fprintf(stream, "%.1f %% of that time is on record, the counts are of its calls only",
                scope->asked_ns > 0 ? 100.0 * (double)scope->seen_ns / (double)scope->asked_ns : 0.0);
    if (scope->ranks_without_step > 0)
        fprintf(stream, "; %zu rank%s have no such step on record", scope->ranks_without_step,
                scope->ranks_without_step == 1 ? "" : "s");
    fputc('\n', stream);
}

static json_t *real_or_null(bool known, double value) {
    return known ? json_real(value) : json_null();
}

json_t *scope_to_json(const struct scope *scope) {
    if (!scope_is_limited(scope))
        return json_null();
    const struct filter *filter = scope->filter;
    bool known = !scope_is_empty(scope);
    double share = known && scope->asked_ns > 0 ? (double)scope->seen_ns / (double)scope->asked_ns : -1;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "from_seconds",
                     real_or_null(known, seconds_into(scope, scope->from_ns)), "to_seconds",
                     real_or_null(known, seconds_into(scope, scope->to_ns)), "steps",
                     range_to_json(filter->has_steps, filter->first_step, filter->last_step), "epochs",
                     range_to_json(filter->has_epochs, filter->first_epoch, filter->last_epoch), "seen_share",
                     real_or_null(share >= 0, share), "complete", known ? json_boolean(scope->complete) : json_null());
}

void scope_add_to_json(json_t *coverage, const struct scope *scope) {
    json_object_set_new(coverage, "source", json_string(scope_is_limited(scope) ? "records" : "tables"));
    json_object_set_new(coverage, "window", scope_to_json(scope));
}
