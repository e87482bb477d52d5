/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of selection.h.
 */
#include "analyzer/selection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/input.h"
#include "analyzer/render/escape.h"

/* ---- options --------------------------------------------------------------------------------- */

static bool parse_marker(const struct options *options, struct step_marker *marker) {
    const char *text = option_text(options, "marker");
    *marker = (struct step_marker){.anchor = option_text(options, "anchor"), .any_level = true};
    if (!text)
        return true;
    if (strncmp(text, "pcontrol", 8) != 0 || marker->anchor)
        return false;
    marker->pcontrol = true;
    if (text[8] == '\0')
        return true;
    char *end;
    errno = 0;
    long level = strtol(text + 9, &end, 10);
    marker->any_level = false;
    marker->level = (int32_t)level;
    return text[8] == ':' && text[9] && *end == '\0' && errno == 0 && level >= 0 && level <= INT32_MAX;
}

int selection_read(struct selection *selection, const struct options *options) {
    *selection = (struct selection){0};
    if (!parse_marker(options, &selection->marker)) {
        fprintf(stderr, "commtap %s: --marker takes pcontrol or pcontrol:LEVEL, and not with --anchor\n",
                options->command->name);
        return EXIT_USAGE;
    }
    return options_filter(options, &selection->filter);
}

void selection_free(struct selection *selection) {
    filter_free(&selection->filter);
}

/* ---- from a directory to a window ------------------------------------------------------------ */

int selection_choose_job(struct job *job, const struct dump_set *set, const struct options *options,
                         bool (*alive)(const struct dump *)) {
    const char *run = option_text(options, "run");
    int selected = job_select(job, set, run, alive);
    if (selected == 0)
        return EXIT_FINE;
    if (selected != -1)
        return input_no_memory();
    fputs("commtap: no dump of run '", stderr);
    escape_text(stderr, run ? run : "");
    fputs("' in ", stderr);
    escape_text(stderr, set->directory);
    fputc('\n', stderr);
    return EXIT_UNUSABLE;
}

int selected_time_find(struct selected_time *time, const struct job *job, const struct selection *selection) {
    *time = (struct selected_time){0};
    if (!filter_is_timed(&selection->filter))
        return EXIT_FINE;
    bool done = common_clock_build(&time->clock, job->dumps, job->count) &&
                scope_build(&time->scope, job, &time->clock, &selection->filter, &selection->marker);
    return done ? EXIT_FINE : input_no_memory();
}

void selected_time_free(struct selected_time *time) {
    scope_free(&time->scope);
    common_clock_free(&time->clock);
}

/* ---- what is said about it ------------------------------------------------------------------- */

static double seconds_into(const struct scope *scope, int64_t ns) {
    return (double)(ns - scope->job_from_ns) / 1e9;
}

static void print_steps(FILE *stream, const struct filter *filter) {
    if (filter->first_step == filter->last_step)
        fprintf(stream, "step %" PRIu32, filter->first_step);
    else
        fprintf(stream, "steps %" PRIu32 " to %" PRIu32, filter->first_step, filter->last_step);
}

static void print_why_empty(FILE *stream, const struct scope *scope) {
    const struct filter *filter = scope->filter;
    if (!filter->has_steps || (scope->step_count > 0 && filter->first_step < scope->step_count)) {
        fprintf(stream, "nothing of the job lies in the time asked for: it lasted %.3f s\n",
                seconds_into(scope, scope->job_to_ns));
    } else if (scope->step_count == 0) {
        fputs("no steps were found in the records: see commtap steps, --marker and --anchor\n", stream);
    } else {
        print_steps(stream, filter);
        fprintf(stream, ": the job has steps 0 to %" PRIu32 " on record\n", scope->step_count - 1);
    }
}

void scope_print(FILE *stream, const struct scope *scope) {
    if (!scope->limited)
        return;
    if (scope_is_empty(scope)) {
        print_why_empty(stream, scope);
        return;
    }
    fputs("from the records of ", stream);
    if (scope->filter->has_steps) {
        print_steps(stream, scope->filter);
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

void scope_add_to_json(json_t *object, const struct scope *scope) {
    bool known = scope->limited && !scope_is_empty(scope);
    const struct filter *filter = scope->filter;
    json_object_set_new(object, "source", json_string(scope->limited ? "records" : "tables"));
    json_object_set_new(object, "from_seconds", real_or_null(known, known ? seconds_into(scope, scope->from_ns) : 0));
    json_object_set_new(object, "to_seconds", real_or_null(known, known ? seconds_into(scope, scope->to_ns) : 0));
    json_object_set_new(object, "steps",
                        scope->limited && filter->has_steps
                            ? json_pack("[I, I]", (json_int_t)filter->first_step, (json_int_t)filter->last_step)
                            : json_null());
    json_object_set_new(
        object, "seen_share",
        real_or_null(known && scope->asked_ns > 0, known ? (double)scope->seen_ns / (double)scope->asked_ns : 0));
    json_object_set_new(object, "complete", known ? json_boolean(scope->complete) : json_null());
}
