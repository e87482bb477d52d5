/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap html: everything about a job in one file for a browser.
 * Lives here: the command's options.
 * Must not live here: the file (page/page_file.h), the data in it (page/page_data.h), how they are drawn
 * (page/browser).
 */
#include <string.h>

#include "analyzer/cli/changes.h"
#include "analyzer/cli/conclusions.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/session.h"
#include "analyzer/cli/stage_map.h"
#include "analyzer/findings/advice.h"
#include "analyzer/page/page_data.h"
#include "analyzer/page/page_file.h"
#include "analyzer/page/path_parts.h"

static int write_page(const struct options *options, const struct page_request *request) {
    struct output output;
    int code = output_open_first(&output, options, page_is_ours);
    if (code != EXIT_FINE)
        return code;
    page_begin(output.stream);
    code = page_write_data(output.stream, request) ? EXIT_FINE : input_no_memory();
    page_end(output.stream);
    if (code == EXIT_FINE)
        code = changes_check(options->team);
    return output_close(&output, code == EXIT_FINE ? session_verdict(request->session, options) : code);
}

static int conclude(struct session *session, const struct options *options, struct diagnosis *diagnosis,
                    struct diagnosis_text *told) {
    const struct advice_limits limits = advice_standard();
    int code = stage_map_take(options, session);
    if (code == EXIT_FINE)
        code = conclusions_add_advice(session, options, &limits);
    if (code == EXIT_FINE)
        code = conclusions_add_diagnosis(session, options, diagnosis, told);
    return code;
}

static int run(const struct options *options) {
    struct session session;
    struct diagnosis diagnosis = {0};
    struct diagnosis_text told = {0};
    if (page_lacks()) {
        fprintf(stderr, "commtap html: %s\n", page_lacks());
        return EXIT_USAGE;
    }
    int code = session_open_with(&session, options, &(struct session_wish){PATH_PARTS_KEPT, .steps = true});
    if (code != EXIT_FINE)
        return code;
    code = conclude(&session, options, &diagnosis, &told);
    struct redaction redaction = {0};
    if (code == EXIT_FINE && !redaction_build(&redaction, &session.set, &session.job))
        code = input_no_memory();
    if (code == EXIT_FINE)
        code = write_page(options,
                          &(struct page_request){.session = &session,
                                                 .diagnosis = &diagnosis,
                                                 .told = &told,
                                                 .title = session.set.directory,
                                                 .redaction = option_given(options, "redact") ? &redaction : NULL});
    redaction_free(&redaction);
    diagnosis_text_free(&told);
    diagnosis_free(&diagnosis);
    session_close(&session);
    return code;
}

static const struct option option_rows[] = {
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .fallback = "report.html",
     .doc = "write there; nothing takes that name before it is whole"},
    {.name = "force", .doc = "overwrite a file that is not a page of commtap's"},
    {.name = "redact",
     .doc = "take out names of hosts and users, command lines, paths, and the program's and its libraries' names, for "
            "pages that are handed on; functions, source files, ranges and communicators keep theirs"},
    OPTIONS_TIME,
    OPTION_FAIL_ON,
    OPTION_RUN,
    OPTION_THREADS,
    OPTION_SKIP_FRAMES,
    OPTION_DEBUG_DIR,
    OPTION_STAGES,
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap html DIR", "the whole report as report.html"},
    {"commtap html --redact -o job.html DIR", "to mail to somebody"},
    {"commtap html --step 100-200 -o steps.html DIR", "of a hundred steps, more closely"},
    {NULL, NULL},
};

const struct command command_html = {
    .name = "html",
    .summary = "the whole report as one file for a browser, which opens from disk without a network",
    .arguments = "DIR...",
    .details =
        "The file holds its data, its scripts and its style, and asks for nothing. Its figures are those of commtap\n"
        "report, steps, links, calls and diagnose. Single operations are held for a part of a long job only, round "
        "the\n"
        "step with the longest waits: --from, --to and --step choose another one.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .examples = examples,
    .run = run,
};
