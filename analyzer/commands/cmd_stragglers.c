/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap stragglers: who made whom wait.
 * Lives here: the command's options, the order of what it shows.
 * Must not live here: figures, sentences (findings/findings), tables (render/).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/findings/words.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/finding_list.h"
#include "analyzer/render/critical_path_table.h"
#include "analyzer/render/scope_text.h"
#include "analyzer/render/straggler_table.h"
#include "analyzer/render/units.h"
#include "analyzer/render/what_if.h"
#include "analyzer/cli/session.h"

static bool print_json(FILE *stream, const struct session *session, const struct table *ranks) {
    const struct straggler_analysis *analysis = &session->analysis;
    int64_t error = common_clock_worst_error(&session->clock);
    return json_print(
        stream,
        json_pack(
            "{s:s, s:o, s:o, s:I, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "commtap.stragglers/1",
            "window", scope_to_json(&session->scope), "run_id", escape_json(session->job.dumps[0]->run_id), "blocks",
            (json_int_t)analysis->batches, "independent_blocks", analysis->independent_batches, "window_seconds",
            seconds_of(analysis->window_ns), "clock_error_us",
            error == CLOCK_ERROR_UNKNOWN ? json_null() : json_real((double)error / 1e3), "ranks", table_to_json(ranks),
            "stragglers",
            stragglers_to_json(analysis, &session->findings.coverage, analysis->stragglers, analysis->straggler_count),
            "suspects",
            stragglers_to_json(analysis, &session->findings.coverage, analysis->suspects, analysis->suspect_count),
            "critical_path", critical_path_to_json(analysis, &session->path, session->start_ns), "what_if",
            what_if_to_json(analysis), "findings", findings_to_json(&session->findings)));
}

/* The findings that are about slow ranks, and who could not be looked at. */
static void print_verdict(const struct output *output, const struct session *session) {
    static const char *const codes[] = {"missing_ranks", "replays_untimed", "once_away", "few_pauses",
                                        "straggler",     "suspect",         "uneven",    "too_short",
                                        "nothing_alike", "no_collectives",  "slow_link", "slow_group",
                                        "rotating",      "together",        "hidden",    "records_not_kept"};
    enum { BESIDE_A_VERDICT = 4 }; /* so many of them are none */
    bool any = false;
    for (size_t i = 0; i < session->findings.count; i++)
        for (size_t c = 0; c < sizeof codes / sizeof *codes; c++)
            if (strcmp(session->findings.items[i].code, codes[c]) == 0) {
                findings_print(output->stream, &(struct findings){.items = &session->findings.items[i], .count = 1},
                               output->color);
                any |= c >= BESIDE_A_VERDICT;
            }
    char judged_on[COVERAGE_TEXT];
    coverage_say(judged_on, sizeof judged_on, &session->findings.coverage, EVIDENCE_EVENTS);
    if (!any && session->analysis.judgement == JUDGED_ALONE)
        fputs("one rank with a dump: there is no other to compare it with\n", output->stream);
    else if (!any)
        fprintf(output->stream, "%s makes the others wait beyond chance%s\n", findings_nobody(&session->findings),
                judged_on);
    fputc('\n', output->stream);
}

/* The columns that fit a screen; JSON and CSV have all. */
static bool print_ranks(const struct output *output, const struct table *ranks, size_t had) {
    static const char *const keys[] = {"rank",
                                       "host",
                                       "imposed_wait_seconds",
                                       "waited_for_seconds",
                                       "caused_seconds",
                                       "delay_cost_direct_seconds",
                                       "critical_path_seconds",
                                       "wait_seconds",
                                       "comm_seconds",
                                       "self_ratio",
                                       "persistence",
                                       "confidence",
                                       "deepspeed_straggler_seconds"};
    enum { KEYS = sizeof keys / sizeof *keys };
    struct column columns[KEYS + 1];
    table_choose_columns(columns, rank_columns, keys, KEYS);
    struct table shown = {columns, ranks->rows, ranks->row_bytes, ranks->count};
    if (had == 0)
        fputs("none of the ranks asked for has a dump\n", output->stream);
    else if (!table_print_text(output->stream, &shown, output->color))
        return false;
    table_print_rest(output->stream, ranks, had);
    if (had > 0 && !table_print_legend(output->stream, &shown))
        return false;
    fputc('\n', output->stream);
    return true;
}

