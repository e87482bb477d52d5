/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap diff: two runs side by side, for people and for CI.
 * Lives here: the command's options, columns, exit code.
 * Must not live here: pairing and testing (profile/compare).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/align/align.h"
#include "analyzer/profile/compare.h"
#include "analyzer/job/job.h"
#include "analyzer/cli/call_sites.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/output.h"
#include "analyzer/load/process.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/scope_text.h"
#include "analyzer/render/summary_table.h"
#include "analyzer/cli/selection.h"

/* ---- one run --------------------------------------------------------------------------------- */

struct diff_run {
    struct dump_set set;
    struct job job;
    struct common_clock clock;
    struct scope scope;
    struct steps steps;
    struct summary operations, sites;
    struct call_sites symbols;
    struct site_labels *labels;
};

/* Sums of a run: of all calls, or of those on record in the time asked for. */
static bool sum_up_run(const struct diff_run *run, const struct filter *filter, struct summary *summary, unsigned by,
                       struct site_labels *labels) {
    const struct dump_set *set = &run->job.selected;
    return run->scope.limited ? summary_build_scope(summary, set, &run->scope, by, labels)
           : labels           ? summary_build_sites(summary, set, filter, by, labels)
                              : summary_build(summary, set, filter, by);
}

static bool build_sites(struct diff_run *run, const struct filter *filter) {
    run->labels = site_labels_new(run->symbols.symbols, &run->symbols.skip);
    return run->labels && symbols_want_all(run->symbols.symbols) && symbols_resolve(run->symbols.symbols) &&
           sum_up_run(run, filter, &run->sites, SUMMARY_BY_SITE | SUMMARY_BY_OP, run->labels);
}

/* Steps are of all operations: they are not compared where only some were asked for. Ranks left out have none. */
static bool find_run_steps(struct diff_run *run, const struct selection *selection) {
    const struct filter *filter = &selection->filter;
    if (filter->op || filter->comm)
        return true;
    if (!steps_find(&run->steps, &run->clock, &selection->marker))
        return false;
    scope_keep_steps(&run->scope, &run->steps);
    run->steps.reference = run->steps.rank_count;
    for (size_t r = run->steps.rank_count; r-- > 0;) {
        size_t most = run->steps.reference < run->steps.rank_count ? run->steps.ranks[run->steps.reference].count : 1;
        if (filter_rank(filter, run->job.dumps[r]->header->rank) && run->steps.ranks[r].count >= most)
            run->steps.reference = r;
    }
    return true;
}

static int read_job(struct diff_run *run, const struct options *options, const struct selection *selection,
                    struct comparison *comparison, int side) {
    const struct filter *filter = &selection->filter;
    int code =
        selection_choose_run(&run->job, &run->set, option_text(options, side ? "run-b" : "run-a"), process_is_alive);
    if (code != EXIT_FINE)
        return code;
    code = call_sites_open(&run->symbols, options, run->job.dumps, run->job.count);
    if (code != EXIT_FINE)
        return code;
    bool done = common_clock_build(&run->clock, run->job.dumps, run->job.count) &&
                scope_build(&run->scope, &run->job, &run->clock, filter, &selection->marker) &&
                find_run_steps(run, selection) && sum_up_run(run, filter, &run->operations, SUMMARY_BY_DEFAULT, NULL) &&
                build_sites(run, filter);
    done = done && compare_add_steps(comparison, side, &run->steps) &&
           compare_add_summary(comparison, side, &run->operations, run->job.count) &&
           compare_add_summary(comparison, side, &run->sites, run->job.count);
    return done ? EXIT_FINE : input_no_memory();
}

static int read_run(struct diff_run *run, const struct options *options, const struct selection *selection,
                    struct comparison *comparison, int side) {
    int code = input_open(&options->arguments[side], 1, &run->set);
    return code == EXIT_FINE ? read_job(run, options, selection, comparison, side) : code;
}

static void close_run(struct diff_run *run) {
    summary_free(&run->operations);
    summary_free(&run->sites);
    site_labels_free(run->labels);
    call_sites_close(&run->symbols);
    steps_free(&run->steps);
    scope_free(&run->scope);
    common_clock_free(&run->clock);
    job_free(&run->job);
    dump_set_close(&run->set);
}

/* ---- columns --------------------------------------------------------------------------------- */

static const char *const kind_names[] = {
    [COMPARED_STEP] = "step", [COMPARED_OPERATION] = "operation", [COMPARED_SITE] = "site"};
static const char *const verdict_names[] = {[COMPARED_SAME] = "same",
                                            [COMPARED_SLOWER] = "slower",
                                            [COMPARED_FASTER] = "faster",
                                            [COMPARED_ONLY_A] = "only in A",
                                            [COMPARED_ONLY_B] = "only in B"};

#define ROW  ((const struct compared_row *)row)
#define A    (&ROW->sides[0])
#define B    (&ROW->sides[1])
#define BOTH (A->timed > 0 && B->timed > 0 && A->time_total_ns > 0)
#define VALUE(NAME, CELL)                                                                                              \
    static struct cell NAME(const void *row) { return CELL; }
