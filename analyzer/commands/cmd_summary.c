/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap summary: what each operation cost, over all ranks.
 * Lives here: the command's options, what surrounds the table.
 * Must not live here: sums (profile/summary), columns (render/summary_table).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/findings/words.h"
#include "analyzer/job/job.h"
#include "analyzer/profile/summary.h"
#include "analyzer/profile/summary_deepspeed.h"
#include "analyzer/profile/summary_transfers.h"
#include "analyzer/cli/call_sites.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/output.h"
#include "analyzer/render/deepspeed_table.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/scope_text.h"
#include "analyzer/render/summary_table.h"
#include "analyzer/cli/selection.h"
#include "analyzer/cli/session.h"

/* What is summed up. */
struct summary_input {
    const struct options *options;
    const struct dump_set *set;
    const struct filter *filter;
    const struct scope *scope; /* where it has limits, `set` holds the dumps of its clock */
    const struct job *job;
    size_t most; /* rows to show, 0: all */
};

static const struct {
    const char *name;
    unsigned key;
} by_names[] = {{"op", SUMMARY_BY_OP},        {"bytes", SUMMARY_BY_BYTES}, {"comm", SUMMARY_BY_COMM},
                {"rank", SUMMARY_BY_RANK},    {"site", SUMMARY_BY_SITE},   {"epoch", SUMMARY_BY_EPOCH},
                {"caller", SUMMARY_BY_CALLER}};
enum { BY_NAMES = sizeof by_names / sizeof *by_names };

/* Reads --by. Returns 0 when it cannot. */
static unsigned parse_by(const char *text) {
    unsigned by = 0;
    while (*text) {
        size_t length = strcspn(text, ","), i = 0;
        while (i < BY_NAMES && (strlen(by_names[i].name) != length || strncmp(by_names[i].name, text, length) != 0))
            i++;
        if (i == BY_NAMES)
            return 0;
        by |= by_names[i].key;
        text += length;
        text += *text == ',';
    }
    return by;
}

static json_t *by_to_json(unsigned by) {
    json_t *array = json_array();
    for (size_t i = 0; i < BY_NAMES; i++)
        if (by & by_names[i].key)
            json_array_append_new(array, json_string(by_names[i].name));
    return array;
}

/* What was lost is known of the tables; of records, whether any is missing (scope_add_to_json). */
static json_t *coverage_to_json(const struct summary *summary, const struct summary_input *part) {
    const struct scope *scope = part->scope;
    json_t *coverage = scope->limited ? json_pack("{s:n, s:n}", "calls_lost", "rows_torn")
                                      : json_pack("{s:I, s:I}", "calls_lost", (json_int_t)summary->calls_lost,
                                                  "rows_torn", (json_int_t)summary->rows_torn);
    json_object_set_new(coverage, "totals_complete", json_boolean(!scope->limited && !totals_lack(part->job)));
    json_object_set_new(coverage, "incomplete_operations", json_integer((json_int_t)summary->pending));
    scope_add_to_json(coverage, scope);
    return coverage;
}

static bool print_json(FILE *stream, const struct summary *summary, const struct summary_input *part) {
    struct table table = summary_table(summary);
    table_cut(&table, part->most);
    json_t *rows = table_to_json(&table);
    if (!rows)
        return false;
    return json_print(stream,
                      json_pack("{s:s, s:o, s:o, s:o}", "schema", "commtap.summary/1", "by", by_to_json(summary->by),
                                "coverage", coverage_to_json(summary, part), "summary", rows));
}

static bool any_approximate(const struct summary *summary) {
    for (size_t i = 0; i < summary->count; i++)
        if (summary->entries[i].time.percentiles == PERCENTILES_APPROXIMATE)
            return true;
    return false;
}

/* Largest number of an epoch that any rank began. */
static uint32_t last_epoch(const struct dump_set *set) {
    uint32_t last = 0;
    for (size_t d = 0; d < set->count; d++)
        for (size_t i = 0; !set->duplicate[d] && i < set->dumps[d]->epoch_count; i++)
            last = set->dumps[d]->epochs[i]->epoch > last ? set->dumps[d]->epochs[i]->epoch : last;
    return last;
}

