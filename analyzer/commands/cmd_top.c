/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap top: what every rank of a running job does now.
 * Lives here: the command's options, looking at intervals, fetching what runs on other hosts meanwhile.
 * Must not live here: rates (live/), frames (screen/live_screen.h), sentences.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/base/text.h"
#include "analyzer/cli/input.h"
#include "analyzer/screen/live_screen.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/session.h"
#include "analyzer/screen/terminal.h"
#include "analyzer/cli/watch.h"
#include "analyzer/collect/scratch.h"
#include "analyzer/dumps/process.h"
#include "analyzer/render/diagnosis.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/wrapped_text.h"

enum { HOSTS_AT_ONCE = 16, PATIENCE_MS = 30000 /* as in commtap ctl --timeout */ };
#define FETCH_AGAIN_NS INT64_C(5000000000) /* dumps are fetched whole, a few megabytes each */

struct top {
    const struct options *options;
    double interval; /* seconds */
    struct live_job live;
    struct live_view view;
    struct filter filter;
    char **places; /* the directories, and where copies lie */

    /* other hosts */
    const char *ssh; /* NULL: they are not asked */
    struct scratch scratch;
    struct dump_stub *stubs; /* being fetched; owned */
    size_t stub_count;
    pthread_t fetcher;
    bool fetching;
    atomic_bool fetched;
    int64_t fetched_ns;
};

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- other hosts ----------------------------------------------------------------------------- */

static bool is_used(const void *context, const struct dump *dump) {
    return scratch_is_used(context, dump->path);
}

/* Which stubs there are is found with the dumps; those that are fetched now stay as they are. */
static void take_stubs(struct top *top) {
    for (size_t i = 0; i < top->stub_count; i++)
        free(top->stubs[i].path);
    free(top->stubs);
    top->stub_count = 0;
    top->stubs = calloc(top->live.set.stub_count + 1, sizeof *top->stubs);
    for (size_t i = 0; top->stubs && i < top->live.set.stub_count; i++)
        if ((top->stubs[top->stub_count].path = strdup(top->live.set.stubs[i].path)) != NULL)
            top->stub_count++;
}

static void *fetch(void *argument) {
    struct top *top = argument;
    const struct collect_request request = {
        .ssh = top->ssh, .at_once = HOSTS_AT_ONCE, .patience_ms = PATIENCE_MS, .boot_id = top->live.boot_id};
    scratch_fetch(&top->scratch, top->stubs, top->stub_count, &request);
    atomic_store(&top->fetched, true);
    return NULL;
}

/* What was fetched is opened with all else at the next look. */
static void end_fetch(struct top *top) {
    top->live.elsewhere_realtime_ns = clock_ns(CLOCK_REALTIME);
    top->fetched_ns = clock_ns(CLOCK_MONOTONIC);
    live_job_reopen(&top->live);
}

static void fetch_and_wait(struct top *top) {
    if (!top->ssh)
        return;
    take_stubs(top);
    fetch(top);
    end_fetch(top);
}

/* While the screen goes on: a host that does not answer takes its time. */
static void fetch_meanwhile(struct top *top) {
    if (top->fetching && atomic_load(&top->fetched)) {
        pthread_join(top->fetcher, NULL);
        top->fetching = false;
        end_fetch(top);
    }
    if (!top->ssh || top->fetching || top->live.set.stub_count == 0 ||
        clock_ns(CLOCK_MONOTONIC) - top->fetched_ns < FETCH_AGAIN_NS)
        return;
    take_stubs(top);
    atomic_store(&top->fetched, false);
    top->fetching = pthread_create(&top->fetcher, NULL, fetch, top) == 0;
}

/* ---- options --------------------------------------------------------------------------------- */

static int refuse(const char *what, const char *value) {
    fprintf(stderr, "commtap top: %s, not '%.64s'\n", what, value);
    return EXIT_USAGE;
}

static int read_options(struct top *top) {
    const char *seconds = option_text(top->options, "interval");
    if (!text_seconds(seconds, 0.1, 3600, &top->interval))
        return refuse("--interval takes seconds from 0.1 to 3600", seconds);
    top->view.filter = &top->filter;
    top->ssh = option_text(top->options, "ssh");
    int code = options_sort(top->options, live_columns, &top->view.sort);
    return code == EXIT_FINE ? options_filter(top->options, &top->filter) : code;
}

/* ---- once ------------------------------------------------------------------------------------ */

/* What was fetched is gone once this has been read: then the screen itself is what looks closer. */
static void print_next(FILE *stream, const struct top *top) {
    fputs(top->ssh ? "\nnext: press d in commtap top --ssh " : "\nnext: commtap diagnose", stream);
    if (top->ssh)
        escape_shell(stream, top->ssh);
    for (size_t i = 0; i < top->options->argument_count; i++) {
        fputc(' ', stream);
        escape_shell(stream, top->options->arguments[i]);
    }
    fputc('\n', stream);
}

