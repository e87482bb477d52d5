/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/documents/report_document.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/cli/user.h"
#include "analyzer/findings/words.h"
#include "analyzer/job/library.h"
#include "analyzer/job/own_cost.h"
#include "analyzer/profile/summary_transfers.h"
#include "analyzer/render/critical_path_table.h"
#include "analyzer/render/diagnosis.h"
#include "analyzer/render/efficiencies_table.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/finding_list.h"
#include "analyzer/render/loss_list.h"
#include "analyzer/render/scope_text.h"
#include "analyzer/render/straggler_table.h"
#include "analyzer/render/summary_table.h"
#include "analyzer/render/units.h"
#include "analyzer/render/what_if.h"

/* From one moment to another, null where they are not known. */
static json_t *seconds_between(bool known, int64_t from_ns, int64_t to_ns) {
    return known ? json_real(seconds_of(to_ns - from_ns)) : json_null();
}

static json_t *text_or_null(const char *text) {
    return text[0] ? escape_json(text) : json_null();
}

/* "2026-11-22T17:25:32Z", null where it is not known. */
static json_t *date_to_json(int64_t realtime_ns) {
    char text[DATE_TEXT];
    if (!say_date(text, realtime_ns))
        return json_null();
    text[10] = 'T';
    strcpy(text + 19, "Z");
    return json_string(text);
}

static json_t *library_to_json(bool known, const struct library *library) {
    return known ? json_pack("{s:o, s:o, s:o}", "name", escape_json(library->name), "version",
                             text_or_null(library->version), "path", text_or_null(library->path))
                 : json_null();
}

/* Whose job it was. */
static void add_origin(json_t *json, const struct job *job) {
    const struct dump *dump = job->dumps[0];
    struct library mpi, nccl;
    char name[USER_BYTES];
    bool has_mpi = library_of_mpi(dump, &mpi), has_nccl = library_of_nccl(dump, &nccl);
    json_object_set_new(json, "id", escape_json(job->listed->id));
    json_object_set_new(json, "started", date_to_json(job->listed->start_ns));
    json_object_set_new(json, "job_id", text_or_null(dump->job_id));
    json_object_set_new(json, "user", text_or_null(user_named(dump->user, name)));
    json_object_set_new(json, "working_directory", text_or_null(dump->working_directory));
    json_object_set_new(json, "launcher", text_or_null(dump->launcher));
    json_object_set_new(json, "mpi_library", library_to_json(has_mpi, &mpi));
    json_object_set_new(json, "nccl_library", library_to_json(has_nccl, &nccl));
}

static json_t *listed_job_to_json(const struct listed_job *job, const struct dump_set *set) {
    struct dump *const *dumps = set->dumps + job->first;
    return json_pack(
        "{s:o, s:I, s:o, s:o, s:I, s:o, s:o, s:o}", "id", escape_json(job->id), "ranks_seen", (json_int_t)job->ranks,
        "started", date_to_json(job->start_ns), "command", escape_json(dumps[0]->command), "generation",
        (json_int_t)job->generation, "host_names", hosts_to_json(dumps, NULL, job->count), "recorded_seconds",
        job->start_ns != INT64_MIN ? json_real(((double)job->end_ns - (double)job->start_ns) / 1e9) : json_null(),
        "gap_seconds", seconds_between(job->gap_ns >= 0, 0, job->gap_ns));
}

/* All jobs of the directory. */
static json_t *jobs_to_json(const struct session *session) {
    const struct job_list *list = &session->job.list;
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(array, listed_job_to_json(&list->items[i], &session->set));
    return array;
}

static json_t *job_to_json(const struct session *session) {
    const struct job *job = &session->job;
    int64_t error = common_clock_worst_error(&session->clock);
    json_t *hosts = hosts_to_json(job->dumps, NULL, job->count);
    json_t *missing = json_array();
    for (size_t i = 0; i < job->missing_count; i++)
        json_array_append_new(missing, json_integer(job->missing[i]));
    json_t *json =
        json_pack("{s:o, s:o, s:I, s:I, s:I, s:o, s:I, s:I, s:o, s:o, s:o, s:I, s:o}", "run_id",
                  escape_json(job->dumps[0]->run_id), "ranks_expected",
                  job->ranks_expected > 0 ? json_integer(job->ranks_expected) : json_null(), "ranks_seen",
                  (json_int_t)job->process_count, "hosts", (json_int_t)common_clock_known_hosts(&session->clock),
                  "generations", (json_int_t)job->generations, "wall_seconds",
                  seconds_between(session->end_ns >= session->start_ns, session->start_ns, session->end_ns), "events",
                  (json_int_t)job->events, "events_lost", (json_int_t)job->events_lost, "clock_error_us",
                  error == CLOCK_ERROR_UNKNOWN ? json_null() : json_real((double)error / 1e3), "host_names", hosts,
                  "missing_ranks", missing, "generation", (json_int_t)job->listed->generation, "command",
                  escape_json(job->dumps[0]->command));
    add_origin(json, job);
    return json;
}

/* Ranks of whose calls none can be compared with others'. */
static json_t *silent_ranks(const struct session *session) {
    json_t *ranks = json_array();
    for (size_t d = 0; d < session->job.count; d++)
        if (session->analysis.covered.silent[d])
            json_array_append_new(ranks, json_integer(session->job.dumps[d]->header->rank));
    return ranks;
}