/* What the figures of the table are about, where that is not all of the job. */
static void print_limits(FILE *stream, const struct session *session) {
    const struct filter *filter = &session->selection.filter;
    if (filter_chooses_calls(filter))
        fputs("waited, waited for and DeepSpeed are those of the functions, communicators and sizes asked for.\n",
              stream);
    const struct delay_costs *costs = &session->analysis.delay_costs;
    if (costs->end_only && costs->path_ns > 0)
        fprintf(
            stream,
            "imposed wait, delay cost and crit. path are of the last %.1f s only: there are too many events for all.\n",
            seconds_of(costs->path_ns));
    else if (costs->partial && costs->path_ns > 0)
        fprintf(stream, "all of it is of %.1f s of the run only: of the rest, the records of some ranks are missing.\n",
                seconds_of(costs->path_ns));
}

static bool print_text(const struct output *output, const struct session *session, const struct table *ranks,
                       size_t had) {
    scope_print(output->stream, &session->scope);
    if (scope_is_empty(&session->scope))
        return true;
    print_verdict(output, session);
    if (!print_ranks(output, ranks, had))
        return false;
    print_limits(output->stream, session);
    if (what_if_matters(&session->analysis.what_if)) {
        fputs("what if: the job would run\n", output->stream);
        what_if_print(output->stream, &session->analysis);
    }
    input_say_next(output->stream, "summary --by rank,op", &session->set);
    return true;
}

static int print(const struct options *options, const struct session *session, const struct table *ranks, size_t had) {
    struct output output;
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    bool done = true;
    if (output.format == OUTPUT_JSON)
        done = print_json(output.stream, session, ranks);
    else if (output.format == OUTPUT_CSV)
        table_print_csv(output.stream, ranks);
    else
        done = print_text(&output, session, ranks, had);
    return output_close(&output, done ? session_verdict(session, options) : input_no_memory());
}

/* Prints the ranks that pass the filter; the verdict is about all of them. */
static int show(const struct options *options, const struct session *session, const struct column *column,
                size_t most) {
    struct table ranks = {.columns = rank_columns, .row_bytes = sizeof(struct rank_row)};
    struct rank_row *rows = rank_rows(&session->job, &session->analysis, &session->selection.filter, &ranks.count);
    if (!rows)
        return input_no_memory();
    ranks.rows = rows;
    bool sorted = !column || table_sort(rows, sizeof *rows, ranks.count, column);
    size_t had = table_cut(&ranks, most);
    int code = sorted ? print(options, session, &ranks, had) : input_no_memory();
    free(rows);
    return code;
}

static int run(const struct options *options) {
    const struct column *column;
    struct session session;
    size_t most;
    int code = options_sort(options, rank_columns, &column);
    if (code == EXIT_FINE)
        code = options_top(options, &most);
    if (code == EXIT_FINE)
        code = session_open(&session, options);
    if (code == EXIT_FINE) {
        code = show(options, &session, column, most);
        session_close(&session);
    }
    return code;
}

static const struct option straggler_options[] = {
    OPTION_FORMAT("text|json|csv"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_TOP("all"),
    {.name = "sort",
     .argument = "KEY",
     .doc = "order of the ranks by a column's JSON key, largest first; default: rank"},
    OPTIONS_FILTER,
    OPTION_FAIL_ON,
    OPTION_RUN,
    OPTION_THREADS,
    OPTION_SKIP_FRAMES,
    OPTION_DEBUG_DIR,
    OPTION_END};

static const struct example examples[] = {
    {"commtap stragglers DIR", "who waits for whom, rank by rank"},
    {"commtap stragglers --sort caused_seconds DIR", "the ranks that cost the others most on top"},
    {NULL, NULL},
};

const struct command command_stragglers = {
    .name = "stragglers",
    .summary = "who made whom wait, rank by rank",
    .arguments = "DIR...",
    .details =
        "In each collective the one who arrives last makes the others wait. A rank is named only where chance is\n"
        "ruled out; weaker suspicions are findings. Where another rank is slow each time, the kind is rotating.\n"
        "--from, --to and --step limit what is judged: one window for all ranks, from the first rank's beginning of "
        "the\n"
        "step to the last one's end, with what reaches into it. --rank says who is shown, --comm, --op and --sizes "
        "which waits "
        "are\n"
        "summed up (waited, waited for, DeepSpeed): who is named, and all other figures, rest on everything.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = straggler_options,
    .columns = rank_columns,
    .examples = examples,
    .run = run,
};
