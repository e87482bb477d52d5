/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap diagnose: why the job hangs.
 * Lives here: the command's options, looking twice where processes may live.
 * Must not live here: judging (diagnose/), sentences, looks.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/text.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/session.h"
#include "analyzer/cli/watch.h"
#include "analyzer/findings/findings.h"
#include "analyzer/render/diagnosis.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/table.h"

static int refuse_value(const char *what, const char *value) {
    fprintf(stderr, "commtap diagnose: %s, not '%.64s'\n", what, value);
    return EXIT_USAGE;
}

static int check_options(const struct options *options, double *wait) {
    size_t top;
    static const char *const severities[] = {"info", "warning", "error"};
    size_t position = 0;
    const char *what, *seconds = option_text(options, "wait");
    while ((what = option_next(options, "fail-on", &position)) != NULL) {
        bool known = false;
        for (size_t i = 0; i < sizeof severities / sizeof *severities; i++)
            known |= strcmp(what, severities[i]) == 0;
        for (int v = VERDICT_OK; v <= VERDICT_UNKNOWN; v++)
            known |= strcmp(what, verdict_name((enum verdict)v)) == 0;
        if (!known)
            return refuse_value("--fail-on takes info, warning, error or a verdict", what);
    }
    if (!text_seconds(seconds, 1, 3600, wait))
        return refuse_value("--wait takes seconds from 1 to 3600", seconds);
    return options_top(options, &top);
}

/* EXIT_FINDINGS where --fail-on names the verdict, or a severity that it reaches. */
static int exit_code(const struct options *options, const struct diagnosis *diagnosis) {
    enum verdict verdict = diagnosis->verdict;
    const char *what, *severity = severity_name(diagnosis_severity(diagnosis));
    size_t position = 0;
    while ((what = option_next(options, "fail-on", &position)) != NULL)
        if (strcmp(what, verdict_name(verdict)) == 0 || strcmp(what, severity) == 0 ||
            (verdict != VERDICT_OK && strcmp(what, "info") == 0) ||
            (strcmp(severity, "error") == 0 && strcmp(what, "warning") == 0))
            return EXIT_FINDINGS;
    return EXIT_FINE;
}

static void print_next(FILE *stream, const struct diagnosis *diagnosis, const struct dump_set *set) {
    for (size_t i = 0; i < diagnosis->culprit_count; i++) {
        const struct party *party = &diagnosis->world.parties[diagnosis->culprits[i].party];
        if (party->process != PROCESS_RUNS)
            continue;
        fprintf(stream, "\nnext: look at rank %d where it is: gdb -p %lld (py-spy dump --pid for Python) on ",
                party->rank, (long long)party->dump->header->pid);
        escape_text(stream, party->dump->host);
        fputc('\n', stream);
        return;
    }
    fputc('\n', stream);
    input_say_next(stream, "report", set);
}

/* Which of several jobs was judged: another one may be what hangs. */
static void say_choice(const struct options *options, const struct watch *watch) {
    struct findings choice = {0};
    if (option_text(options, "run"))
        return;
    findings_add_choice(&choice, &watch->set, &watch->job);
    for (size_t i = 0; i < choice.count; i++) {
        fputs("commtap diagnose: ", stderr);
        escape_text(stderr, choice.items[i].text);
        fputc('\n', stderr);
    }
    findings_free(&choice);
}

static int print(const struct options *options, const struct filter *filter, struct watch *watch) {
    struct output output;
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    bool done = true;
    if (output.format == OUTPUT_JSON) {
        done = json_print(output.stream,
                          diagnosis_to_json(&watch->diagnosis, &watch->text, &watch->job, watch->looks, filter));
    } else {
        diagnosis_print(output.stream, &watch->diagnosis, &watch->text, output.color);
        diagnosis_print_waits(output.stream, &watch->diagnosis, filter, output.top);
        print_next(output.stream, &watch->diagnosis, &watch->set);
    }
    return output_close(&output, done ? exit_code(options, &watch->diagnosis) : input_no_memory());
}

static int run(const struct options *options) {
    struct watch watch;
    struct filter filter;
    double wait;
    int code = check_options(options, &wait);
    if (code == EXIT_FINE)
        code = options_filter(options, &filter);
    if (code != EXIT_FINE)
        return code;
    code = watch_open(&watch, options, wait);
    if (code == EXIT_FINE) {
        code = print(options, &filter, &watch);
        say_choice(options, &watch);
    }
    watch_close(&watch);
    filter_free(&filter);
    return code;
}

/* clang-format off */
static const struct option diagnose_options[] = {
    OPTION_FORMAT("text|json"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    {.name = "fail-on", .argument = "WHAT", .repeats = true,
     .doc = "exit with 1 on a verdict (hang, desync, deadlock, dead_rank, unknown, ok) or a severity (info, warning, error)"},
    {.name = "wait", .argument = "SECONDS", .fallback = "1", .doc = "time between the two looks at a job that may live"},
    {.name = "top", .argument = "N", .doc = "text: so many waits of those asked for by the options below; default: all"},
    OPTION_RUN,
    OPTION_RANK,
    OPTION_COMM,
    OPTION_OP,
    OPTION_SIZES,
    OPTION_SKIP_FRAMES,
    OPTION_DEBUG_DIR,
    OPTION_END};
/* clang-format on */

static const struct example examples[] = {
    {"commtap diagnose DIR", "what a job hangs on, while it hangs or after it was killed"},
    {"commtap diagnose --rank 3 DIR", "also what rank 3 waits in"},
    {NULL, NULL},
};

const struct command command_diagnose = {
    .name = "diagnose",
    .summary = "why the job hangs: who waits for whom, who is missing, deadlocks, mismatched collectives",
    .arguments = "DIR...",
    .details =
        "Of a job that lives it looks twice, a second apart: if anything moved in between, it does not hang, but for\n"
        "ranks that stood still and wait for each other in a circle.\n"
        "A job that was killed keeps the verdict it had while it hung; where its waits were no older than usual, it is "
        "ok\n"
        "when its end is known (commtap run notes it), else the hang is a warning. What only a living process shows is "
        "lost:\n"
        "that it is stopped by a signal, or polls (MPI_Test, MPI_Iprobe) in vain; it is then elsewhere.\n"
        "The verdict is about the whole job at one moment: --rank, --comm, --op and --sizes change nothing in it; they "
        "add "
        "what\n"
        "those wait in.\n"
        "A job whose processes are all stopped by a signal is suspended, and ok unless ranks wait in a circle or "
        "disagree.\n"
        "It judges one job, the newest where several lie there, and says on stderr that there are others.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = diagnose_options,
    .examples = examples,
    .run = run,
};
