/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap report: the one-page answer.
 * Lives here: the command's options, which figures make the page, in which order.
 * Must not live here: the JSON (documents/), figures, sentences (findings/findings), tables (render/).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/findings/words.h"
#include "analyzer/job/library.h"
#include "analyzer/job/own_cost.h"
#include "analyzer/findings/advice.h"
#include "analyzer/cli/conclusions.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/documents/report_document.h"
#include "analyzer/render/efficiencies_table.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/finding_list.h"
#include "analyzer/render/loss_list.h"
#include "analyzer/render/critical_path_table.h"
#include "analyzer/render/scope_text.h"
#include "analyzer/render/straggler_table.h"
#include "analyzer/render/summary_table.h"
#include "analyzer/render/units.h"
#include "analyzer/render/what_if.h"
#include "analyzer/render/wrapped_text.h"
#include "analyzer/cli/session.h"
#include "analyzer/cli/stage_map.h"
#include "analyzer/cli/user.h"
#include "analyzer/cli/watch.h"

/* Rows without --top. */
enum { SITES_SHOWN = 4, OPERATIONS_SHOWN = 6, RANKS_SHOWN = 8 };

static struct table hot_sites_table(const struct session *session, size_t count) {
    return (struct table){hot_site_columns, session->hot.items, sizeof *session->hot.items, count};
}

/* ---- the page -------------------------------------------------------------------------------- */

/* How many of `count` rows are shown, `usual` without --top. */
static size_t shown_of(const struct output *output, size_t count, size_t usual) {
    size_t most = output->top > 0 ? output->top : usual;
    return count < most ? count : most;
}

static void print_heading(const struct output *output, const char *text) {
    fprintf(output->stream, "\n%s%s%s\n", output->color ? "\033[1m" : "", text, output->color ? "\033[0m" : "");
}

/* Where a part of the job's origin ends, in columns of its line; 0: nothing of it is written yet. */
struct origin_line {
    FILE *stream;
    size_t column;
};

/* On the next line where the terminal has no room left on this one. */
static void print_part(struct origin_line *line, const char *before, const char *text) {
    if (!text[0])
        return;
    const size_t screen = screen_columns(line->stream);
    const size_t width = strlen(before) + print_shortened(NULL, text, 0);
    const bool fits = screen == 0 || line->column + strlen(", ,") + width <= screen;
    if (line->column > 0 && !fits)
        fputs(",\n  ", line->stream);
    else
        fputs(line->column > 0 ? ", " : "  ", line->stream);
    fputs(before, line->stream);
    line->column = (line->column > 0 && fits ? line->column : 0) + strlen("  ") + strlen(before);
    line->column += print_shortened(line->stream, text, screen > 0 ? screen - strlen("  ,") - strlen(before) : 0);
}

/* When, whose, where and on what, as far as it is known. */
static void print_origin(FILE *stream, const struct job *job) {
    const struct dump *dump = job->dumps[0];
    struct library libraries[2];
    const bool has[2] = {library_of_mpi(dump, &libraries[0]), library_of_nccl(dump, &libraries[1])};
    char began[DATE_TEXT], name[USER_BYTES], library[sizeof libraries[0]];
    struct origin_line line = {.stream = stream};
    say_date(began, job->listed->start_ns);
    print_part(&line, "from ", began);
    print_part(&line, "job ", dump->job_id);
    print_part(&line, "by ", user_named(dump->user, name));
    for (int i = 0; i < 2; i++) {
        if (!has[i])
            continue;
        snprintf(library, sizeof library, "%.63s%s%.31s", libraries[i].name, libraries[i].version[0] ? " " : "",
                 libraries[i].version);
        print_part(&line, "", library);
    }
    print_part(&line, "in ", dump->working_directory);
    fputs(line.column > 0 ? "\n" : "", stream);
}