/* Whose table is empty wants to know why. */
static void print_nothing(FILE *stream, const struct summary *summary, const struct summary_input *part) {
    const struct filter *filter = part->filter;
    if (filter->has_epochs && !part->scope->limited && filter->first_epoch > last_epoch(part->set))
        fprintf(stream, "the job has epochs 0 to %" PRIu32 " (MPI_Pcontrol(2) begins one)\n", last_epoch(part->set));
    else if (filter->rank_count > 0 || filter_chooses_calls(filter) || filter->has_epochs || part->scope->limited)
        fputs("no operation on record passes the filters\n", stream);
    else if (summary->calls_lost > 0)
        fputs("no operation is on record: none found room\n", stream);
    else if (part->set->count > 0 && part->set->dumps[0]->header->pid == 0)
        fputs("no operation is on record: none was in what was imported\n", stream);
    else
        fputs("no operation is on record: no function that is intercepted was called, or COMMTAP_OPS names others, "
              "or none was inside a region of COMMTAP_REGION\n",
              stream);
}

/* Whether the tables, which count every call, can tell the epochs that were asked for. */
static bool tables_tell_epochs(const struct options *options, const struct filter *filter) {
    return filter->has_epochs && !filter->has_from && !filter->has_to && !filter->has_steps && !filter->has_sizes &&
           !option_given(options, "compat") && !option_given(options, "transfers");
}

static bool print_text(const struct output *output, const struct summary *summary, const struct summary_input *part) {
    const struct scope *scope = part->scope;
    struct table table = summary_table(summary);
    size_t had = table_cut(&table, part->most);
    if (summary->count == 0)
        print_nothing(output->stream, summary, part);
    else if (!table_print_text(output->stream, &table, output->color) || !table_print_legend(output->stream, &table))
        return false;
    table_print_rest(output->stream, &table, had);
    fputc('\n', output->stream);
    scope_print(output->stream, scope);
    const char *lack = scope->limited ? NULL : totals_lack(part->job);
    if (lack)
        fprintf(output->stream, "these totals %s: see the end of commtap report\n", lack);
    if (any_approximate(summary))
        fputs("percentiles are approximate: from histograms of 4 buckets per octave\n", output->stream);
    summary_print_notes(output->stream, summary);
    if (summary->pending > 0)
        fprintf(output->stream, "%" PRIu64 " operations were posted and never seen complete: %s\n", summary->pending,
                tables_tell_epochs(part->options, part->filter) ? "their epoch is not known, they are not here"
                                                                : "counted, without a time");
    if (summary->rows_torn > 0)
        fprintf(output->stream,
                "%" PRIu64 " rows were being written when their process ended: each may be off by a call\n",
                summary->rows_torn);
    if (summary->calls_lost > 0)
        fprintf(output->stream, "%" PRIu64 " calls are missing here: their tables found no room, or were full\n",
                summary->calls_lost);
    input_say_next(output->stream, "stragglers", part->set);
    return true;
}

static int print(const struct summary *summary, const struct summary_input *part) {
    struct output output;
    int code = output_open(&output, part->options);
    if (code != EXIT_FINE)
        return code;
    struct table table = summary_table(summary);
    table_cut(&table, part->most);
    bool enough_memory = true;
    if (output.format == OUTPUT_JSON)
        enough_memory = print_json(output.stream, summary, part);
    else if (output.format == OUTPUT_CSV)
        table_print_csv(output.stream, &table);
    else
        enough_memory = print_text(&output, summary, part);
    return output_close(&output, enough_memory ? EXIT_FINE : input_no_memory());
}

/* Leaves the rows of other epochs out. */
static void keep_epochs(struct summary *summary, const struct filter *filter) {
    size_t kept = 0;
    for (size_t i = 0; i < summary->count; i++) {
        struct summary_entry *entry = &summary->entries[i];
        if (entry->epoch >= filter->first_epoch && entry->epoch <= filter->last_epoch) {
            summary->entries[kept++] = *entry;
        } else {
            free(entry->time.samples);
            free(entry->in_flight.samples);
        }
    }
    summary->count = kept;
}