static json_t *coverage_to_json(const struct session *session) {
    const struct straggler_analysis *analysis = &session->analysis;
    const struct match_totals *totals = &analysis->totals;
    bool known = analysis->from_ns <= analysis->to_ns && session->start_ns <= session->end_ns;
    json_t *coverage = json_pack(
        "{s:o, s:o, s:o, s:b, s:o, s:b, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "from_seconds",
        seconds_between(known, session->start_ns, analysis->from_ns), "to_seconds",
        seconds_between(known, session->start_ns, analysis->to_ns), "covered_seconds",
        seconds_between(known, 0, analysis->covered_ns), "partial", !analysis->covered.whole, "silent_ranks",
        silent_ranks(session), "totals_complete", !session->scope.limited && !totals_lack(&session->job),
        "matched_share",
        totals->collective > 0 ? json_real((double)totals->matched / (double)totals->collective) : json_null(),
        "collectives_matched", (json_int_t)totals->instances, "collectives_partial", (json_int_t)totals->partial,
        "collectives_mismatched", (json_int_t)totals->mismatches, "messages_matched", (json_int_t)totals->messages,
        "message_halves_alone", (json_int_t)totals->halves_alone, "message_halves_unmatchable",
        (json_int_t)totals->halves_unmatchable, "with_another_world", (json_int_t)totals->foreign);
    if (coverage)
        scope_add_to_json(coverage, &session->scope);
    return coverage;
}

static json_t *shed_to_json(const struct own_cost_sums *sums) {
    json_t *steps = json_array();
    for (int step = 0; step < SHED_STEPS; step++)
        json_array_append_new(steps,
                              json_pack("{s:s, s:I, s:I, s:f}", "what", shed_step_names[step], "ranks",
                                        (json_int_t)sums->shed[step].ranks, "times", (json_int_t)sums->shed[step].times,
                                        "seconds", seconds_of(sums->shed[step].ns)));
    return steps;
}

/* null where no process measured any call */
static json_t *own_cost_to_json(const struct own_cost_sums *sums) {
    if (sums->ranks == 0)
        return json_null();
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:o, s:I, s:o, s:o}", "ranks_measured", (json_int_t)sums->ranks,
                     "share", sums->share, "seconds", seconds_of(sums->ns), "call_ns", own_cost_of_call(sums),
                     "most_share", sums->most_share, "most_rank",
                     sums->most_rank >= 0 ? json_integer(sums->most_rank) : json_null(), "calls_measured",
                     (json_int_t)sums->samples, "budget_share",
                     sums->budget > 0 ? json_real(sums->budget) : json_null(), "shed", shed_to_json(sums));
}

json_t *report_document(const struct report_figures *report) {
    const struct straggler_analysis *analysis = &report->session->analysis;
    struct table summary = summary_table(&report->summary);
    struct table ranks = {rank_columns, report->ranks, sizeof *report->ranks, report->rank_count};
    struct table sites = {hot_site_columns, report->session->hot.items, sizeof *report->session->hot.items,
                          report->session->hot.count};
    const struct generations *starts = report->generations;
    struct table generations = {generation_columns, starts ? starts->rows : NULL, sizeof(struct generation_row),
                                starts ? starts->count : 0};
    struct own_cost_sums own_cost = own_cost_sum(&report->session->job);
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema",
        "commtap.report/1", "job", job_to_json(report->session), "jobs", jobs_to_json(report->session), "generations",
        starts ? table_to_json(&generations) : json_null(), "coverage", coverage_to_json(report->session), "losses",
        loss_list_to_json(&report->session->job.losses), "own_cost", own_cost_to_json(&own_cost), "summary",
        table_to_json(&summary), "ranks", table_to_json(&ranks), "stragglers",
        stragglers_to_json(analysis, &report->session->findings.coverage, analysis->stragglers,
                           analysis->straggler_count),
        "sites", table_to_json(&sites), "critical_path",
        critical_path_to_json(analysis, &report->session->path, report->session->start_ns), "what_if",
        what_if_to_json(analysis), "efficiencies", efficiencies_to_json(&analysis->efficiencies), "diagnosis",
        diagnosis_brief_to_json(report->diagnosis), "findings", findings_to_json(&report->session->findings));
}

/* ---- figures --------------------------------------------------------------------------------- */

bool report_figures_build(struct report_figures *figures, const struct session *session,
                          const struct diagnosis *diagnosis) {
    const struct scope *scope = &session->scope;
    const struct filter *filter = &session->selection.filter;
    *figures = (struct report_figures){.session = session, .diagnosis = diagnosis};
    struct summary *summary = &figures->summary;
    bool done = scope->limited ? summary_build_scope(summary, &session->job.selected, scope, SUMMARY_BY_DEFAULT, NULL)
                               : summary_build(summary, &session->job.selected, filter, SUMMARY_BY_DEFAULT);
    if (!done)
        return false;
    if (!scope->limited && filter->rank_count == 0) /* they are of all of a collective's ranks, and of the whole run */
        summary_add_transfers(summary, &session->analysis.waits.transfers, &session->directory);
    figures->ranks = rank_rows(&session->job, &session->analysis, filter, &figures->rank_count);
    return figures->ranks != NULL;
}

void report_figures_free(struct report_figures *figures) {
    free(figures->ranks);
    summary_free(&figures->summary);
}
