/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap ctl: orders to a job that runs, and who has acknowledged them.
 * Lives here: the command's words and options, the table of answers. Must not live here: how an order reaches a process
 * (control/), what a process does meanwhile (live/).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/base/text.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/session.h"
#include "analyzer/control/remote.h"
#include "analyzer/dumps/process.h"
#include "analyzer/findings/live_text.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/table.h"
#include "analyzer/screen/live_job.h"
#include "shim/base/knob_values.h"

enum {
    REST_NS = 5000000, /* between two looks at the answers */
    HOSTS_AT_ONCE = 16
};

struct ctl_row {
    struct controlled process;
    const struct dump_stub *stub; /* its dump lies on another host; NULL: here */
    bool answered;                /* that host has told of it */
    char doing[REMOTE_DOING];
    int64_t since_ns;
    char refused[REMOTE_REFUSED]; /* what it could not do, "" otherwise */
};

struct ctl {
    const struct options *options;
    struct order order;
    const char *word;
    double wait, timeout; /* seconds */
    struct filter filter;
    struct live_job live;
    struct ctl_row *rows;
    size_t count;
    size_t in_state[ORDER_NOT_GIVEN + 1]; /* how many rows */
    size_t refusing;                      /* of those that acknowledged, the order or, without one, any */
};

/* ---- the command line ------------------------------------------------------------------------ */

static const struct command_word order_words[] = {
    {"pause", ORDER_PAUSE, "record nothing from now on", NULL, NULL},
    {"resume", ORDER_RESUME, "record again", NULL, NULL},
    {"snapshot", ORDER_SNAPSHOT, "begin an epoch", NULL, NULL},
    {"verbose", ORDER_VERBOSE, "print operations", "on, off or ranks:LIST", "on|off"},
    {"ops", ORDER_OPS, "record these functions", "globs of functions, fewer than 256 characters", NULL},
    {"stack", ORDER_STACK, "what stacks hold", "off, site, native, python or full", "off|site|native|python|full"},
    {.word = NULL},
};

static int refuse(const char *what, const char *value) {
    fprintf(stderr, "commtap ctl: %s, not '%.64s'\n", what, value);
    return EXIT_USAGE;
}

/* "!" with nothing behind it leaves out what has no name. */
static bool is_list_of_globs(const char *text) {
    for (const char *item = text; *item; item += *item == ',') {
        size_t length = strcspn(item, ",");
        if (length == 1 && *item == '!')
            return false;
        item += length;
    }
    return true;
}

static bool text_is_sound(const struct order *order) {
    const char *text = order->text;
    if (!text[0] || strlen(text) >= order_text_bytes(order->kind))
        return false;
    return order->kind == ORDER_VERBOSE ? knob_verbose_is_sound(text)
           : order->kind == ORDER_STACK ? knob_is_one_of(knob_words("COMMTAP_STACK"), text)
                                        : is_list_of_globs(text);
}

static int read_text(struct ctl *ctl, const struct command_word *word) {
    char message[128];
    size_t count = ctl->options->argument_count;
    if (!word->wants)
        return count == 2 ? EXIT_FINE : refuse("this order takes no further word", ctl->options->arguments[2]);
    ctl->order.text = count > 2 ? ctl->options->arguments[2] : "";
    snprintf(message, sizeof message, "%s takes %s", word->word, word->wants);
    return text_is_sound(&ctl->order) ? EXIT_FINE : refuse(message, ctl->order.text);
}

static int read_order(struct ctl *ctl) {
    char *const *words = ctl->options->arguments;
    if (ctl->options->argument_count < 2)
        return EXIT_FINE;
    ctl->word = words[1];
    for (const struct command_word *word = order_words; word->word; word++)
        if (strcmp(word->word, ctl->word) == 0) {
            ctl->order.kind = (enum order_kind)word->number;
            return read_text(ctl, word);
        }
    return refuse("an order is pause, resume, snapshot, verbose, ops or stack", ctl->word);
}