static void print_job(const struct output *output, const struct session *session) {
    const struct job *job = &session->job;
    char wall[UNITS_TEXT], gpus[40] = "", hosts[40] = "";
    if (job_gpus(job) > 0)
        snprintf(gpus, sizeof gpus, " with %zu GPUs", job_gpus(job));
    units_time(wall, session->end_ns > session->start_ns ? (uint64_t)(session->end_ns - session->start_ns) : 0);
    print_heading(output, "Job");
    fputs("  ", output->stream);
    size_t screen = screen_columns(output->stream);
    print_shortened(output->stream, job->dumps[0]->command[0] ? job->dumps[0]->command : "(command unknown)",
                    screen > 0 ? screen - 2 : 0);
    fprintf(output->stream, "\n  %zu", job->process_count);
    if (job->ranks_expected > 0 && (size_t)job->ranks_expected != job->process_count)
        fprintf(output->stream, " of %" PRId32, job->ranks_expected);
    size_t known = common_clock_known_hosts(&session->clock);
    if (known > 0)
        snprintf(hosts, sizeof hosts, " on %zu host%s", known, known == 1 ? "" : "s");
    fprintf(output->stream, " rank%s%s%s, %s, %" PRIu64 " events",
            job->process_count == 1 && job->ranks_expected <= 1 ? "" : "s", gpus, hosts, wall, job->events);
    fputs(", run ", output->stream);
    escape_text(output->stream, job->listed->id);
    fputc('\n', output->stream);
    print_origin(output->stream, job);
}

/* Where all times are the host's nobody need be told so. */
static bool has_device_times(const struct summary *summary) {
    for (size_t i = 0; i < summary->count; i++)
        if (summary->entries[i].source != SOURCE_HOST)
            return true;
    return false;
}

static bool print_operations(const struct output *output, const struct report_figures *report) {
    static const char *const keys[] = {"op",    "source",        "comm_name",   "comm_role",   "comm_size",     "bytes",
                                       "count", "time_total_us", "time_avg_us", "time_max_us", "busbw_gb_per_s"};
    enum { KEYS = sizeof keys / sizeof *keys };
    struct column columns[KEYS + 1] = {0};
    size_t used = 0;
    for (size_t i = 0; i < KEYS; i++)
        if (strcmp(keys[i], "source") != 0 || has_device_times(&report->summary))
            columns[used++] = *table_column(summary_columns, keys[i]);
    size_t shown = shown_of(output, report->summary.count, OPERATIONS_SHOWN);
    struct table table = {columns, report->summary.entries, sizeof *report->summary.entries, shown};
    print_heading(output, "Operations that took longest");
    if (!table_print_text(output->stream, &table, output->color))
        return false;
    if (report->summary.count > shown)
        fprintf(output->stream, "... and %zu more rows: commtap summary\n", report->summary.count - shown);
    bool done = table_print_legend(output->stream, &table);
    summary_print_notes(output->stream, &report->summary);
    return done;
}

/* One rank alone is balanced whatever it does. */
static bool print_efficiencies(const struct output *output, const struct session *session) {
    const struct efficiencies *efficiencies = &session->analysis.efficiencies;
    if (session->job.count < 2 || efficiencies->missing == EFFICIENCIES_NO_TIME)
        return true;
    print_heading(output, "Efficiencies as POP defines them");
    return efficiencies_print(output->stream, efficiencies, output->color);
}

/* Where the waits are; nothing where there are none. */
static bool print_sites(const struct output *output, const struct report_figures *report) {
    size_t count = report->session->hot.count, shown = shown_of(output, count, SITES_SHOWN);
    if (count == 0)
        return true;
    struct table table = hot_sites_table(report->session, shown);
    print_heading(output, "Waits by call site");
    if (!table_print_text(output->stream, &table, output->color))
        return false;
    if (count > shown)
        fprintf(output->stream, "... and %zu more: commtap calls --waits\n", count - shown);
    return table_print_legend(output->stream, &table);
}

/* Which calls the job's duration hangs on; nothing where ranks cannot be compared. */
static bool print_path(const struct output *output, const struct report_figures *report) {
    const struct session *session = report->session;
    const struct delay_costs *costs = &session->analysis.delay_costs;
    if (costs->unresolved) {
        print_heading(output, "Critical path");
        fputs("  not known: nearly all waits are shorter than the error of the hosts' clocks\n", output->stream);
    }
    if (session->job.count < 2 || costs->path_pieces == 0 || session->path.count == 0)
        return true;
    char length[UNITS_TEXT], heading[64 + UNITS_TEXT];
    units_time(length, (uint64_t)costs->path_ns);
    snprintf(heading, sizeof heading, "Critical path by call (%s%s%s)", costs->end_only ? "the last " : "", length,
             costs->partial && !costs->end_only ? " of the run" : "");
    print_heading(output, heading);
    return critical_path_print(output->stream, &session->analysis, &session->path,
                               shown_of(output, session->path.count, SITES_SHOWN), output->color);
}