#define MEAN(SIDE)  ((SIDE)->timed ? cell_real(compared_mean_ns(SIDE) / 1e3) : cell_unknown())
#define TOTAL(SIDE) ((SIDE)->timed ? cell_real((double)(SIDE)->time_total_ns / 1e3) : cell_unknown())
#define TEXT(VALUE) ((VALUE) ? cell_text(VALUE) : cell_unknown())
VALUE(kind, cell_text(kind_names[ROW->kind]))
VALUE(verdict, cell_text(verdict_names[ROW->verdict]))
VALUE(op, TEXT(ROW->op))
VALUE(site, TEXT(ROW->site))
VALUE(source, TEXT(ROW->source ? source_name(ROW->source) : NULL))
VALUE(comm_size, ROW->comm_size ? cell_unsigned(ROW->comm_size) : cell_unknown())
VALUE(bytes, ROW->bytes != BYTES_UNKNOWN ? cell_unsigned(ROW->bytes) : cell_unknown())
VALUE(count_a, cell_unsigned(A->count))
VALUE(count_b, cell_unsigned(B->count))
VALUE(mean_a, MEAN(A))
VALUE(mean_b, MEAN(B))
VALUE(total_a, TOTAL(A))
VALUE(total_b, TOTAL(B))
VALUE(ratio, BOTH ? cell_real(compared_mean_ns(B) / compared_mean_ns(A)) : cell_unknown())
VALUE(confidence, BOTH ? cell_real(ROW->test.confidence) : cell_unknown())