static int read_options(struct ctl *ctl) {
    const char *wait = option_text(ctl->options, "wait"), *timeout = option_text(ctl->options, "timeout");
    if (!text_seconds(wait, 0, 1e6, &ctl->wait))
        return refuse("--wait takes seconds from 0 to 1000000", wait);
    if (!text_seconds(timeout, 0.001, 1e6, &ctl->timeout))
        return refuse("--timeout takes seconds from 0.001 to 1000000", timeout);
    int code = read_order(ctl);
    return code == EXIT_FINE ? options_filter(ctl->options, &ctl->filter) : code;
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Of the run whoever lives is meant, and of the job also who has ended. */
static bool is_meant(const struct ctl *ctl, const struct dump *dump) {
    const struct dump *first = ctl->live.job.count > 0 ? ctl->live.job.dumps[0] : NULL;
    if (!first || strcmp(dump->run_id, first->run_id) != 0 || !filter_rank(&ctl->filter, dump->header->rank))
        return false;
    return process_is_alive(dump) || (dump->world_id == first->world_id && dump->generation == first->generation &&
                                      dump->launch == first->launch);
}

static struct ctl_row *next_row(struct ctl *ctl) {
    struct ctl_row *row = &ctl->rows[ctl->count++];
    row->since_ns = -1;
    return row;
}

/* All processes of the job, those that others were forked to as well, and what is known of those on other hosts. */
static bool open_processes(struct ctl *ctl) {
    const struct dump_set *set = &ctl->live.set;
    ctl->rows = calloc(set->count + ctl->live.stub_count + 1, sizeof *ctl->rows);
    for (size_t d = 0; ctl->rows && d < set->count; d++)
        if (is_meant(ctl, set->dumps[d]))
            control_open(&next_row(ctl)->process, set->dumps[d], process_state(set->dumps[d]));
    for (size_t i = 0; ctl->rows && i < ctl->live.stub_count; i++)
        if (filter_rank(&ctl->filter, ctl->live.stubs[i].rank)) {
            struct ctl_row *row = next_row(ctl);
            row->stub = &ctl->live.stubs[i];
            control_open_stub(&row->process, row->stub);
        }
    return ctl->rows != NULL;
}

static void count_states(struct ctl *ctl) {
    memset(ctl->in_state, 0, sizeof ctl->in_state);
    for (size_t i = 0; i < ctl->count; i++)
        ctl->in_state[ctl->rows[i].process.state]++;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Until the clock shows that. */
static void await_answers(struct ctl *ctl, int64_t until) {
    for (;;) {
        for (size_t i = 0; i < ctl->count; i++)
            if (ctl->rows[i].process.state == ORDER_AWAITED)
                control_read(&ctl->rows[i].process);
        count_states(ctl);
        if (ctl->in_state[ORDER_AWAITED] == 0 || now_ns() >= until)
            return;
        nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
    }
}

/* What those do that have not answered. */
static int look_at_job(struct ctl *ctl) {
    int code = live_job_look(&ctl->live);
    for (size_t i = 0; code == EXIT_FINE && i < ctl->live.rows.count; i++) {
        const struct live_row *live = &ctl->live.rows.items[i];
        for (size_t k = 0; k < ctl->count; k++) {
            struct ctl_row *row = &ctl->rows[k];
            if (row->answered || row->process.rank != live->rank || row->process.pid != live->pid ||
                strcmp(row->process.host, live->host) != 0)
                continue;
            live_text_doing(row->doing, sizeof row->doing, live);
            row->since_ns = live->since_ns;
        }
    }
    return code;
}

static const struct refusal {
    uint32_t bit; /* enum order_refusal */
    enum order_kind kind;
    const char *words;
} refusals[] = {
    {ORDER_NO_EPOCH, ORDER_SNAPSHOT, "no epoch is left: it counts with the last"},
    {ORDER_NO_STACK, ORDER_STACK, "no memory for stacks"},
    {ORDER_FIXED_VERBOSE, ORDER_VERBOSE, "the policy fixes COMMTAP_VERBOSE"},
    {ORDER_FIXED_OPS, ORDER_OPS, "the policy fixes COMMTAP_OPS"},
    {ORDER_FIXED_STACK, ORDER_STACK, "the policy fixes COMMTAP_STACK"},
};

/* An order that was refused before stands among the wishes, and does not make this one fail. */
static bool note_refusals(struct ctl_row *row, enum order_kind kind) {
    bool any = row->refused[0] != '\0'; /* a later version's words, from another host */
    for (size_t i = 0, used = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (!(row->process.answer.refused & refusals[i].bit))
            continue;
        any |= kind == ORDER_NONE || kind == refusals[i].kind;
        used += (size_t)snprintf(row->refused + used, sizeof row->refused - used, "%s%s", used ? "; " : "",
                                 refusals[i].words);
    }
    return any && row->process.state == ORDER_OBEYED;
}

/* ---- other hosts ----------------------------------------------------------------------------- */

static void take_refusals(struct ctl_row *row, const char *text) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (strstr(text, refusals[i].words))
            row->process.answer.refused |= refusals[i].bit;
    if (row->process.answer.refused == 0)
        snprintf(row->refused, sizeof row->refused, "%s", text);
}

static size_t list_elsewhere(struct ctl *ctl, struct remote_process *processes) {
    size_t count = 0;
    for (size_t i = 0; i < ctl->count; i++)
        if (ctl->rows[i].stub)
            processes[count++] = (struct remote_process){.process = &ctl->rows[i].process, .stub = ctl->rows[i].stub};
    return count;
}

static void take_answers(struct ctl *ctl, const struct remote_process *next) {
    for (size_t i = 0; i < ctl->count; i++) {
        struct ctl_row *row = &ctl->rows[i];
        if (!row->stub)
            continue;
        row->answered = next->answered;
        if (next->answered) {
            memcpy(row->doing, next->doing, sizeof row->doing);
            row->since_ns = next->since_ns;
            take_refusals(row, next->refused);
        }
        next++;
    }
}

static bool give_elsewhere(struct ctl *ctl) {
    const struct remote_order order = {.ssh = option_text(ctl->options, "ssh"),
                                       .word = ctl->word,
                                       .text = ctl->order.text,
                                       .wait = option_text(ctl->options, "wait"),
                                       .ranks = option_text(ctl->options, "rank"),
                                       .patience_ms = (unsigned)((ctl->wait + ctl->timeout) * 1e3),
                                       .at_once = HOSTS_AT_ONCE};
    if (!order.ssh)
        return true;
    struct remote_process *processes = calloc(ctl->count + 1, sizeof *processes);
    bool done = processes && control_give_there(processes, list_elsewhere(ctl, processes), &order);
    if (done)
        take_answers(ctl, processes);
    free(processes);
    return done;
}

/* commtap.<run id>.<16 hex>.stub */
static int compare_runs(const struct dump_stub *a, const struct dump_stub *b) {
    const char *names[2] = {strrchr(a->path, '/'), strrchr(b->path, '/')};
    size_t lengths[2], tail = strlen(FORMAT_STUB_SUFFIX) + 16;
    for (int i = 0; i < 2; i++)
        lengths[i] = names[i] && strlen(names[i]) > tail ? strlen(names[i]) - tail : 0;
    return lengths[0] != lengths[1] || (lengths[0] > 0 && strncmp(names[0], names[1], lengths[0]) != 0);
}

/* An order for one job must not reach another one, of which nothing is here but stubs. */
static bool stubs_are_of_one_run(const struct live_job *live) {
    for (size_t i = 1; live->job.count == 0 && i < live->stub_count; i++)
        if (compare_runs(&live->stubs[0], &live->stubs[i]) != 0)
            return false;
    return true;
}

/* ---- what is printed ------------------------------------------------------------------------- */

#define VALUE(NAME, EXPRESSION)                                                                                        \
    static struct cell NAME(const void *item) {                                                                        \
        const struct ctl_row *row = item;                                                                              \
        const struct controlled *process = &row->process;                                                              \
        (void)process;                                                                                                 \
        return EXPRESSION;                                                                                             \
    }
#define TEXT(FIELD)             ((FIELD)[0] ? cell_text(FIELD) : cell_unknown())
#define ORDERED(FIELD, REFUSAL) (process->answer.refused & (REFUSAL) ? cell_unknown() : TEXT(FIELD))
#define ANSWERED(VALUE)         (process->answers ? (VALUE) : cell_unknown())

VALUE(rank, process->rank >= 0 ? cell_integer(process->rank) : cell_unknown())
VALUE(host, TEXT(process->host))
VALUE(pid, process->pid > 0 ? cell_integer(process->pid) : cell_unknown())
VALUE(answer, cell_text(order_state_name(process->state)))
VALUE(recording, ANSWERED(cell_text(process->answer.paused_since ? "paused" : "on")))
VALUE(pauses, ANSWERED(cell_unsigned(process->answer.pauses)))
VALUE(epoch, ANSWERED(cell_unsigned(process->answer.epoch)))
VALUE(verbose, ORDERED(process->wishes.verbose, ORDER_FIXED_VERBOSE))
VALUE(ops, ORDERED(process->wishes.operations, ORDER_FIXED_OPS))
VALUE(stack, ORDERED(process->wishes.stack, ORDER_FIXED_STACK | ORDER_NO_STACK))
VALUE(refused, TEXT(row->refused))
VALUE(doing, TEXT(row->doing))
VALUE(since, row->since_ns >= 0 ? cell_real((double)row->since_ns / 1e9) : cell_unknown())
VALUE(why, TEXT(process->trouble))

static const struct column columns[] = {
    {"rank", "rank", .value = rank, .doc = "world rank"},
    {"host", "host", .left = true, .value = host, .doc = "where it runs"},
    {"pid", "pid", .value = pid, .doc = "its process"},
    {"answer", "answer", .left = true, .value = answer,
     .doc = "acknowledged (all that was ordered is in force, but for what it refused), awaited (it has made no call "
            "since), over (its process has ended), not_given (it takes no orders from here)"},
    {"recording", "recording", .left = true, .value = recording,
     .doc = "on, or paused by an order; what the job itself pauses is not told"},
    {"pauses", NULL, .value = pauses, .doc = "how often orders stopped recording"},
    {"epoch", "epoch", .value = epoch, .doc = "number of its epoch when it last acknowledged"},
    {"verbose", "verbose", .left = true, .optional = true, .value = verbose,
     .doc = "ordered: who prints its operations"},
    {"ops", "ops", .left = true, .optional = true, .value = ops, .doc = "ordered: functions to record"},
    {"stack", "stack", .left = true, .optional = true, .value = stack, .doc = "ordered: what stacks hold"},
    {"refused", "refused", .left = true, .optional = true, .value = refused,
     .doc = "what could not be done of the orders"},
    {"doing", "doing", .left = true, .optional = true, .value = doing,
     .doc = "the call it is in, or what else it does"},
    {"since_seconds", "since", LOOK_SECONDS, .optional = true, .value = since, .doc = "for how long"},
    {"why", "why not", .left = true, .optional = true, .value = why, .doc = "why it has not acknowledged and will not"},
    {.key = NULL},
};

static json_t *to_json(const struct ctl *ctl, const struct table *table) {
    const struct job *job = &ctl->live.job;
    return json_pack("{s:s, s:o, s:o, s:I, s:I, s:o}", "schema", "commtap.ctl/1", "run_id",
                     job->count > 0 ? escape_json(job->dumps[0]->run_id) : json_null(), "order",
                     ctl->word ? json_string(ctl->word) : json_null(), "acknowledged",
                     (json_int_t)ctl->in_state[ORDER_OBEYED], "awaited", (json_int_t)ctl->in_state[ORDER_AWAITED],
                     "processes", table_to_json(table));
}

static bool has_epoch(const struct ctl_row *row) {
    return row->process.state == ORDER_OBEYED && row->process.answers;
}

/* An order that not all got, or calls of MPI_Pcontrol that not all made. */
static void print_epochs(FILE *stream, const struct ctl *ctl) {
    uint32_t least = UINT32_MAX, most = 0;
    for (size_t i = 0; i < ctl->count; i++) {
        uint32_t epoch = ctl->rows[i].process.answer.epoch;
        if (has_epoch(&ctl->rows[i])) {
            least = epoch < least ? epoch : least;
            most = epoch > most ? epoch : most;
        }
    }
    if (ctl->order.kind == ORDER_SNAPSHOT && least < most)
        fprintf(stream,
                "the processes do not count epochs alike (%" PRIu32 " to %" PRIu32
                "): compare them by the table below\n",
                least, most);
}

/* Once per host that did not take the order: of a host's rows the first tells. */
static void print_hosts(FILE *stream, const struct ctl *ctl) {
    const char *last = "";
    for (size_t i = 0; option_given(ctl->options, "ssh") && i < ctl->count; i++) {
        const struct controlled *process = &ctl->rows[i].process;
        if (!ctl->rows[i].stub || ctl->rows[i].answered || strcmp(process->host, last) == 0)
            continue;
        last = process->host;
        fputs("  ", stream);
        escape_text(stream, process->host);
        fputs(": ", stream);
        escape_text(stream, process->trouble);
        fputc('\n', stream);
    }
}

static void print_sum(FILE *stream, const struct ctl *ctl) {
    size_t obeyed = ctl->in_state[ORDER_OBEYED], awaited = ctl->in_state[ORDER_AWAITED], live = obeyed + awaited;
    if (ctl->word)
        fprintf(stream, "%s: ", ctl->word);
    fprintf(stream, "in force in %zu of %zu process%s", obeyed - ctl->refusing, live, live == 1 ? "" : "es");
    if (ctl->refusing > 0)
        fprintf(stream, "; refused by %zu", ctl->refusing);
    if (awaited > 0)
        fprintf(stream, "; %zu %s no call since and will follow at the next, or when the present one returns", awaited,
                awaited == 1 ? "has made" : "have made");
    fputc('\n', stream);
    if (ctl->in_state[ORDER_NOT_GIVEN] > 0)
        fprintf(stream, "not given to %zu\n", ctl->in_state[ORDER_NOT_GIVEN]);
    print_epochs(stream, ctl);
    print_hosts(stream, ctl);
    fputc('\n', stream);
}

static bool print(const struct output *output, const struct ctl *ctl) {
    const struct table table = {columns, ctl->rows, sizeof *ctl->rows, ctl->count};
    if (output->format == OUTPUT_JSON)
        return json_print(output->stream, to_json(ctl, &table));
    if (output->format == OUTPUT_CSV) {
        table_print_csv(output->stream, &table);
        return true;
    }
    print_sum(output->stream, ctl);
    return table_print_text(output->stream, &table, output->color);
}

/* ---- together -------------------------------------------------------------------------------- */

static bool nobody_is_there(const struct ctl *ctl) {
    return ctl->in_state[ORDER_OVER] == ctl->count;
}

static int say_nobody(const struct ctl *ctl) {
    fprintf(stderr, "commtap ctl: %s\n",
            ctl->count == 0              ? "no process has one of these ranks"
            : ctl->filter.rank_count > 0 ? "these ranks are over: none of them records any more"
                                         : "the job is over: none of its processes records any more");
    return EXIT_UNUSABLE;
}

/* Whatever could not be asked, has not answered, or will not do it. */
static int code_of(const struct ctl *ctl) {
    if (nobody_is_there(ctl))
        return say_nobody(ctl);
    return ctl->in_state[ORDER_AWAITED] + ctl->in_state[ORDER_NOT_GIVEN] + ctl->refusing > 0 ? EXIT_FINDINGS
                                                                                             : EXIT_FINE;
}

/* A rank that an earlier one did not reach counts it now, so that an epoch has the same number in all. */
static uint32_t snapshots_ordered(const struct ctl *ctl) {
    uint32_t most = 0;
    for (size_t i = 0; i < ctl->count; i++)
        if (ctl->rows[i].process.wishes.snapshots > most)
            most = ctl->rows[i].process.wishes.snapshots;
    return most;
}

/* The output comes first: once an order was given the command must not begin anew because a dump was changed. */
static int give_and_print(struct ctl *ctl) {
    struct output output;
    int code = output_open(&output, ctl->options);
    if (code != EXIT_FINE)
        return code;
    ctl->order.snapshots = snapshots_ordered(ctl);
    for (size_t i = 0; ctl->order.kind != ORDER_NONE && i < ctl->count; i++)
        control_give(&ctl->rows[i].process, &ctl->order);
    int64_t until = now_ns() + (int64_t)(ctl->wait * 1e9);
    if (!give_elsewhere(ctl))
        return output_close(&output, input_no_memory());
    await_answers(ctl, until);
    for (size_t i = 0; i < ctl->count; i++)
        ctl->refusing += note_refusals(&ctl->rows[i], ctl->order.kind);
    code = look_at_job(ctl);
    if (code == EXIT_FINE)
        code = print(&output, ctl) ? code_of(ctl) : input_no_memory();
    return output_close(&output, code);
}

/* Of COMMTAP_OPS the library says the same to whoever starts a job so. */
static bool leaves_functions(const struct ctl *ctl) {
    const struct dump *dump = ctl->live.job.count > 0 ? ctl->live.job.dumps[0] : NULL;
    struct filter filter = {0};
    bool any = !dump || filter_set_op(&filter, ctl->order.text) != 0;
    for (uint32_t i = 0; !any && i < dump->call_count; i++)
        any = filter_op(&filter, dump->calls[i].name);
    filter_free(&filter);
    return any;
}

static int control_job(struct ctl *ctl) {
    if (ctl->order.kind == ORDER_OPS && !leaves_functions(ctl))
        return refuse("ops takes globs that leave a function to record: there is no function like this",
                      ctl->order.text);
    if (!stubs_are_of_one_run(&ctl->live))
        return refuse("the dumps of several runs lie on other hosts: one of them must be chosen by --run",
                      ctl->options->arguments[0]);
    if (!open_processes(ctl))
        return input_no_memory();
    count_states(ctl);
    return nobody_is_there(ctl) && ctl->order.kind != ORDER_NONE ? say_nobody(ctl) : give_and_print(ctl);
}

static int run(const struct options *options) {
    struct ctl ctl = {.options = options, .live = {.options = options, .places = options->arguments, .place_count = 1}};
    int code = read_options(&ctl);
    if (code == EXIT_FINE)
        code = live_job_open(&ctl.live);
    if (code == EXIT_FINE)
        live_job_name_others(&ctl.live, true);
    if (code == EXIT_FINE)
        code = control_job(&ctl);
    for (size_t i = 0; i < ctl.count; i++)
        control_close(&ctl.rows[i].process);
    free(ctl.rows);
    live_job_close(&ctl.live);
    filter_free(&ctl.filter);
    return code;
}

/* clang-format off */
static const struct option option_rows[] = {
    {.name = "wait", .argument = "SECONDS", .fallback = "2", .doc = "how long to wait for acknowledgements"},
    OPTION_RANK,
    {.name = "ssh", .argument = "COMMAND",
     .doc = "processes whose dumps lie on other hosts get the order there, by the commtap of that host: these words, split at blanks, and the host's name; default: they are listed as not given it"},
    {.name = "timeout", .argument = "SECONDS", .fallback = "30",
     .doc = "with --ssh: a host that is silent for so long, beyond --wait, is listed as not given it; ssh by itself may take minutes"},
    OPTION_FORMAT("text|json|csv"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_RUN,
    OPTION_END};
/* clang-format on */

static const struct example examples[] = {
    {"commtap ctl DIR pause", "stop recording in a running job"},
    {"commtap ctl DIR resume", "go on"},
    {"commtap ctl DIR snapshot", "begin an epoch: commtap summary --epoch 0 DIR has the sums of what was before"},
    {"commtap ctl DIR ops 'all*,!allgather*'", "from now on record these functions and no others"},
    {"commtap ctl DIR stack off", "take no stacks any more"},
    {"commtap ctl --ssh 'ssh -o BatchMode=yes' DIR pause", "with processes whose dumps are staged on other nodes"},
    {"commtap ctl --format json DIR", "what is in force, for a script"},
    {NULL, NULL},
};

const struct command command_ctl = {
    .name = "ctl",
    .company = COMPANY_NONE,
    .summary = "give orders to a running job: stop recording and go on, what is recorded and printed",
    .arguments = "DIR [ORDER [WHAT]]",
    .details =
        "Orders: pause (record nothing from now on), resume; snapshot (begin an epoch: summary --epoch N tells what\n"
        "was before from what comes); verbose on|off|ranks:LIST, ops GLOBS, stack off|site|native|python|full, as\n"
        "COMMTAP_VERBOSE, COMMTAP_OPS and COMMTAP_STACK are. Without an order: what is in force. A process follows\n"
        "at its next call of MPI or NCCL, one that is inside of a call when that returns; no signal is sent. Orders\n"
        "stand until others are given, and hold for processes that are forked later. What the operator's policy fixes\n"
        "(COMMTAP_VERBOSE, COMMTAP_OPS, COMMTAP_STACK) no order changes: the process refuses. They are given by the "
        "job's\n"
        "user, on the host where it runs; with --ssh from here on the other hosts as well: a commtap is needed there, "
        "where\n"
        "this one lies or in the PATH that ssh gives, and each host's processes are waited for by themselves. Where "
        "stacks were off when a job began, its call tree holds what was called\n"
        "since they are on; ranges of NVTX are known where it began with stack full.\n",
    .exits = "Exits with 0 where the orders are in force everywhere, 1 where a process has not acknowledged yet, "
             "refuses or\n"
             "could not be asked; with 2 on wrong usage, 3 where no process runs that could be given an order (all "
             "have ended,\n"
             "or none has one of the ranks), 4 where the result cannot be written.\n",
    .min_arguments = 1,
    .max_arguments = 3,
    .options = option_rows,
    .words = order_words,
    .columns = columns,
    .examples = examples,
    .run = run,
};