/* What makes a rank worth a line: the waits that go back to it. Who was late only because it had been kept waiting
 * itself is waited for, but costs nothing. */
static int64_t rank_weight(const struct rank_row *row) {
    return row->costs ? row->costs->delay_cost_ns : row->waits ? row->waits->waited_for_ns : 0;
}

static int compare_rows(const void *a, const void *b) {
    const struct rank_row *left = a, *right = b;
    if (rank_weight(left) != rank_weight(right))
        return rank_weight(left) > rank_weight(right) ? -1 : 1;
    return (left->rank > right->rank) - (left->rank < right->rank);
}

static bool print_ranks(const struct output *output, const struct report_figures *report) {
    size_t count = report->rank_count, shown = shown_of(output, count, RANKS_SHOWN);
    if (count == 0) {
        fputs("\nnone of the ranks asked for has a dump\n", output->stream);
        return true;
    }
    struct rank_row *rows = malloc(count * sizeof *rows);
    if (!rows)
        return false;
    memcpy(rows, report->ranks, count * sizeof *rows);
    if (shown < count)
        qsort(rows, count, sizeof *rows, compare_rows);
    print_heading(output, shown < count ? "Ranks that cost the others most" : "Ranks");
    static const char *const keys[] = {"rank",
                                       "host",
                                       "gpu",
                                       "comm_seconds",
                                       "wait_seconds",
                                       "caused_seconds",
                                       "critical_path_seconds",
                                       "self_ratio",
                                       "window_seconds",
                                       "state"};
    enum { KEYS = sizeof keys / sizeof *keys };
    struct column columns[KEYS + 1];
    table_choose_columns(columns, rank_columns, keys, KEYS);
    struct table table = {columns, rows, sizeof *rows, shown};
    bool done = table_print_text(output->stream, &table, output->color);
    if (shown < count)
        fprintf(output->stream, "... and %zu more: commtap stragglers\n", count - shown);
    done = done && table_print_legend(output->stream, &table);
    free(rows);
    return done;
}

/* The starts of an elastic job side by side; nothing where there was one. */
static bool print_generations(const struct output *output, const struct report_figures *report) {
    const struct generations *generations = report->generations;
    if (generations->count == 0)
        return true;
    struct table table = {generation_columns, generations->rows, sizeof *generations->rows, generations->count};
    print_heading(output, "Generations: the starts of this job");
    bool done = table_print_text(output->stream, &table, output->color);
    if (generations->left_out > 0)
        fprintf(output->stream, "... and %zu before these\n", generations->left_out);
    return done && table_print_legend(output->stream, &table);
}

/* What waits rest on, in one sentence. */
static void say_coverage(FILE *stream, const struct session *session) {
    const struct straggler_analysis *analysis = &session->analysis;
    const struct match_totals *totals = &analysis->totals;
    int64_t error = common_clock_worst_error(&session->clock);
    char from[UNITS_TEXT], to[UNITS_TEXT], of[UNITS_TEXT], within[UNITS_TEXT];
    const char *lack = session->scope.limited ? "are of the records of the time asked for" : totals_lack(&session->job);
    fprintf(stream, "totals %s", lack ? lack : "hold every call");
    bool compared = session->job.count > 1;
    if (compared && analysis->from_ns <= analysis->to_ns && session->start_ns <= session->end_ns) {
        int64_t start = analysis->from_ns - session->start_ns, end = analysis->to_ns - session->start_ns;
        units_time(from, start > 0 ? (uint64_t)start : 0);
        units_time(to, end > 0 ? (uint64_t)end : 0);
        units_time(of, (uint64_t)(analysis->covered.whole ? analysis->window_ns : analysis->covered_ns));
        fprintf(stream, "; waits are from %s of events between %s and %s%s", of, from, to,
                analysis->covered.whole ? "" : ", in which no rank's are missing");
    }
    if (compared && totals->collective > 0)
        fprintf(stream, ", %.1f %% of their collectives matched",
                100.0 * (double)totals->matched / (double)totals->collective);
    uint64_t halves = totals->halves + totals->halves_unmatchable;
    if (compared && halves > 0)
        fprintf(stream, ", %.1f %% of sends and receives paired",
                100.0 * (double)(2 * totals->messages) / (double)halves);
    if (totals->foreign > 0)
        fprintf(stream,
                "; %" PRIu64
                " calls with processes of another world (spawned or connected) are counted, but not matched",
                totals->foreign);
    uint64_t overwritten = job_overwritten(&session->job);
    if (overwritten > 0)
        fprintf(stream, "; %" PRIu64 " of %" PRIu64 " events overwritten", overwritten, session->job.events);
    if (session->clock.domain_count > 1 && error != CLOCK_ERROR_UNKNOWN) {
        units_time(within, (uint64_t)error);
        fprintf(stream, "; clocks agree within %s", within);
    }
}