/* `labels` is NULL unless `by` holds one of SUMMARY_BY_SITES. */
static int build_summary(struct summary *summary, const struct summary_input *part, unsigned by,
                         struct site_labels *labels) {
    bool epochs = tables_tell_epochs(part->options, part->filter);
    by |= epochs ? SUMMARY_BY_EPOCH : 0;
    bool done = part->scope->limited ? summary_build_scope(summary, part->set, part->scope, by, labels)
                : labels             ? summary_build_sites(summary, part->set, part->filter, by, labels)
                                     : summary_build(summary, part->set, part->filter, by);
    if (done && epochs)
        keep_epochs(summary, part->filter);
    return done ? EXIT_FINE : input_no_memory();
}

/* Labels of all call sites. Returns EXIT_FINE, or another after one message; the caller ends with call_sites_close and
 * site_labels_free in every case. */
static int name_sites(struct call_sites *sites, struct site_labels **labels, const struct summary_input *part) {
    *labels = NULL;
    int code = call_sites_open(sites, part->options, part->set->dumps, part->set->count);
    if (code != EXIT_FINE)
        return code;
    *labels = site_labels_new(sites->symbols, &sites->skip);
    bool named = *labels && symbols_want_all(sites->symbols) && symbols_resolve(sites->symbols);
    return named ? EXIT_FINE : input_no_memory();
}

/* The entries keep their labels: symbols are not needed any more when they are printed. */
static int build_by_site(struct summary *summary, const struct summary_input *part, unsigned by) {
    struct call_sites sites;
    struct site_labels *labels;
    int code = name_sites(&sites, &labels, part);
    if (code == EXIT_FINE)
        code = build_summary(summary, part, by, labels);
    site_labels_free(labels);
    call_sites_close(&sites);
    return code;
}

/* What the rows are and their order, from the options. */
struct layout {
    unsigned by;
    const struct column *sort; /* NULL = as they are */
    size_t most;               /* to show, 0: all */
};

static int read_layout(struct layout *layout, const struct options *options) {
    const char *by = option_text(options, "by");
    *layout = (struct layout){.by = parse_by(by)};
    if (layout->by == 0)
        fprintf(stderr, "commtap summary: --by takes op, bytes, comm, rank, epoch, site and caller, not '%.64s'\n", by);
    else if ((layout->by & SUMMARY_BY_SITES) && (layout->by & SUMMARY_BY_BYTES))
        fputs("commtap summary: call sites are not told apart by bytes: --by site and --by caller go with op, comm and "
              "rank\n",
              stderr);
    else if (option_given(options, "transfers") && layout->by != SUMMARY_BY_DEFAULT)
        fputs("commtap summary: --transfers goes with --by op,bytes,comm\n", stderr);
    else if (option_given(options, "compat") && strcmp(option_text(options, "format"), "csv") == 0)
        fputs("commtap summary: --compat deepspeed has the formats text and json\n", stderr);
    else if (option_given(options, "compat") && layout->by != SUMMARY_BY_DEFAULT && layout->by != SUMMARY_BY_CALLER)
        fputs(
            "commtap summary: --compat deepspeed tells operations and sizes apart, and with --by caller the functions "
            "that called: no other --by\n",
            stderr);
    else if (options_sort(options, summary_columns, &layout->sort) == EXIT_FINE)
        return options_top(options, &layout->most);
    return EXIT_USAGE;
}

/* What was left of the job's collectives once everybody had come. */
static int add_transfers(struct summary *summary, const struct summary_input *part) {
    if (part->scope->limited || part->filter->rank_count > 0) {
        fputs("commtap summary: --transfers is about all ranks and the whole run: not with --rank, --from, --to, "
              "--step, --epoch\n",
              stderr);
        return EXIT_USAGE;
    }
    bool done = summary_measure_transfers(summary, part->job->dumps, part->job->count, part->options->team,
                                          session_workers(part->options));
    return done ? EXIT_FINE : input_no_memory();
}

