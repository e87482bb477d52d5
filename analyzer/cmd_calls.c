/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap calls: who called which operation from where.
 * Lives here: the command's options, which form is written.
 * Must not live here: the tree (analyse/call_tree), names (symbols/), layout (render/call_tree).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/call_sites.h"
#include "analyzer/input.h"
#include "analyzer/render/call_tree.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/table.h"
#include "analyzer/session.h"

enum { COMMDEBUG_INDENT = 4 };

static enum call_weight weight_of(const struct options *options) {
    static const char *const names[] = {"time", "wait", "bytes", "count"};
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

static int print(const struct options *options, const struct call_tree *tree, const struct call_tree_context *context) {
    struct output output;
    const char *format = option_text(options, "format");
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    bool enough_memory = true;
    if (strcmp(format, "json") == 0)
        enough_memory = json_print(output.stream, call_tree_to_json(tree, context));
    else if (strcmp(format, "commdebug") == 0)
        enough_memory = write_commdebug(output.stream, call_tree_to_commdebug(tree, context->noise));
    else if (strcmp(format, "folded") == 0)
        enough_memory = call_tree_print_folded(output.stream, tree, weight_of(options));
    else
        call_tree_print_text(output.stream, tree, context, output.color);
    return output_close(&output, enough_memory ? EXIT_FINE : input_no_memory());
}

static int build(const struct options *options, const struct job *job, const struct filter *filter,
                 const struct site_waits *waits, const struct call_sites *sites) {
    struct call_tree tree;
    struct call_tree_context context = {.noise = (unsigned)(option_text(options, "noise")[0] - '0'),
                                        .waits = waits != NULL,
                                        .run_id = job->dumps[0]->run_id,
                                        .directory = options->arguments[0]};
    struct call_tree_request request = {.job = job,
                                        .symbols = sites->symbols,
                                        .skip = &sites->skip,
                                        .filter = filter,
                                        .waits = waits,
                                        .noise = context.noise};
    context.notes = symbols_notes(sites->symbols, &context.note_count);
    int code = call_tree_build(&tree, &request) ? print(options, &tree, &context) : input_no_memory();
    call_tree_free(&tree);
    return code;
}

/* `waits` is NULL where they were not asked for. */
static int show(const struct options *options, const struct job *job, const struct filter *filter,
                const struct site_waits *waits) {
    struct call_sites sites;
    int code = call_sites_open(&sites, options, job->dumps, job->count);
    if (code == EXIT_FINE)
        code = symbols_want_all(sites.symbols) && symbols_resolve(sites.symbols)
                   ? build(options, job, filter, waits, &sites)
                   : input_no_memory();
    call_sites_close(&sites);
    return code;
}

/* Waits need the collectives of all ranks matched. */
static int show_with_waits(const struct options *options, const struct filter *filter) {
    struct session session;
    int code = session_open(&session, options);
    if (code != EXIT_FINE)
        return code;
    const struct site_waits *waits = &session.analysis.waits.sites;
    code = waits->no_memory ? input_no_memory() : show(options, &session.job, filter, waits);
    session_close(&session);
    return code;
}

static int show_without_waits(const struct options *options, const struct filter *filter) {
    struct dump_set set;
    struct job job;
    int code = input_open(options->arguments[0], &set);
    if (code != EXIT_FINE)
        return code;
    int selected = job_select(&job, &set, option_text(options, "run"), NULL);
    if (selected == -1) {
        fputs("commtap: no dump of run '", stderr);
        escape_text(stderr, option_text(options, "run"));
        fputs("'\n", stderr);
    }
    code = selected == 0 ? show(options, &job, filter, NULL) : selected == -1 ? EXIT_UNUSABLE : input_no_memory();
    job_free(&job);
    dump_set_close(&set);
    return code;
}

static int run(const struct options *options) {
    struct filter filter;
    int code = options_filter(options, &filter);
    if (code != EXIT_FINE)
        return code;
    bool waits = option_given(options, "waits") || weight_of(options) == WEIGHT_WAIT;
    code = waits ? show_with_waits(options, &filter) : show_without_waits(options, &filter);
    filter_free(&filter);
    return code;
}

static const struct option option_rows[] = {
    {.name = "noise",
     .argument = "LEVEL",
     .choices = "0|1|2|3",
     .fallback = "0",
     .doc = "0 counts, 1 communicators, types and sizes, too, 2 every frame, plumbing included, 3 every record"},
    {.name = "weight",
     .argument = "WHAT",
     .choices = "time|wait|bytes|count",
     .fallback = "time",
     .doc = "what folded stacks are weighted by; time and wait in ns"},
    {.name = "waits", .doc = "add a column of the time spent waiting for later ranks"},
    OPTION_SKIP_FRAMES,
    OPTION_DEBUG_DIR,
    OPTION_FORMAT("text|json|commdebug|folded"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_RUN,
    OPTION_RANK,
    OPTION_COMM,
    OPTION_OP,
    OPTION_END,
};

const struct command command_calls = {
    .name = "calls",
    .summary = "who called which operation from where: the call tree of all ranks",
    .arguments = "DIR",
    .details =
        "Counts, bytes and times hold every call, exactly, and include those of the frames below. Frames are NVTX\n"
        "ranges, Python and native functions; functions of communication libraries, frameworks and the run time\n"
        "are left out up to --noise 1. Forward, backward and recomputation are inferred from the stacks.\n"
        "Addresses are named by the files they lie in, if these are still the same (build-id), by separate debug\n"
        "files, and by the servers that DEBUGINFOD_URLS names, if any.\n"
        "commdebug is the JSON of PyTorch's CommDebugMode, folded the input of flame graph programs.\n",
    .min_arguments = 1,
    .max_arguments = 1,
    .options = option_rows,
    .run = run,
};
