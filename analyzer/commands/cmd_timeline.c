/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap timeline: a trace file of the job, for Perfetto or Chrome.
 * Lives here: the command's options, what it says about what was left out.
 * Must not live here: tracks and slices (tracks/), file formats (render/).
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/align/align.h"
#include "analyzer/cli/call_sites.h"
#include "analyzer/cli/changes.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/progress.h"
#include "analyzer/cli/session.h"
#include "analyzer/render/scope_text.h"
#include "analyzer/traces/trace_events.h"
#include "analyzer/tracks/draw.h"

struct timeline_job {
    struct selection selection;
    struct dump_set set;
    struct job job;
    struct common_clock clock;
    struct match_directory directory;
    struct scope scope;
    struct call_sites sites;
};

/* MiB; 0 where --limit is no number from 1 up. */
static uint64_t limit_of(const struct options *options) {
    const char *text = option_text(options, "limit");
    char *end;
    if (!text)
        return TRACE_MIB_MOST;
    errno = 0;
    unsigned long limit = isdigit((unsigned char)text[0]) ? strtoul(text, &end, 10) : 0;
    return limit > 0 && limit < UINT32_MAX && *end == '\0' && errno == 0 ? limit : 0;
}

static void say_what_was_left_out(const struct trace_file *file, const struct track_totals *totals) {
    if (file->cut > 0)
        fprintf(stderr,
                "commtap timeline: cut at %" PRIu64 " MiB, which viewers in a browser can still take: %" PRIu64
                " of %" PRIu64 " slices and counter values from %.6f s of the job on are left out; --step, --from, "
                "--to, --rank, --op and --comm choose, --limit allows more\n",
                file->bytes_most >> 20, file->cut, file->cut + file->events, (double)file->cut_from / 1e9);
    if (totals->left_out > 0)
        fprintf(stderr,
                "commtap timeline: %" PRIu64
                " operations are left out: %d of the same kind were under way at the time\n",
                totals->left_out, TRACKS_SIDE_BY_SIDE);
}

static int draw(struct timeline_job *of, const struct options *options, FILE *stream) {
    bool chrome = strcmp(option_text(options, "format"), "chrome") == 0;
    struct progress_line line = progress_begin("reading");
    struct trace_file file = {.stream = stream,
                              .format = chrome ? &trace_chrome : &trace_perfetto,
                              .run_id = of->job.dumps[0]->run_id,
                              .bytes_most = limit_of(options) << 20};
    struct trace_events events = {
        .file = &file, .directory = &of->directory, .symbols = of->sites.symbols, .skip = &of->sites.skip};
    struct track_request request = {.clock = &of->clock,
                                    .directory = &of->directory,
                                    .scope = &of->scope,
                                    .filter = &of->selection.filter,
                                    .marker = &of->selection.marker,
                                    .sink = trace_events_sink(&events),
                                    .progress = progress_show,
                                    .progress_context = &line};
    struct track_totals totals;
    int64_t end;
    job_span(&of->job, &of->clock, &request.origin_ns, &end);
    trace_file_begin(&file);
    bool done = tracks_draw(&request, &totals);
    trace_file_end(&file);
    trace_events_free(&events);
    progress_end(&line);
    if (!done || file.no_memory || events.no_memory)
        return input_no_memory();
    say_what_was_left_out(&file, &totals);
    return EXIT_FINE;
}

static int write_file(struct timeline_job *of, const struct options *options) {
    struct output output;
    int code = output_open_first(&output, options, trace_file_is_ours);
    if (code != EXIT_FINE)
        return code;
    code = draw(of, options, output.stream);
    if (code == EXIT_FINE)
        code = changes_check(options->team);
    return output_close(&output, code);
}

static int prepare(struct timeline_job *of, const struct options *options) {
    int code = selection_choose_job(&of->job, &of->set, options, NULL);
    if (code == EXIT_FINE)
        code = call_sites_open(&of->sites, options, of->job.dumps, of->job.count);
    if (code != EXIT_FINE)
        return code;
    bool done = common_clock_build(&of->clock, of->job.dumps, of->job.count) &&
                match_directory_build(&of->directory, of->job.dumps, of->job.count) &&
                scope_build(&of->scope, &of->job, &of->clock, &of->selection.filter, &of->selection.marker) &&
                symbols_want_all(of->sites.symbols) && symbols_resolve(of->sites.symbols);
    return done ? EXIT_FINE : input_no_memory();
}

static int check(const struct options *options) {
    if (!option_given(options, "output")) {
        fputs("commtap timeline: needs -o FILE, as in -o job.pftrace\n", stderr);
        return EXIT_USAGE;
    }
    if (limit_of(options) > 0)
        return EXIT_FINE;
    fputs("commtap timeline: --limit takes MiB, a number from 1 up\n", stderr);
    return EXIT_USAGE;
}

static int run(const struct options *options) {
    struct timeline_job of = {0};
    int code = check(options);
    if (code == EXIT_FINE)
        code = selection_read(&of.selection, options);
    if (code == EXIT_FINE)
        code = input_open_arguments(options, &of.set);
    if (code != EXIT_FINE) {
        selection_free(&of.selection);
        return code;
    }
    code = prepare(&of, options);
    if (code == EXIT_FINE && scope_is_empty(&of.scope))
        scope_print(stderr, &of.scope);
    if (code == EXIT_FINE)
        code = write_file(&of, options);
    call_sites_close(&of.sites);
    scope_free(&of.scope);
    match_directory_free(&of.directory);
    common_clock_free(&of.clock);
    job_free(&of.job);
    dump_set_close(&of.set);
    selection_free(&of.selection);
    return code;
}

static const struct option option_rows[] = {
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .doc = "write there; nothing takes that name before it is whole"},
    {.name = "format",
     .argument = "FORMAT",
     .choices = "perfetto|chrome",
     .fallback = "perfetto",
     .doc = "TrackEvent protobuf (.pftrace) or the JSON of chrome://tracing; ui.perfetto.dev opens both"},
    {.name = "force", .doc = "overwrite a file that is not a trace of commtap's"},
    {.name = "limit",
     .argument = "MIB",
     .doc = "cut the file there, and say so; default: 511, which a browser can take"},
    OPTION_RUN,
    OPTIONS_FILTER,
    OPTION_SKIP_FRAMES,
    OPTION_DEBUG_DIR,
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap timeline -o job.pftrace DIR", "for ui.perfetto.dev"},
    {"commtap timeline --step 10-12 --rank 0-15 -o steps.pftrace DIR", "three steps of 16 ranks"},
    {"commtap timeline --format chrome -o job.json DIR", "for chrome://tracing"},
    {NULL, NULL},
};

const struct command command_timeline = {
    .name = "timeline",
    .company = COMPANY_LENDERS,
    .summary = "a trace file for ui.perfetto.dev or chrome://tracing",
    .arguments = "DIR...",
    .details =
        "Every record is a slice: of its thread, of a GPU and communicator, or of the operations in flight (what\n"
        "overlaps goes to further tracks). Inside lie the waiting for others, with the rank waited for, and the\n"
        "transferring behind it, where matching knows them; waits below the clocks' error are not drawn. A flow leads\n"
        "through a collective's members in the order in which they came, and from a send to the end of its receive.\n"
        "Beside the tracks: steps, and the bandwidth of each operation (bytes by the time behind the wait; of one in\n"
        "flight, by all of its time). Arguments are the columns of commtap export, and the call stack, innermost\n"
        "first. Times count from the job's beginning, on one clock for all hosts.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .examples = examples,
    .run = run,
};