static void say_step(FILE *stream, const struct own_cost_sums *sums, enum shed_step step, const char *what) {
    const struct shed_sums *shed = &sums->shed[step];
    char length[UNITS_TEXT];
    if (shed->ranks == 0)
        return;
    units_time(length, (uint64_t)shed->ns);
    fprintf(stream, "; %s left out %" PRIu64 " time%s on %zu rank%s, %s in all", what, shed->times,
            shed->times > 1 ? "s" : "", shed->ranks, shed->ranks > 1 ? "s" : "", length);
}

static void say_own_cost(FILE *stream, const struct own_cost_sums *sums) {
    char each[UNITS_TEXT];
    units_time(each, (uint64_t)own_cost_of_call(sums));
    fprintf(stream, "commtap itself took %.2g %% of the time", 100 * sums->share);
    if (sums->ranks > 1 && sums->most_rank >= 0)
        fprintf(stream, " (rank %" PRId32 ": %.2g %%)", sums->most_rank, 100 * sums->most_share);
    fprintf(stream, ", %s a call, by %" PRIu64 " measured ones", each, sums->samples);
    if (sums->budget > 0)
        fprintf(stream, "; COMMTAP_BUDGET allows %g %%", 100 * sums->budget);
    say_step(stream, sums, SHED_GPU_TIMING, "GPU timing was");
    say_step(stream, sums, SHED_STACKS, "stacks were");
    say_step(stream, sums, SHED_RECORDS, "records were");
}

/* Nothing where no process measured any call. */
static bool print_own_cost(FILE *stream, const struct own_cost_sums *sums) {
    char *text = NULL;
    size_t bytes;
    if (sums->ranks == 0)
        return true;
    FILE *sentence = open_memstream(&text, &bytes);
    if (!sentence)
        return false;
    say_own_cost(sentence, sums);
    bool done = fclose(sentence) == 0;
    fputs("  ", stream);
    if (done)
        print_wrapped(stream, text, 2, 2);
    free(text);
    return done;
}

static bool print_coverage(const struct output *output, const struct session *session) {
    char *text = NULL;
    size_t bytes;
    FILE *sentence = open_memstream(&text, &bytes);
    if (!sentence)
        return false;
    say_coverage(sentence, session);
    bool done = fclose(sentence) == 0;
    print_heading(output, "Coverage");
    fputs("  ", output->stream);
    if (done)
        print_wrapped(output->stream, text, 2, 2);
    free(text);
    struct own_cost_sums own_cost = own_cost_sum(&session->job);
    done = done && print_own_cost(output->stream, &own_cost);
    loss_list_print(output->stream, &session->job.losses, "  ");
    return done;
}

static void print_nobody(const struct output *output, const struct session *session) {
    const struct straggler_analysis *analysis = &session->analysis;
    char judged_on[COVERAGE_TEXT];
    coverage_say(judged_on, sizeof judged_on, &session->findings.coverage, EVIDENCE_EVENTS);
    if (straggler_analysis_clears_all(analysis))
        fprintf(output->stream, "%s makes the others wait beyond chance (%zu %s compared)%s\n",
                findings_nobody(&session->findings), analysis->batches,
                analysis->batches_are_steps ? "steps" : "time batches", judged_on);
    else if (analysis->judgement == JUDGED_ALONE)
        fputs("one rank with a dump: there is no other to compare it with\n", output->stream);
}