static bool print_text(const struct output *output, const struct top *top, const struct live_table *rows) {
    struct live_text words;
    struct table table = live_table_table(rows);
    const struct live_job *live = &top->live;
    live_text_make(&words, &live->summary, &live->rows, &live->job);
    print_wrapped(output->stream, words.job, 0, 0);
    print_wrapped(output->stream, words.state, 0, 0);
    if (words.verdict[0])
        print_wrapped(output->stream, words.verdict, 0, 0);
    if (words.awaited[0])
        print_wrapped(output->stream, words.awaited, 0, 0);
    fputc('\n', output->stream);
    if (!table_print_text(output->stream, &table, output->color))
        return false;
    if (live->stub_count > 0)
        fprintf(output->stream, "\n%zu dump%s on other hosts%s\n", live->stub_count,
                live->stub_count == 1 ? " lies" : "s lie",
                top->ssh ? ", which --ssh has not brought" : ": --ssh ssh reads them there");
    if (words.alarm)
        print_next(output->stream, top);
    return true;
}

static int print(const struct top *top) {
    struct live_table rows;
    struct output output;
    int code = output_open(&output, top->options);
    if (code != EXIT_FINE)
        return code;
    bool done = live_view_table(&rows, &top->view, &top->live.rows), nobody = done && rows.count == 0;
    if (done && output.format == OUTPUT_JSON)
        done = json_print(output.stream, live_to_json(&rows, &top->live.summary, &top->live.rows, &top->live.job));
    else if (done)
        done = print_text(&output, top, &rows);
    live_table_free(&rows);
    if (nobody)
        fputs("commtap top: no process has one of these ranks\n", stderr);
    return output_close(&output, !done ? input_no_memory() : nobody ? EXIT_UNUSABLE : EXIT_FINE);
}

