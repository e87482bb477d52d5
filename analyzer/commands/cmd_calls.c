/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap calls: who called which operation from where.
 * Lives here: the command's options, which form is written.
 * Must not live here: the tree (profile/call_tree), names (symbols/), layout (render/call_tree).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/cli/call_sites.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/render/call_tree.h"
#include "analyzer/render/table.h"
#include "analyzer/cli/selection.h"
#include "analyzer/cli/session.h"

enum { COMMDEBUG_INDENT = 4 };

static enum call_weight weight_asked(const struct options *options) {
    static const char *const names[] = {"time", "in-flight", "wait", "bytes", "count"};
    const char *text = option_text(options, "weight");
    size_t weight = 0;
    while (weight < sizeof names / sizeof *names - 1 && strcmp(names[weight], text) != 0)
        weight++;
    return (enum call_weight)weight;
}

static bool write_commdebug(FILE *stream, json_t *json) {
    if (!json)
        return false;
    json_dumpf(json, stream, JSON_INDENT(COMMDEBUG_INDENT));
    json_decref(json);
    fputc('\n', stream);
    return true;
}

/* What the tree is made of. */
struct tree_input {
    const struct options *options;
    const struct job *job;
    const struct filter *filter;
    const struct scope *scope;
    const struct site_waits *waits; /* NULL where they were not asked for */
};

static void print_text(const struct output *output, const struct tree_input *part, const struct call_tree *tree,
                       const struct call_tree_context *context) {
    call_tree_print_text(output->stream, tree, context, output->color);
    input_say_next(output->stream, "summary --by site,op", &part->job->selected);
}

static int print(const struct tree_input *part, const struct call_tree *tree, const struct call_tree_context *context) {
    struct output output;
    const char *format = option_text(part->options, "format");
    int code = output_open(&output, part->options);
    if (code != EXIT_FINE)
        return code;
    bool enough_memory = true;
    if (strcmp(format, "json") == 0)
        enough_memory = json_print(output.stream, call_tree_to_json(tree, context));
    else if (strcmp(format, "commdebug") == 0)
        enough_memory = write_commdebug(output.stream, call_tree_to_commdebug(tree, context->noise));
    else if (strcmp(format, "folded") == 0)
        enough_memory = call_tree_print_folded(output.stream, tree, weight_asked(part->options));
    else
        print_text(&output, part, tree, context);
    return output_close(&output, enough_memory ? EXIT_FINE : input_no_memory());
}

static int build_tree(const struct tree_input *part, const struct call_sites *sites) {
    struct call_tree tree;
    size_t top = 0;
    int code = options_top(part->options, &top);
    if (code != EXIT_FINE)
        return code;
    struct call_tree_context context = {.top = top,
                                        .noise = (unsigned)(option_text(part->options, "noise")[0] - '0'),
                                        .waits = part->waits != NULL,
                                        .filtered = part->filter->rank_count > 0 ||
                                                    filter_chooses_calls(part->filter) || scope_is_limited(part->scope),
                                        .scope = part->scope,
                                        .run_id = part->job->dumps[0]->run_id};
    struct call_tree_request request = {.job = part->job,
                                        .symbols = sites->symbols,
                                        .skip = &sites->skip,
                                        .filter = part->filter,
                                        .scope = part->scope,
                                        .waits = part->waits,
                                        .noise = context.noise};
    context.notes = symbols_notes(sites->symbols, &context.note_count);
    code = call_tree_build(&tree, &request) ? print(part, &tree, &context) : input_no_memory();
    call_tree_free(&tree);
    return code;
}

static int show(const struct tree_input *part) {
    struct call_sites sites;
    int code = call_sites_open(&sites, part->options, part->job->dumps, part->job->count);
    if (code == EXIT_FINE)
        code = symbols_want_all(sites.symbols) && symbols_resolve(sites.symbols) ? build_tree(part, &sites)
                                                                                 : input_no_memory();
    call_sites_close(&sites);
    return code;
}