/* clang-format off */
static const struct column diff_columns[] = {
    {"kind", "what", .left = true, .value = kind, .doc = "step, operation or call site"},
    {"verdict", "verdict", .left = true, .value = verdict, .doc = "slower and faster: chance is ruled out, and the mean moved by --threshold"},
    {"op", "op", .left = true, .optional = true, .value = op},
    {"site", "call site", .left = true, .optional = true, .value = site},
    {"source", NULL, .value = source},
    {"comm_size", "procs", .optional = true, .value = comm_size},
    {"bytes", "size", LOOK_SIZE, .optional = true, .value = bytes},
    {"count_a", "count A", .value = count_a},
    {"count_b", "count B", .value = count_b},
    {"time_avg_a_us", "avg A", LOOK_MICROSECONDS, .value = mean_a},
    {"time_avg_b_us", "avg B", LOOK_MICROSECONDS, .value = mean_b},
    {"time_total_a_us", NULL, .value = total_a},
    {"time_total_b_us", NULL, .value = total_b},
    {"ratio", "B/A", LOOK_RATIO, .value = ratio, .doc = "mean time in B / mean time in A", .legend = "mean time in B / mean time in A"},
    {"confidence", "confidence", LOOK_RATIO, .value = confidence, .doc = "that the times differ: 0.9 = one false row in a hundred comparisons", .legend = "that the times differ"},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */

/* ---- output ---------------------------------------------------------------------------------- */

static json_t *run_to_json(const struct diff_run *run) {
    return json_pack("{s:o, s:I, s:s, s:o}", "run_id", escape_json(run->job.dumps[0]->run_id), "ranks_seen",
                     (json_int_t)run->job.count, "source", run->scope.limited ? "records" : "tables", "window",
                     scope_to_json(&run->scope));
}

static size_t count_rows(const struct comparison *comparison, enum compared_verdict verdict) {
    size_t count = 0;
    for (size_t i = 0; i < comparison->count; i++)
        count += comparison->rows[i].verdict == verdict;
    return count;
}

static bool print_json(FILE *stream, const struct diff_run runs[2], const struct table *table, double threshold) {
    return json_print(stream,
                      json_pack("{s:s, s:o, s:o, s:f, s:o}", "schema", "commtap.diff/1", "a", run_to_json(&runs[0]),
                                "b", run_to_json(&runs[1]), "threshold", threshold, "rows", table_to_json(table)));
}

/* Rows that changed; where none did, that is said. */
static void print_windows(FILE *stream, const struct diff_run runs[2]) {
    for (int side = 0; side < 2 && runs[side].scope.limited; side++) {
        fprintf(stream, "%c: ", "AB"[side]);
        scope_print(stream, &runs[side].scope);
    }
}

static bool print_text(const struct output *output, const struct diff_run runs[2], const struct comparison *comparison,
                       struct table table, bool all) {
    print_windows(output->stream, runs);
    if (comparison->count == 0) {
        fputs("nothing on record in either run passes the filters\n", output->stream);
        return true;
    }
    size_t slower = count_rows(comparison, COMPARED_SLOWER), faster = count_rows(comparison, COMPARED_FASTER);
    size_t alone = count_rows(comparison, COMPARED_ONLY_A) + count_rows(comparison, COMPARED_ONLY_B);
    fprintf(output->stream, "%zu slower, %zu faster, %zu in one run only, of %zu compared\n\n", slower, faster, alone,
            comparison->count);
    struct compared_row *shown = calloc(comparison->count ? comparison->count : 1, sizeof *shown);
    if (!shown)
        return false;
    table.rows = shown;
    table.count = 0;
    for (size_t i = 0; i < comparison->count; i++)
        if (all || comparison->rows[i].kind == COMPARED_STEP || comparison->rows[i].verdict != COMPARED_SAME)
            shown[table.count++] = comparison->rows[i];
    bool done = table.count == 0 ||
                (table_print_text(output->stream, &table, output->color) && table_print_legend(output->stream, &table));
    free(shown);
    if (!all)
        fputs("\nrows that did not change: --all\n", output->stream);
    return done;
}

/* What --fail-on asks for is there. */
static bool fails(const struct options *options, const struct comparison *comparison) {
    size_t position = 0;
    const char *what;
    while ((what = option_next(options, "fail-on", &position)) != NULL)
        for (size_t i = 0; i < comparison->count; i++) {
            const struct compared_row *row = &comparison->rows[i];
            bool hit = strcmp(what, "slower") == 0   ? row->verdict == COMPARED_SLOWER
                       : strcmp(what, "faster") == 0 ? row->verdict == COMPARED_FASTER
                                                     : row->count_changed;
            if (hit)
                return true;
        }
    return false;
}

static int print(const struct options *options, const struct diff_run runs[2], const struct comparison *comparison,
                 double threshold) {
    struct output output;
    struct table table = {diff_columns, comparison->rows, sizeof *comparison->rows, comparison->count};
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    bool done = true;
    if (output.format == OUTPUT_JSON)
        done = print_json(output.stream, runs, &table, threshold);
    else if (output.format == OUTPUT_CSV)
        table_print_csv(output.stream, &table);
    else
        done = print_text(&output, runs, comparison, table, option_given(options, "all"));
    code = fails(options, comparison) ? EXIT_FINDINGS : EXIT_FINE;
    return output_close(&output, done ? code : input_no_memory());
}

/* ---- the command ----------------------------------------------------------------------------- */

static int compare_runs(const struct options *options, const struct selection *selection, double threshold) {
    struct diff_run runs[2] = {0};
    struct comparison comparison = {0};
    int code = EXIT_FINE, opened = 0;
    while (code == EXIT_FINE && opened < 2) {
        code = read_run(&runs[opened], options, selection, &comparison, opened);
        opened++;
    }
    if (code == EXIT_FINE && !compare_judge(&comparison, threshold))
        code = input_no_memory();
    if (code == EXIT_FINE)
        code = print(options, runs, &comparison, threshold);
    comparison_free(&comparison);
    for (int side = 0; side < opened; side++)
        close_run(&runs[side]);
    return code;
}

static int run(const struct options *options) {
    const char *text = option_text(options, "threshold");
    char *end;
    double percent = strtod(text, &end);
    if (end == text || *end || !(percent >= 0 && percent <= 1000)) {
        fprintf(stderr, "commtap diff: --threshold takes per cent, as in 5\n");
        return EXIT_USAGE;
    }
    struct selection selection;
    int code = selection_read(&selection, options);
    if (code == EXIT_FINE)
        code = compare_runs(options, &selection, percent / 100);
    selection_free(&selection);
    return code;
}

static const struct option diff_options[] = {
    OPTION_FORMAT("text|json|csv"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    {.name = "threshold",
     .argument = "PERCENT",
     .fallback = "5",
     .doc = "least change of a mean time that is called slower or faster"},
    {.name = "fail-on",
     .argument = "WHAT",
     .choices = "slower|faster|count",
     .repeats = true,
     .doc = "exit with 1 where a row is slower, or faster, or where a number of calls differs"},
    {.name = "run-a", .argument = "ID", .doc = "of DIR_A, this one of several runs or jobs; default: the newest"},
    {.name = "run-b", .argument = "ID", .doc = "the same of DIR_B, which may be the same directory"},
    {.name = "all", .doc = "text: also what did not change"},
    OPTIONS_FILTER,
    OPTION_SKIP_FRAMES,
    OPTION_DEBUG_DIR,
    OPTION_END};

static const struct example examples[] = {
    {"commtap diff BEFORE AFTER", "what became slower from one run to another"},
    {"commtap diff --fail-on slower --threshold 10 BEFORE AFTER",
     "for scripts: exit status 1 where something takes 10 % longer"},
    {NULL, NULL},
};

const struct command command_diff = {
    .name = "diff",
    .summary = "two runs side by side: what became slower",
    .arguments = "DIR_A DIR_B",
    .details =
        "Steps, operations and call sites of B against those of A. Rows are paired by function, bytes and the\n"
        "communicator's size. Times are tested with Mann and Whitney's rank sum, corrected for all rows.\n"
        "--from, --to and --step choose a part of both runs, summed up from the calls on record there. With --comm or\n"
        "--op steps are not compared: they are of all operations.\n",
    .min_arguments = 2,
    .max_arguments = 2,
    .options = diff_options,
    .columns = diff_columns,
    .examples = examples,
    .run = run,
};