static void rest(double seconds) {
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* Rates take two looks; a job that is over has none. */
static int look_once(struct top *top) {
    fetch_and_wait(top);
    int code = live_job_look(&top->live);
    if (code == EXIT_FINE && top->live.summary.alive > 0) {
        rest(top->interval);
        fetch_and_wait(top);
        code = live_job_look(&top->live);
    }
    return code == EXIT_FINE ? print(top) : code;
}

/* ---- on a terminal --------------------------------------------------------------------------- */

/* The same as commtap diagnose prints, as text; NULL when memory is short. */
static char *diagnose_text(struct top *top) {
    struct options options = *top->options;
    struct watch watch;
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return NULL;
    options.arguments = top->places;
    options.argument_count = top->live.place_count;
    if (watch_open(&watch, &options, 1) == EXIT_FINE)
        diagnosis_print(stream, &watch.diagnosis, &watch.text, false);
    else
        fputs("the job cannot be judged now\n", stream);
    watch_close(&watch);
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

static bool show_diagnosis(struct top *top, struct live_screen *screen) {
    live_screen_show(screen, PAGE_DIAGNOSIS, strdup("looking twice, a second apart ...\n"));
    bool done = live_screen_draw(screen, &top->live);
    live_screen_show(screen, PAGE_DIAGNOSIS, diagnose_text(top));
    return done;
}

static int wait_ms(int64_t until_ns) {
    int64_t left = until_ns - clock_ns(CLOCK_MONOTONIC);
    return left > 0 ? (int)(left / 1000000) + 1 : 0;
}

/* Draws, and takes keys, until it is time for the next look. False: to end. */
static bool take_keys(struct top *top, struct live_screen *screen, int64_t until_ns, int *code) {
    for (;;) {
        if (!live_screen_draw(screen, &top->live)) {
            *code = input_no_memory();
            return false;
        }
        int left = wait_ms(until_ns), key = terminal_key(left);
        if (terminal_signal() || key == KEY_LOST)
            return false;
        if (key == KEY_NONE && wait_ms(until_ns) == 0)
            return true;
        enum live_action action = key == KEY_NONE ? ACTION_DRAW : live_screen_key(screen, key);
        if (action == ACTION_QUIT)
            return false;
        if (action == ACTION_LOOK)
            return true;
        if (action == ACTION_DIAGNOSE && !show_diagnosis(top, screen)) {
            *code = input_no_memory();
            return false;
        }
    }
}

static int watch_screen(struct top *top, bool color) {
    struct live_screen screen = {.view = top->view, .color = color};
    int code = EXIT_FINE;
    for (bool on = true; on && code == EXIT_FINE;) {
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        fetch_meanwhile(top);
        code = live_job_look(&top->live);
        on = code == EXIT_FINE && take_keys(top, &screen, now + (int64_t)(top->interval * 1e9), &code);
    }
    live_screen_free(&screen);
    return code;
}

static bool wants_color(const struct options *options) {
    const char *when = option_text(options, "color");
    return strcmp(when, "always") == 0 || (strcmp(when, "auto") == 0 && !getenv("NO_COLOR"));
}

static int look_on_terminal(struct top *top) {
    if (!terminal_open()) {
        fprintf(stderr, "commtap top: the terminal: %s (--once needs none)\n", strerror(errno));
        return EXIT_UNUSABLE;
    }
    int code = watch_screen(top, wants_color(top->options));
    terminal_close();
    if (code == EXIT_UNUSABLE)
        fputs("commtap top: the job's dumps are gone\n", stderr);
    return code;
}

/* ---- before the job ---------------------------------------------------------------------------- */

static bool nothing_is_there(const struct options *options) {
    struct dump_set set;
    enum dump_set_result result = dump_set_open_all(options->arguments, options->argument_count, &set);
    bool nothing = result == DUMP_SET_EMPTY || (result == DUMP_SET_NO_DIRECTORY && errno == ENOENT);
    if (result == DUMP_SET_OK)
        dump_set_close(&set);
    return nothing;
}

/* Whoever watches a job starts that before it has come to MPI_Init. */
static void wait_for_dumps(const struct top *top) {
    for (bool first = true; nothing_is_there(top->options); first = false) {
        if (first)
            fputs("commtap top: no dumps are there yet: waiting for a job that writes some (Ctrl-C ends)\n", stderr);
        rest(top->interval);
    }
}

/* ---- together -------------------------------------------------------------------------------- */

static bool is_once(const struct options *options) {
    return option_given(options, "once") || option_given(options, "output") ||
           strcmp(option_text(options, "format"), "text") != 0 || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO);
}

static bool prepare_places(struct top *top) {
    size_t count = top->options->argument_count;
    top->places = calloc(count + 2, sizeof *top->places);
    if (!top->places)
        return false;
    memcpy(top->places, top->options->arguments, count * sizeof *top->places);
    if (top->ssh && scratch_open(&top->scratch))
        top->places[count++] = top->scratch.path;
    else
        top->ssh = NULL;
    top->live.places = top->places;
    top->live.place_count = count;
    return true;
}

static void tidy_up(struct top *top) {
    if (top->fetching)
        pthread_join(top->fetcher, NULL);
    live_job_close(&top->live);
    scratch_close(&top->scratch);
    for (size_t i = 0; i < top->stub_count; i++)
        free(top->stubs[i].path);
    free(top->stubs);
    free(top->places);
    filter_free(&top->filter);
}

static int open_job(struct top *top, bool once) {
    if (!once)
        wait_for_dumps(top);
    if (!prepare_places(top))
        return input_no_memory();
    int code = live_job_open(&top->live);
    if (code == EXIT_FINE)
        live_job_name_others(&top->live, false);
    return code;
}

static int run(const struct options *options) {
    const bool once = is_once(options);
    struct top top = {.options = options, .scratch = {.directory = -1}};
    int code = read_options(&top);
    top.fetched_ns = INT64_MIN / 2;
    top.live = (struct live_job){.options = options, .is_used = is_used, .context = &top.scratch};
    if (code == EXIT_FINE)
        code = open_job(&top, once);
    if (code == EXIT_FINE)
        code = once ? look_once(&top) : look_on_terminal(&top);
    tidy_up(&top);
    if (terminal_signal())
        terminal_raise(terminal_signal());
    return code;
}

/* clang-format off */
static const struct option top_options[] = {
    {.name = "once", .doc = "look twice, print and end; so it is also where the output is no terminal"},
    {.name = "interval", .argument = "SECONDS", .fallback = "2", .doc = "time between two looks, from 0.1"},
    {.name = "sort", .argument = "KEY", .doc = "order of the rows by a column's JSON key, largest first; default: by rank"},
    OPTION_RANK,
    {.name = "ssh", .argument = "COMMAND",
     .doc = "read dumps that lie on other hosts there, by these words, split at blanks, and the host's name, as commtap collect does; default: such ranks are listed as not reachable"},
    OPTION_FORMAT("text|json"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_RUN,
    OPTION_SKIP_FRAMES,
    OPTION_DEBUG_DIR,
    OPTION_END};
/* clang-format on */

static const struct example examples[] = {
    {"commtap top DIR", "watch a job; d shows why it hangs, q ends"},
    {"commtap top --once --sort waited_by DIR", "who is waited for now, on a few lines"},
    {"commtap top --once --format json DIR", "the same for a script"},
    {"commtap top --ssh 'ssh -o BatchMode=yes' DIR", "with ranks whose dumps are staged on other nodes"},
    {NULL, NULL},
};

const struct command command_top = {
    .name = "top",
    .company = COMPANY_NONE,
    .summary = "watch a running job: what every rank does, how much, and whom it waits for",
    .arguments = "DIR...",
    .details = "Keys: q quit, d what commtap diagnose says (Esc: back), s and S order by another column, r the other "
               "way round,\n"
               "/ filter, arrows scroll, blank look now, h help. A rank outside of communication calls is computing, "
               "since the\n"
               "time shown. Who waits for whom is as it is at the moment of the look, and in a job that works it is "
               "another one\n"
               "at the next. Where nothing moved for a second or more, the verdict of commtap diagnose stands above "
               "the table.\n"
               "On a terminal it waits where no dumps are there yet; with --once it does not.\n",
    .exits =
        "With --once it exits with 0, 2 on wrong usage, 3 where there is nothing to look at: no job, or none of the\n"
        "ranks; 4 where the result cannot be written.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = top_options,
    .columns = live_columns,
    .examples = examples,
    .run = run,
};