static int summarise(const struct summary_input *part, const struct layout *layout) {
    struct summary summary = {0};
    if (part->scope->limited && (layout->by & SUMMARY_BY_EPOCH)) {
        fputs("commtap summary: --by epoch is about the whole run: not with --from, --to, --step, nor with --epoch and "
              "what only records tell\n",
              stderr);
        return EXIT_USAGE;
    }
    int code = layout->by & SUMMARY_BY_SITES ? build_by_site(&summary, part, layout->by)
                                             : build_summary(&summary, part, layout->by, NULL);
    if (code != EXIT_FINE)
        return code;
    if (option_given(part->options, "transfers"))
        code = add_transfers(&summary, part);
    if (code == EXIT_FINE)
        code = !layout->sort || table_sort(summary.entries, sizeof *summary.entries, summary.count, layout->sort)
                   ? print(&summary, part)
                   : input_no_memory();
    summary_free(&summary);
    return code;
}

/* `labels` NULL: callers are not told apart. */
static int log_as_deepspeed(const struct summary_input *part, struct site_labels *labels) {
    struct deepspeed log;
    struct output output;
    if (!deepspeed_build(&log, part->set, part->scope->limited ? part->scope : NULL, part->filter, labels))
        return input_no_memory();
    int code = output_open(&output, part->options);
    if (code == EXIT_FINE) {
        bool enough_memory = true;
        if (output.format == OUTPUT_JSON) {
            enough_memory = json_print(output.stream, deepspeed_to_json(&log));
        } else {
            deepspeed_print_text(output.stream, &log);
            scope_print(output.stream, part->scope);
        }
        code = output_close(&output, enough_memory ? EXIT_FINE : input_no_memory());
    }
    deepspeed_free(&log);
    return code;
}

static int summarise_as_deepspeed(const struct summary_input *part, const struct layout *layout) {
    struct call_sites sites;
    struct site_labels *labels;
    if (!(layout->by & SUMMARY_BY_CALLER))
        return log_as_deepspeed(part, NULL);
    int code = name_sites(&sites, &labels, part);
    if (code == EXIT_FINE)
        code = log_as_deepspeed(part, labels);
    site_labels_free(labels);
    call_sites_close(&sites);
    return code;
}

/* What ran beside the job, or is a restart of it, is summed up with it unless the job was asked for by its own id. */
static bool is_summed(const struct job *job, const struct dump_set *set, const struct listed_job *other,
                      const char *id) {
    const char *run = job->dumps[0]->run_id;
    if (other == job->listed || (id && strcmp(id, run) != 0))
        return other == job->listed;
    return other->launch == job->listed->launch && strcmp(set->dumps[other->first]->run_id, run) == 0;
}

/* Leaves out, as duplicates are, the dumps of other jobs: sums of what ran one after the other would mean nothing. */
static void keep_job(const struct job *job, struct dump_set *set, const char *id) {
    size_t others = 0;
    for (size_t i = 0; i < job->list.count; i++) {
        const struct listed_job *other = &job->list.items[i];
        if (is_summed(job, set, other, id))
            continue;
        others += other->ranks;
        for (size_t d = other->first; d < other->first + other->count; d++)
            set->duplicate[d] = true;
    }
    if (others > 0 && !id) {
        fprintf(stderr, "commtap: %zu dumps of other jobs than ", others);
        escape_text(stderr, job->listed->id);
        fputs(", the newest, are left out (--run ID)\n", stderr);
    }
    if (job->missing_count > 0)
        fprintf(stderr, "commtap: %zu of %" PRId32 " ranks left no dump here: what they did is in no sum\n",
                job->missing_count, job->ranks_expected);
}

/* A generation that was asked for stands alone, as a job does that was asked for by its own id. */
static void keep_chosen_job(const struct job *job, struct dump_set *set, const struct options *options) {
    char id[JOB_ID];
    memcpy(id, job->listed->id, sizeof id);
    keep_job(job, set, option_given(options, "generation") ? id : option_text(options, "run"));
}

