/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap steps: the job's iterations, and what filled them.
 * Lives here: the command's options, what it says about how the steps were found.
 * Must not live here: finding steps, the table.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/steps/step_waits.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/steps_table.h"
#include "analyzer/render/wrapped_text.h"
#include "analyzer/cli/session.h"
#include "analyzer/cli/stage_map.h"

/* Who imports a recording had no knobs of commtap's to turn. */
static void print_none_found(FILE *stream, const struct step_marker *marker, bool imported) {
    if (marker->pcontrol) {
        fputs("no steps found: fewer than two such marks are on record\n", stream);
    } else if (marker->anchor) {
        fputs("no steps found: fewer than two calls of ", stream);
        escape_text(stream, marker->anchor);
        fputs(" are on record\n", stream);
    } else if (imported) {
        fputs("no steps found: no operation comes back at a regular distance in these records; name what begins one\n"
              "with --anchor OP, or import a recording of a longer time\n",
              stream);
    } else {
        fputs("no steps found: no operation comes back at a regular distance in these records; name what begins one\n"
              "with --marker pcontrol or --anchor OP, or keep more records (COMMTAP_RING, COMMTAP_KEEP)\n",
              stream);
    }
}

static const struct rank_steps *reference_of(const struct steps *steps) {
    return steps->reference < steps->rank_count ? &steps->ranks[steps->reference] : NULL;
}

static double seconds_per(const struct rank_steps *rank, const struct step_period *level) {
    double span = (double)(rank->steps[rank->count - 1].end_ns - rank->steps[0].start_ns) / 1e9;
    double operations = 0;
    for (size_t i = 0; i < rank->count; i++)
        operations += rank->steps[i].operations;
    return operations > 0 ? span * (double)level->length / operations : 0;
}

static json_t *levels_to_json(const struct rank_steps *rank) {
    json_t *levels = json_array();
    for (size_t i = 0; rank && i < rank->periods.count; i++) {
        const struct step_period *level = &rank->periods.levels[i];
        json_array_append_new(levels, json_pack("{s:s, s:I, s:I, s:f, s:f, s:f}", "level",
                                                i < rank->periods.step    ? "inside"
                                                : i == rank->periods.step ? "step"
                                                                          : "above",
                                                "operations", (json_int_t)level->length, "times",
                                                (json_int_t)level->count, "regularity", level->regularity, "match",
                                                level->match, "seconds", seconds_per(rank, level)));
    }
    return levels;
}

static bool print_json(FILE *stream, const struct session *session, const struct steps *steps,
                       const struct table *table, const struct table *gpus) {
    const struct rank_steps *rank = reference_of(steps);
    return json_print(
        stream, json_pack("{s:s, s:o, s:I, s:o, s:o, s:o, s:o}", "schema", "commtap.steps/1", "run_id",
                          escape_json(session->job.dumps[0]->run_id), "steps_found", (json_int_t)steps->count, "anchor",
                          rank && rank->anchor ? escape_json(rank->anchor->name) : json_null(), "levels",
                          levels_to_json(rank), "rows", table_to_json(table), "gpus", table_to_json(gpus)));
}

/* How many steps, and what tells where they begin. */
static void say_found(FILE *stream, const struct steps *steps, const struct step_marker *marker) {
    const struct rank_steps *rank = reference_of(steps);
    fprintf(stream, "%" PRIu32 " steps", steps->count);
    if (steps->marked) {
        fputs(", each from one mark to the next", stream);
    } else if (marker->anchor) {
        fprintf(stream, ", each from one %s to the next", marker->anchor);
    } else {
        const struct step_period *step = &rank->periods.levels[rank->periods.step];
        bool alike = step->regularity >= 0.5;
        fprintf(stream, alike ? " of %zu operations, found by %s" : " of %zu operations in the median, found by %s",
                step->length, rank->anchor ? rank->anchor->name : "?");
        if (alike)
            fprintf(stream, ", which comes back at this distance %.0f %% of the time", 100 * step->regularity);
        else
            fputs(", which comes once in each", stream);
    }
}

static void print_levels(FILE *stream, const struct rank_steps *rank) {
    for (size_t i = 0; i < rank->periods.count; i++)
        if (i != rank->periods.step)
            fprintf(stream, "%s: every %zu operations, about %.3f s\n",
                    i < rank->periods.step ? "inside a step" : "above steps  ", rank->periods.levels[i].length,
                    seconds_per(rank, &rank->periods.levels[i]));
}

static bool print_found(FILE *stream, const struct steps *steps, const struct step_marker *marker) {
    char *text = NULL;
    size_t bytes;
    FILE *sentence = open_memstream(&text, &bytes);
    if (!sentence)
        return false;
    say_found(sentence, steps, marker);
    bool done = fclose(sentence) == 0;
    if (done)
        print_wrapped(stream, text, 0, 0);
    free(text);
    if (!steps->marked && !marker->anchor)
        print_levels(stream, reference_of(steps));
    fputc('\n', stream);
    return done;
}

static bool print_gpus(FILE *stream, const struct table *gpus, bool color) {
    if (gpus->count == 0)
        return true;
    fputs("\nGPUs, over the steps together\n", stream);
    return table_print_text(stream, gpus, color) && table_print_legend(stream, gpus);
}