/* Waits need the collectives of all ranks matched. */
static int show_with_waits(const struct options *options) {
    struct session session;
    int code = session_open(&session, options);
    if (code != EXIT_FINE)
        return code;
    const struct tree_input part = {.options = options,
                                    .job = &session.job,
                                    .filter = &session.selection.filter,
                                    .scope = &session.scope,
                                    .waits = &session.analysis.waits.sites};
    code = part.waits->no_memory ? input_no_memory() : show(&part);
    session_close(&session);
    return code;
}

static int show_without_waits(const struct options *options, const struct selection *selection) {
    struct dump_set set;
    struct job job;
    struct selected_time time = {0};
    int code = input_open(options->team, options->arguments, options->argument_count, &set);
    if (code != EXIT_FINE)
        return code;
    code = selection_choose_job(&job, &set, options, NULL);
    if (code == EXIT_FINE)
        code = selected_time_find(&time, &job, selection);
    if (code == EXIT_FINE)
        code = show(&(struct tree_input){options, &job, &selection->filter, &time.scope, NULL});
    selected_time_free(&time);
    job_free(&job);
    dump_set_close(&set);
    return code;
}

static int run(const struct options *options) {
    struct selection selection;
    if (option_given(options, "waits") || weight_asked(options) == WEIGHT_WAIT)
        return show_with_waits(options);
    int code = selection_read(&selection, options);
    if (code == EXIT_FINE)
        code = show_without_waits(options, &selection);
    selection_free(&selection);
    return code;
}

static const struct option option_rows[] = {
    {.name = "noise",
     .argument = "LEVEL",
     .choices = "0|1|2|3",
     .fallback = "0",
     .doc = "0 counts, 1 types of data in all sums, communicators and sizes, too, 2 every frame, plumbing included, 3 "
            "every record"},
    {.name = "weight",
     .argument = "WHAT",
     .choices = "time|in-flight|wait|bytes|count",
     .fallback = "time",
     .doc = "what folded stacks are weighted by: time inside the calls, time that operations were in flight, waiting "
            "(all in ns), bytes, calls"},
    {.name = "waits", .doc = "add a column of the time spent waiting for later ranks"},
    {.name = "top", .argument = "N", .doc = "text: so many frames below each, those that took longest; default: all"},
    OPTION_SKIP_FRAMES,
    OPTION_DEBUG_DIR,
    OPTION_FORMAT("text|json|commdebug|folded"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_RUN,
    OPTIONS_FILTER,
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap calls DIR", "which lines of the program communicate"},
    {"commtap calls --format folded --weight wait -o waits.folded DIR", "waiting times for a flame graph"},
    {NULL, NULL},
};

const struct command command_calls = {
    .name = "calls",
    .summary = "who called which operation from where: the call tree of all ranks",
    .arguments = "DIR...",
    .details =
        "Counts, bytes and times hold every call, exactly, and include those of the frames below; of a part of the "
        "time\n"
        "(--from, --to, --step) those of the calls on record that begin there. The time of a non-blocking call is "
        "that\n"
        "inside it; how long the operation was in flight stands beside. Calls of NCCL only enqueue: where "
        "times\n"
        "on the GPU are on record they stand for the operation, else the host's do, and that is said. Frames are NVTX\n"
        "ranges, Python and native functions; functions of communication libraries, frameworks and the run time\n"
        "are left out up to --noise 1. Forward, backward and recomputation are inferred from the stacks, or told by\n"
        "the innermost range whose text has the word (forward, fwd, backward, bwd, recompute).\n"
        "Addresses are named by the files they lie in, if these are still the same (build-id), by separate debug\n"
        "files, and by the servers that DEBUGINFOD_URLS names, if any.\n"
        "commdebug is the JSON of PyTorch's CommDebugMode, folded the input of flame graph programs.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .examples = examples,
    .run = run,
};