/* A time is one job's: worlds and restarts of its run have clocks and steps of their own. */
static void say_other_jobs(const struct job *job) {
    if (job->worlds > 1 || job->generations > 1)
        fprintf(stderr, "commtap: the time asked for is that of generation %u and its largest world alone\n",
                job->listed->generation);
}

static int sum_up_dumps(const struct options *options, const struct selection *selection, const struct layout *layout,
                        struct dump_set *set) {
    struct job job;
    struct selected_time time = {0};
    int code = selection_choose_job(&job, set, options, NULL);
    if (code == EXIT_FINE) {
        keep_chosen_job(&job, set, options);
        if (!tables_tell_epochs(options, &selection->filter))
            code = selected_time_find(&time, &job, selection);
    }
    if (code == EXIT_FINE) {
        const struct summary_input part = {.options = options,
                                           .set = time.scope.limited ? &job.selected : set,
                                           .filter = &selection->filter,
                                           .scope = &time.scope,
                                           .job = &job,
                                           .most = layout->most};
        if (time.scope.limited)
            say_other_jobs(&job);
        code = option_given(options, "compat") ? summarise_as_deepspeed(&part, layout) : summarise(&part, layout);
    }
    selected_time_free(&time);
    job_free(&job);
    return code;
}

static int run(const struct options *options) {
    struct selection selection;
    struct layout layout;
    struct dump_set set;
    int code = selection_read(&selection, options);
    if (code == EXIT_FINE)
        code = read_layout(&layout, options);
    if (code == EXIT_FINE)
        code = input_open(options->team, options->arguments, options->argument_count, &set);
    if (code == EXIT_FINE) {
        code = sum_up_dumps(options, &selection, &layout, &set);
        dump_set_close(&set);
    }
    selection_free(&selection);
    return code;
}

static const struct option option_rows[] = {
    {.name = "by",
     .argument = "KEYS",
     .fallback = "op,bytes,comm",
     .parts = "op|bytes|comm|rank|epoch|site|caller",
     .doc = "what rows are told apart by: any of op, bytes, comm, rank, epoch (MPI_Pcontrol(2) begins one); or site "
            "(where the call was made) or caller (the function that made it) with any of op, comm, rank, epoch"},
    OPTION_SKIP_FRAMES,
    OPTION_DEBUG_DIR,
    {.name = "sort", .argument = "KEY", .doc = "column to sort by, by its JSON key, as in count or time_max_us"},
    {.name = "transfers",
     .doc =
         "also what of the collectives was left once everybody had come, and the bandwidth of that: from the events"},
    OPTION_TOP("all"),
    {.name = "compat",
     .argument = "WHAT",
     .choices = "deepspeed",
     .doc = "the tables and JSON keys of DeepSpeed's comms logger, with its formulas; with --by caller as its debug "
            "setting names operations, from the calls on record"},
    OPTION_FORMAT("text|json|csv"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_RUN,
    OPTIONS_FILTER,
    {.name = "epoch",
     .argument = "N|N-M",
     .doc = "only these epochs: MPI_Pcontrol(2) begins the next one, from 0; all their calls, also where records are "
            "gone, unless another filter of time or size asks for records"},
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap summary DIR", "what each operation cost, by message size and communicator"},
    {"commtap summary --by op,rank --op 'all*' DIR", "collectives that involve all, rank by rank"},
    {"commtap summary --by caller,op DIR", "which function of the program called what, as DeepSpeed's caller_func"},
    {"commtap summary --compat deepspeed DIR", "the tables of DeepSpeed's comms logger"},
    {NULL, NULL},
};

const struct command command_summary = {
    .name = "summary",
    .summary = "what each operation cost, over all ranks",
    .arguments = "DIR...",
    .details =
        "Sums hold every call, exactly. A part of the time (--from, --to, --step) is summed up from the records that\n"
        "are still there, and is said to be: a call counts where it begins, an operation of a GPU where it ran\n"
        "there; a step is each rank's own.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .columns = summary_columns,
    .examples = examples,
    .run = run,
};
