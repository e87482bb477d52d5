/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap diff: runs of two sides beside each other, for people and for CI.
 * Lives here: the command's options, columns, exit code.
 * Must not live here: pairing and testing (profile/compare).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/align/align.h"
#include "analyzer/profile/compare.h"
#include "analyzer/job/job.h"
#include "analyzer/cli/call_sites.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/output.h"
#include "analyzer/dumps/process.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/scope_text.h"
#include "analyzer/render/summary_table.h"
#include "analyzer/render/wrapped_text.h"
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
    const char *directory;
};

enum { NOTE = 512, NOTES_MOST = 2 };

/* All runs, side by side. */
struct diff {
    struct diff_run *runs[2];
    size_t count[2];
    char notes[NOTES_MOST][NOTE]; /* in what the sides are not alike */
    size_t note_count;
    struct comparison comparison;
    struct compared_limits limits;
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
    if (filter_chooses_calls(filter))
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
                    struct comparison *comparison, struct compared_place place) {
    const struct filter *filter = &selection->filter;
    const char *wanted = place.run > 0 ? NULL : option_text(options, place.side ? "run-b" : "run-a");
    int code = selection_choose_run(&run->job, &run->set, wanted, process_is_alive);
    if (code != EXIT_FINE)
        return code;
    code = call_sites_open(&run->symbols, options, run->job.dumps, run->job.count);
    if (code != EXIT_FINE)
        return code;
    bool done = common_clock_build(&run->clock, run->job.dumps, run->job.count) &&
                scope_build(&run->scope, &run->job, &run->clock, filter, &selection->marker) &&
                find_run_steps(run, selection) && sum_up_run(run, filter, &run->operations, SUMMARY_BY_DEFAULT, NULL) &&
                build_sites(run, filter);
    done = done && compare_add_steps(comparison, place, &run->steps) &&
           compare_add_summary(comparison, place, &run->operations, run->job.count) &&
           compare_add_summary(comparison, place, &run->sites, run->job.count);
    return done ? EXIT_FINE : input_no_memory();
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

/* ---- whether runs are alike ------------------------------------------------------------------- */

/* The program of a run: the file that the outermost frame of a stack lies in. NULL where there are no stacks. */
static const struct dump_module *program_of(const struct diff_run *run) {
    for (size_t d = 0; d < run->job.count; d++) {
        const struct dump *dump = run->job.dumps[d];
        for (size_t s = 0; s < dump->stack_count; s++) {
            const struct dump_stack *stack = &dump->stacks[s];
            uint32_t native = 0;
            while (native < stack->depth && (stack->entries[native] & STACK_ENTRY_KIND) == STACK_ENTRY_NATIVE &&
                   stack->entries[native] != STACK_ENTRY_CUT)
                native++;
            const struct dump_module *module = native == stack->depth && native > 0
                                                   ? dump_module_at(dump, stack, stack->entries[native - 1] - 1)
                                                   : NULL;
            if (module)
                return module;
        }
    }
    return NULL;
}

/* Where either is not known they may be. */
static bool same_program(const struct diff_run *one, const struct diff_run *other) {
    const struct dump_module *a = program_of(one), *b = program_of(other);
    if (!a || !b || a->build_id_bytes == 0 || b->build_id_bytes == 0)
        return true;
    return a->build_id_bytes == b->build_id_bytes && memcmp(a->build_id, b->build_id, a->build_id_bytes) == 0;
}

/* What runs of one side differ by is chance only where they do the same. */
static int check_side(const struct diff *diff, int side) {
    const struct diff_run *first = &diff->runs[side][0];
    for (size_t r = 1; r < diff->count[side]; r++) {
        const struct diff_run *run = &diff->runs[side][r];
        const char *what = run->job.count != first->job.count ? "number of ranks"
                           : !same_program(first, run)        ? "program, or build of it,"
                                                              : NULL;
        if (!what)
            continue;
        fprintf(stderr, "commtap diff: %s: another %s than in %s: these are no runs of one side\n", run->directory,
                what, first->directory);
        return EXIT_UNUSABLE;
    }
    return EXIT_FINE;
}

/* Between the sides it is said. */
static void note_unlike_sides(struct diff *diff) {
    const struct diff_run *a = &diff->runs[0][0], *b = &diff->runs[1][0];
    if (a->job.count != b->job.count)
        snprintf(diff->notes[diff->note_count++], NOTE,
                 "A has %zu ranks, B %zu: rows of communicators of different sizes are not compared, and times of the "
                 "others are of other shares of the work",
                 a->job.count, b->job.count);
    if (!same_program(a, b))
        snprintf(diff->notes[diff->note_count++], NOTE,
                 "the sides ran different programs, or different builds of one (by build-id)");
}

/* ---- columns --------------------------------------------------------------------------------- */

static const char *const kind_names[] = {
    [COMPARED_STEP] = "step", [COMPARED_OPERATION] = "operation", [COMPARED_SITE] = "site"};
static const char *const verdict_names[] = {
    [COMPARED_SAME] = "same",        [COMPARED_SLOWER] = "slower",    [COMPARED_FASTER] = "faster",
    [COMPARED_ONLY_A] = "only in A", [COMPARED_ONLY_B] = "only in B", [COMPARED_MOVED] = "unknown"};

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
VALUE(run_spread, isnan(ROW->run_spread) ? cell_unknown() : cell_real(ROW->run_spread))
VALUE(confidence, BOTH && !isnan(ROW->run_spread) ? cell_real(ROW->test.confidence) : cell_unknown())

/* clang-format off */
static const struct column diff_columns[] = {
    {"kind", "what", .left = true, .value = kind, .doc = "step, operation or call site"},
    {"verdict", "verdict", .left = true, .value = verdict, .doc = "slower and faster: chance is ruled out, and the mean moved by --threshold; unknown: it moved, but what runs differ by is not known"},
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
    {"run_spread", "run to run", LOOK_PERCENT, .value = run_spread, .doc = "standard deviation of the mean time from run to run, or what --run-noise says", .legend = "by how much the mean time of runs differs"},
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

/* The further runs of a side. */
static json_t *further_to_json(const struct diff *diff, int side) {
    json_t *array = json_array();
    for (size_t r = 1; r < diff->count[side]; r++)
        json_array_append_new(array, run_to_json(&diff->runs[side][r]));
    return array;
}

static bool print_json(FILE *stream, const struct diff *diff, const struct table *table) {
    json_t *notes = json_array();
    for (size_t i = 0; i < diff->note_count; i++)
        json_array_append_new(notes, json_string(diff->notes[i]));
    return json_print(stream, json_pack("{s:s, s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o}", "schema", "commtap.diff/1",
                                        "a", run_to_json(&diff->runs[0][0]), "b", run_to_json(&diff->runs[1][0]),
                                        "further_a", further_to_json(diff, 0), "further_b", further_to_json(diff, 1),
                                        "threshold", diff->limits.threshold, "run_noise",
                                        diff->limits.run_noise >= 0 ? json_real(diff->limits.run_noise) : json_null(),
                                        "notes", notes, "rows", table_to_json(table)));
}

static void print_windows(FILE *stream, const struct diff *diff) {
    for (int side = 0; side < 2 && diff->runs[side][0].scope.limited; side++) {
        fprintf(stream, "%c: ", "AB"[side]);
        scope_print(stream, &diff->runs[side][0].scope);
    }
}

static bool has_known_noise(const struct diff *diff) {
    return diff->limits.run_noise >= 0 || diff->count[0] + diff->count[1] > 2;
}

/* What the rows amount to. */
static void print_verdict(FILE *stream, const struct diff *diff) {
    const struct comparison *comparison = &diff->comparison;
    size_t alone = count_rows(comparison, COMPARED_ONLY_A) + count_rows(comparison, COMPARED_ONLY_B);
    for (size_t i = 0; i < diff->note_count; i++)
        print_wrapped(stream, diff->notes[i], 0, 0);
    if (has_known_noise(diff))
        fprintf(stream, "%zu slower, %zu faster", count_rows(comparison, COMPARED_SLOWER),
                count_rows(comparison, COMPARED_FASTER));
    else {
        print_wrapped(stream,
                      "one run of each side does not tell what runs differ by: give more (--baseline, --again), or say "
                      "it (--run-noise); until then nothing is called slower or faster",
                      0, 0);
        fprintf(stream, "%zu moved", count_rows(comparison, COMPARED_MOVED));
    }
    fprintf(stream, ", %zu on one side only, of %zu compared\n\n", alone, comparison->count);
}

/* Rows that changed; where none did, that is said. */
static bool print_text(const struct output *output, const struct diff *diff, struct table table, bool all) {
    const struct comparison *comparison = &diff->comparison;
    print_windows(output->stream, diff);
    if (comparison->count == 0) {
        fputs("nothing on record in either run passes the filters\n", output->stream);
        return true;
    }
    print_verdict(output->stream, diff);
    struct compared_row *shown = calloc(comparison->count ? comparison->count : 1, sizeof *shown);
    if (!shown)
        return false;
    table.rows = shown;
    table.count = 0;
    for (size_t i = 0; i < comparison->count; i++)
        if (all || comparison->rows[i].kind == COMPARED_STEP || comparison->rows[i].verdict != COMPARED_SAME)
            shown[table.count++] = comparison->rows[i];
    size_t had = table_cut(&table, output->top);
    bool done = table.count == 0 ||
                (table_print_text(output->stream, &table, output->color) && table_print_legend(output->stream, &table));
    table_print_rest(output->stream, &table, had);
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

static int print(const struct options *options, const struct diff *diff) {
    struct output output;
    const struct comparison *comparison = &diff->comparison;
    struct table table = {diff_columns, comparison->rows, sizeof *comparison->rows, comparison->count};
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    bool done = true;
    if (output.format == OUTPUT_JSON)
        done = print_json(output.stream, diff, &table);
    else if (output.format == OUTPUT_CSV)
        table_print_csv(output.stream, &table);
    else
        done = print_text(&output, diff, table, option_given(options, "all"));
    code = fails(options, comparison) ? EXIT_FINDINGS : EXIT_FINE;
    return output_close(&output, done ? code : input_no_memory());
}

/* ---- the command ----------------------------------------------------------------------------- */

static const char *const further[] = {"baseline", "again"}; /* options that name further runs of a side */

static size_t count_given(const struct options *options, const char *name) {
    size_t count = 0, position = 0;
    while (option_next(options, name, &position))
        count++;
    return count;
}

/* Opens the runs of a side one after the other; those that were opened are counted. */
static int read_side(struct diff *diff, const struct options *options, const struct selection *selection, int side) {
    size_t runs = 1 + count_given(options, further[side]), position = 0;
    diff->runs[side] = calloc(runs, sizeof *diff->runs[side]);
    if (!diff->runs[side])
        return input_no_memory();
    int code = EXIT_FINE;
    while (code == EXIT_FINE && diff->count[side] < runs) {
        size_t number = diff->count[side]++;
        struct diff_run *run = &diff->runs[side][number];
        run->directory = number == 0 ? options->arguments[side] : option_next(options, further[side], &position);
        code = input_open(options->team, (char *[]){(char *)run->directory}, 1, &run->set);
        if (code == EXIT_FINE)
            code = read_job(run, options, selection, &diff->comparison, (struct compared_place){side, number});
    }
    return code == EXIT_FINE ? check_side(diff, side) : code;
}

static void close_diff(struct diff *diff) {
    comparison_free(&diff->comparison);
    for (int side = 0; side < 2; side++) {
        for (size_t r = 0; r < diff->count[side]; r++)
            close_run(&diff->runs[side][r]);
        free(diff->runs[side]);
    }
}

static int compare_runs(const struct options *options, const struct selection *selection,
                        const struct compared_limits *limits) {
    struct diff diff = {.limits = *limits};
    int code = read_side(&diff, options, selection, 0);
    if (code == EXIT_FINE)
        code = read_side(&diff, options, selection, 1);
    if (code == EXIT_FINE) {
        note_unlike_sides(&diff);
        diff.limits.runs[0] = diff.count[0];
        diff.limits.runs[1] = diff.count[1];
        code = compare_judge(&diff.comparison, &diff.limits) ? print(options, &diff) : input_no_memory();
    }
    close_diff(&diff);
    return code;
}

/* A share from per cent. Returns false after a message. */
static bool read_percent(const struct options *options, const char *name, double *share) {
    const char *text = option_text(options, name);
    if (!text)
        return true;
    char *end;
    double percent = strtod(text, &end);
    if (end == text || *end || !(percent >= 0 && percent <= 1000)) {
        fprintf(stderr, "commtap diff: --%s takes per cent, as in 5\n", name);
        return false;
    }
    *share = percent / 100;
    return true;
}

/* A script that waits for a verdict should hear that there can be none. */
static bool can_fail_on(const struct options *options, double run_noise) {
    bool times = false;
    size_t position = 0;
    for (const char *what; (what = option_next(options, "fail-on", &position));)
        times |= strcmp(what, "count") != 0;
    if (!times || run_noise >= 0 || count_given(options, further[0]) + count_given(options, further[1]) > 0)
        return true;
    fprintf(stderr,
            "commtap diff: --fail-on slower and faster need to know what runs differ by: give more than one of a "
            "side (--baseline DIR, --again DIR), or say it (--run-noise PERCENT)\n");
    return false;
}

static int run(const struct options *options) {
    struct compared_limits limits = {.run_noise = -1};
    if (!read_percent(options, "threshold", &limits.threshold) ||
        !read_percent(options, "run-noise", &limits.run_noise) || !can_fail_on(options, limits.run_noise))
        return EXIT_USAGE;
    size_t top;
    if (options_top(options, &top) != EXIT_FINE)
        return EXIT_USAGE;
    struct selection selection;
    int code = selection_read(&selection, options);
    if (code == EXIT_FINE)
        code = compare_runs(options, &selection, &limits);
    selection_free(&selection);
    return code;
}

static const struct option diff_options[] = {
    OPTION_TOP("all"),
    OPTION_FORMAT("text|json|csv"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    {.name = "threshold",
     .argument = "PERCENT",
     .fallback = "5",
     .doc = "least change of a mean time that is called slower or faster"},
    {.name = "baseline",
     .argument = "DIR",
     .repeats = true,
     .doc = "one more run of A: of the same program, on as many ranks"},
    {.name = "again", .argument = "DIR", .repeats = true, .doc = "one more run of B"},
    {.name = "run-noise",
     .argument = "PERCENT",
     .doc =
         "by how much the mean times of runs differ (standard deviation), where one run of each side is all there is"},
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
    {"commtap diff BEFORE AFTER", "what moved from one run to another"},
    {"commtap diff --baseline BEFORE2 --baseline BEFORE3 --again AFTER2 --again AFTER3 BEFORE AFTER",
     "what became slower, three runs of each side"},
    {"commtap diff --fail-on slower --threshold 10 --run-noise 3 BEFORE AFTER",
     "for scripts: exit status 1 where something takes 10 % longer, on a machine where runs differ by 3 %"},
    {NULL, NULL},
};

const struct command command_diff = {
    .name = "diff",
    .summary = "runs side by side: what became slower",
    .arguments = "DIR_A DIR_B",
    .details =
        "Steps, operations and call sites of B against those of A. Rows are paired by function, bytes and the\n"
        "communicator's size. Two tests have to agree: Mann and Whitney's rank sum of the calls' times, and Student's "
        "t\n"
        "of the runs' mean times, for runs of one program differ by more than their calls tell. With one run of each\n"
        "side nothing is called slower or faster, unless --run-noise says what runs differ by. All rows are corrected\n"
        "for each other. Runs of one side must be of one program on as many ranks; what the sides differ in is said.\n"
        "--from, --to and --step choose a part of both runs, summed up from the calls on record there. With --comm,\n"
        "--op or --sizes steps are not compared: they are of all operations.\n",
    .min_arguments = 2,
    .max_arguments = 2,
    .options = diff_options,
    .columns = diff_columns,
    .examples = examples,
    .run = run,
};