/* What there is to show: rows of the steps, cut from `had` to those asked for, and of the GPUs. */
struct shown {
    struct table rows, gpus;
    size_t had;
};

static bool print_rows(FILE *stream, const struct shown *shown, bool color) {
    if (shown->had == 0)
        fputs("none of them is of the ranks, steps and time asked for\n", stream);
    else if (!table_print_text(stream, &shown->rows, color))
        return false;
    table_print_rest(stream, &shown->rows, shown->had);
    return shown->had == 0 || table_print_legend(stream, &shown->rows);
}

static int print(const struct options *options, const struct session *session, const struct steps *steps,
                 const struct step_marker *marker, const struct shown *shown) {
    struct output output;
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    bool done = true;
    if (output.format == OUTPUT_JSON) {
        done = print_json(output.stream, session, steps, &shown->rows, &shown->gpus);
    } else if (output.format == OUTPUT_CSV) {
        table_print_csv(output.stream, &shown->rows);
    } else if (steps->count == 0) {
        print_none_found(output.stream, marker, session->job.dumps[0]->header->pid == 0);
        done = print_gpus(output.stream, &shown->gpus, output.color);
    } else {
        done = print_found(output.stream, steps, marker) && print_rows(output.stream, shown, output.color) &&
               print_gpus(output.stream, &shown->gpus, output.color);
    }
    return output_close(&output, done ? session_verdict(session, options) : input_no_memory());
}

static int show(const struct options *options, const struct session *session, const struct column *column,
                size_t most) {
    const struct selection *selection = &session->selection;
    const char *by = option_text(options, "by");
    enum step_grouping grouping = strcmp(by, "rank") == 0   ? STEPS_BY_RANK
                                  : strcmp(by, "step") == 0 ? STEPS_BY_STEP
                                                            : STEPS_BY_BOTH;
    struct steps steps;
    struct step_row *rows = NULL;
    struct gpu_row *gpu = NULL;
    size_t count = 0, gpu_count = 0;
    const struct steps_request request = {.marker = &selection->marker,
                                          .counted = &selection->filter,
                                          .team = options->team,
                                          .threads = session_workers(options)};
    bool done = steps_find_as_asked(&steps, &session->clock, &request);
    done = done && step_waits_fill(&steps, &session->clock, &session->directory, &selection->filter, options->team,
                                   session_workers(options));
    if (done)
        rows = step_rows(&steps, &session->job, session->analysis.stage_of, &selection->filter, grouping,
                         session->start_ns, &count);
    if (rows)
        gpu = gpu_rows(&steps, &session->job, &selection->filter, grouping, session->start_ns, &gpu_count);
    done = gpu && (!column || table_sort(rows, sizeof *rows, count, column));
    struct shown shown = {.rows = {step_columns, rows, sizeof *rows, count},
                          .gpus = {gpu_columns, gpu, sizeof *gpu, gpu_count}};
    shown.had = table_cut(&shown.rows, most);
    int code = done ? print(options, session, &steps, &selection->marker, &shown) : input_no_memory();
    free(rows);
    free(gpu);
    steps_free(&steps);
    return code;
}

static int run(const struct options *options) {
    const struct column *column;
    struct session session;
    size_t most;
    int code = options_sort(options, step_columns, &column);
    if (code == EXIT_FINE)
        code = options_top(options, &most);
    if (code == EXIT_FINE)
        code = session_open(&session, options);
    if (code == EXIT_FINE) {
        code = stage_map_take(options, &session);
        if (code == EXIT_FINE)
            code = show(options, &session, column, most);
        session_close(&session);
    }
    return code;
}

static const struct option step_options[] = {
    OPTION_TOP("all"),
    OPTION_FORMAT("text|json|csv"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    {.name = "by",
     .argument = "WHAT",
     .choices = "rank|step|both",
     .fallback = "rank",
     .doc = "a row per rank (mean over its steps), per step (mean over the ranks), or per rank and step"},
    OPTION_STAGES,
    {.name = "sort", .argument = "KEY", .doc = "order of the rows by a column's JSON key, largest first"},
    OPTIONS_FILTER,
    OPTION_FAIL_ON,
    OPTION_RUN,
    OPTION_THREADS,
    OPTION_END};

static const struct example examples[] = {
    {"commtap steps DIR", "what filled the steps, rank by rank"},
    {"commtap steps --by step --sort longest_seconds DIR", "the longest steps first"},
    {"commtap steps --anchor MPI_Barrier DIR", "steps that go from one barrier to the next"},
    {"commtap steps --stages 0-3/4-11/12-15 DIR", "which stage of the pipeline each rank is in, where N is not enough"},
    {NULL, NULL},
};

const struct command command_steps = {
    .name = "steps",
    .summary = "the job's iterations: how long, and what filled them",
    .arguments = "DIR...",
    .details =
        "Steps are found from the operations alone, or go from one marker to the next. In text, times are per step.\n"
        "--from and --to: steps that begin there. --comm, --op and --sizes take nothing from how steps are found: they "
        "say "
        "which\n"
        "communication the figures are about; what a step computed is then not known.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = step_options,
    .columns = step_columns,
    .examples = examples,
    .run = run,
};