static bool print_text(const struct output *output, const struct report_figures *report) {
    const struct session *session = report->session;
    scope_print(output->stream, &session->scope);
    findings_print(output->stream, &session->findings, output->color);
    if (!scope_is_empty(&session->scope))
        print_nobody(output, session);
    print_job(output, session);
    if (scope_is_empty(&session->scope))
        return true;
    if (report->summary.count == 0)
        fprintf(output->stream, "\nno operation %s\n",
                scope_is_limited(&session->scope) ? "on record lies in this time" : "of communication is on record");
    else if (!print_operations(output, report))
        return false;
    if (!print_ranks(output, report) || !print_efficiencies(output, session) || !print_sites(output, report) ||
        !print_path(output, report))
        return false;
    if (what_if_matters(&session->analysis.what_if)) {
        print_heading(output, "What if: the job would run");
        what_if_print(output->stream, &session->analysis);
    }
    if (!print_generations(output, report) || !print_coverage(output, session))
        return false;
    fputc('\n', output->stream);
    input_say_next(output->stream, session->analysis.straggler_count > 0 ? "stragglers" : "summary", &session->set);
    return true;
}

/* ---- command --------------------------------------------------------------------------------- */

static int print(const struct options *options, const struct report_figures *report) {
    struct output output;
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    bool done =
        output.format == OUTPUT_JSON ? json_print(output.stream, report_document(report)) : print_text(&output, report);
    return output_close(&output, done ? session_verdict(report->session, options) : input_no_memory());
}

static int show(const struct options *options, const struct session *session, const struct diagnosis *diagnosis) {
    struct report_figures figures;
    struct generations generations;
    bool done = generations_judge(&generations, session, options->team, session_workers(options));
    done = report_figures_build(&figures, session, diagnosis) && done;
    figures.generations = &generations;
    int code = done ? print(options, &figures) : input_no_memory();
    report_figures_free(&figures);
    return code;
}

static int run(const struct options *options) {
    struct session session;
    struct diagnosis diagnosis = {0};
    struct diagnosis_text told = {0};
    struct advice_limits limits = advice_standard();
    const char *text = option_text(options, "limits");
    if (text && !advice_parse(text, &limits)) {
        fprintf(
            stderr,
            "commtap report: --limits takes NAME=PERCENT,... of interval, communication, receive, collective, link\n");
        return EXIT_USAGE;
    }
    size_t top;
    int code = options_top(options, &top);
    if (code == EXIT_FINE)
        code = session_open(&session, options);
    if (code != EXIT_FINE)
        return code;
    code = stage_map_take(options, &session);
    if (code == EXIT_FINE)
        code = conclusions_add_advice(&session, options, &limits);
    if (code == EXIT_FINE)
        code = conclusions_add_diagnosis(&session, options, &diagnosis, &told);
    if (code == EXIT_FINE)
        code = show(options, &session, &diagnosis);
    diagnosis_text_free(&told);
    diagnosis_free(&diagnosis);
    session_close(&session);
    return code;
}

static const struct option report_options[] = {
    OPTION_FORMAT("text|json"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTIONS_FILTER,
    OPTION_FAIL_ON,
    OPTION_RUN,
    OPTION_THREADS,
    OPTION_SKIP_FRAMES,
    OPTION_DEBUG_DIR,
    {.name = "limits",
     .argument = "NAME=PERCENT,...",
     .doc = "when shares of the steps are worth a note: interval (20, above "
            "the mean), communication, receive, collective (10); a link's bandwidth: "
            "link (20, below the mean of its type)"},
    OPTION_STAGES,
    OPTION_TOP("what fits a page"),
    OPTION_END};

static const struct example examples[] = {
    {"commtap report DIR", "the whole run on one page"},
    {"commtap report --from 60 --to 120 DIR", "its second minute"},
    {"commtap report --fail-on straggler --format json -o report.json DIR",
     "for scripts: exit status 1 where a rank makes the others wait"},
    {NULL, NULL},
};

const struct command command_report = {
    .name = "report",
    .summary = "the one-page answer: what is wrong, who makes the others wait, what communication costs",
    .arguments = "DIR...",
    .details =
        "Findings come first, the worst on top. A rank is named as a straggler only where chance is ruled out\n"
        "(one false alarm in a hundred jobs in which nobody is slow), it is slower than the others by 5 %, and\n"
        "they waited for it at least a hundredth of the time looked at.\n"
        "--from, --to and --step limit what is looked at: one window for all ranks where they are compared, each\n"
        "rank's own step in the sums, which then are those of the calls on record. --rank, --comm, --op and --sizes "
        "choose\n"
        "what the tables show: findings, and who is named, rest on everything.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = report_options,
    .examples = examples,
    .run = run,
};
