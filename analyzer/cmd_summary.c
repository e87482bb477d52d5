/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap summary: what each operation cost, over all ranks.
 * Lives here: the command's options, what surrounds the table.
 * Must not live here: sums (analyse/summary), columns (render/summary_table).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/analyse/job.h"
#include "analyzer/analyse/summary.h"
#include "analyzer/analyse/summary_deepspeed.h"
#include "analyzer/call_sites.h"
#include "analyzer/input.h"
#include "analyzer/options.h"
#include "analyzer/render/deepspeed_table.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/summary_table.h"
#include "analyzer/session.h"

static const struct {
    const char *name;
    unsigned key;
} by_names[] = {{"op", SUMMARY_BY_OP},
                {"bytes", SUMMARY_BY_BYTES},
                {"comm", SUMMARY_BY_COMM},
                {"rank", SUMMARY_BY_RANK},
                {"site", SUMMARY_BY_SITE}};
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

static bool print_json(FILE *stream, const struct summary *summary) {
    struct table table = summary_table(summary);
    json_t *rows = table_to_json(&table);
    if (!rows)
        return false;
    return json_print(stream, json_pack("{s:s, s:o, s:{s:I, s:I, s:I}, s:o}", "schema", "commtap.summary/1", "by",
                                        by_to_json(summary->by), "coverage", "calls_lost",
                                        (json_int_t)summary->calls_lost, "rows_torn", (json_int_t)summary->rows_torn,
                                        "incomplete_operations", (json_int_t)summary->pending, "summary", rows));
}

static bool any_approximate(const struct summary *summary) {
    for (size_t i = 0; i < summary->count; i++)
        if (summary->entries[i].percentiles == PERCENTILES_APPROXIMATE)
            return true;
    return false;
}

static bool print_text(const struct output *output, const struct summary *summary, const char *directory) {
    struct table table = summary_table(summary);
    if (summary->count == 0)
        fputs("no operation on record passes the filters\n", output->stream);
    else if (!table_print_text(output->stream, &table, output->color))
        return false;
    fputc('\n', output->stream);
    if (any_approximate(summary))
        fputs("percentiles are approximate: from histograms of 4 buckets per octave\n", output->stream);
    if (summary->pending > 0)
        fprintf(output->stream, "%" PRIu64 " operations were posted and never seen complete: counted, without a time\n",
                summary->pending);
    if (summary->rows_torn > 0)
        fprintf(output->stream,
                "%" PRIu64 " rows were being written when their process ended: each may be off by a call\n",
                summary->rows_torn);
    if (summary->calls_lost > 0)
        fprintf(output->stream, "%" PRIu64 " calls found no room in a full table and are missing here\n",
                summary->calls_lost);
    fputs("next: commtap stragglers ", output->stream);
    escape_text(output->stream, directory);
    fputc('\n', output->stream);
    return true;
}

static int print(const struct options *options, const struct summary *summary) {
    struct output output;
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    struct table table = summary_table(summary);
    bool enough_memory = true;
    if (output.format == OUTPUT_JSON)
        enough_memory = print_json(output.stream, summary);
    else if (output.format == OUTPUT_CSV)
        table_print_csv(output.stream, &table);
    else
        enough_memory = print_text(&output, summary, options->arguments[0]);
    return output_close(&output, enough_memory ? EXIT_FINE : input_no_memory());
}

/* The entries keep their labels: symbols are not needed any more when they are printed. */
static int build_by_site(struct summary *summary, const struct options *options, const struct dump_set *set,
                         const struct filter *filter, unsigned by) {
    struct call_sites sites;
    int code = call_sites_open(&sites, options, set->dumps, set->count);
    if (code == EXIT_FINE) {
        struct site_labels *labels = site_labels_new(sites.symbols, &sites.skip);
        bool enough_memory = labels && symbols_want_all(sites.symbols) && symbols_resolve(sites.symbols) &&
                             summary_build_sites(summary, set, filter, by, labels);
        site_labels_free(labels);
        code = enough_memory ? EXIT_FINE : input_no_memory();
    }
    call_sites_close(&sites);
    return code;
}

static int summarise(const struct options *options, const struct dump_set *set, const struct filter *filter) {
    const char *sort = option_text(options, "sort");
    const struct column *column = sort ? table_column(summary_columns, sort) : NULL;
    unsigned by = parse_by(option_text(options, "by"));
    if (by == 0) {
        fprintf(stderr, "commtap summary: --by takes op, bytes, comm, rank and site, not '%s'\n",
                option_text(options, "by"));
        return EXIT_USAGE;
    }
    if ((by & SUMMARY_BY_SITE) && (by & SUMMARY_BY_BYTES)) {
        fputs("commtap summary: call sites are not told apart by bytes: --by site goes with op, comm and rank\n",
              stderr);
        return EXIT_USAGE;
    }
    if (sort && !column) {
        fprintf(stderr, "commtap summary: no column is called '%s' (see commtap summary --help)\n", sort);
        return EXIT_USAGE;
    }
    struct summary summary;
    int code = by & SUMMARY_BY_SITE                       ? build_by_site(&summary, options, set, filter, by)
               : summary_build(&summary, set, filter, by) ? EXIT_FINE
                                                          : input_no_memory();
    if (code != EXIT_FINE)
        return code;
    code = !column || table_sort(summary.entries, sizeof *summary.entries, summary.count, column)
               ? print(options, &summary)
               : input_no_memory();
    summary_free(&summary);
    return code;
}

static int summarise_as_deepspeed(const struct options *options, const struct dump_set *set,
                                  const struct filter *filter) {
    struct deepspeed log;
    struct output output;
    if (!deepspeed_build(&log, set, filter))
        return input_no_memory();
    int code = output_open(&output, options);
    if (code == EXIT_FINE) {
        bool enough_memory = true;
        if (output.format == OUTPUT_JSON)
            enough_memory = json_print(output.stream, deepspeed_to_json(&log));
        else
            deepspeed_print_text(output.stream, &log);
        code = output_close(&output, enough_memory ? EXIT_FINE : input_no_memory());
    }
    deepspeed_free(&log);
    return code;
}

/* Leaves out, as duplicates are, the dumps of other runs than the one asked for, or than the newest: their sums would
 * mean nothing together. Worlds and restarts of one run stay. */
static int select_run(const struct options *options, struct dump_set *set) {
    const char *wanted = option_text(options, "run");
    struct job job;
    size_t others = 0;
    int selected = job_select(&job, set, wanted, NULL);
    for (size_t i = 0; selected == 0 && i < set->count; i++)
        if (strcmp(set->dumps[i]->run_id, job.dumps[0]->run_id) != 0) {
            others += !set->duplicate[i];
            set->duplicate[i] = true;
        }
    if (others > 0 && !wanted) {
        fprintf(stderr, "commtap: %zu dumps of other runs than ", others);
        escape_text(stderr, job.dumps[0]->run_id);
        fputs(", the newest, are left out (--run ID)\n", stderr);
    }
    if (job.missing_count > 0)
        fprintf(stderr, "commtap: %zu of %" PRId32 " ranks left no dump here: what they did is in no sum\n",
                job.missing_count, job.ranks_expected);
    if (selected == -1) {
        fputs("commtap: no dump of run '", stderr);
        escape_text(stderr, wanted);
        fputs("'\n", stderr);
    }
    job_free(&job);
    return selected == 0 ? EXIT_FINE : selected == -1 ? EXIT_UNUSABLE : input_no_memory();
}

static int run(const struct options *options) {
    struct filter filter;
    struct dump_set set;
    if (option_given(options, "compat") && strcmp(option_text(options, "format"), "csv") == 0) {
        fputs("commtap summary: --compat deepspeed has the formats text and json\n", stderr);
        return EXIT_USAGE;
    }
    int code = options_filter(options, &filter);
    if (code != EXIT_FINE)
        return code;
    code = input_open(options->arguments[0], &set);
    if (code == EXIT_FINE) {
        code = select_run(options, &set);
        if (code == EXIT_FINE)
            code = option_given(options, "compat") ? summarise_as_deepspeed(options, &set, &filter)
                                                   : summarise(options, &set, &filter);
        dump_set_close(&set);
    }
    filter_free(&filter);
    return code;
}

static const struct option option_rows[] = {
    {.name = "by",
     .argument = "KEYS",
     .fallback = "op,bytes,comm",
     .doc = "what rows are told apart by: any of op, bytes, comm, rank; or site (where the call was made) with any of "
            "op, comm, rank"},
    OPTION_SKIP_FRAMES,
    OPTION_DEBUG_DIR,
    {.name = "sort", .argument = "KEY", .doc = "column to sort by, by its JSON key, as in count or time_max_us"},
    {.name = "compat",
     .argument = "WHAT",
     .choices = "deepspeed",
     .doc = "the tables and JSON keys of DeepSpeed's comms logger, with its formulas"},
    OPTION_FORMAT("text|json|csv"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_RUN,
    OPTION_RANK,
    OPTION_COMM,
    OPTION_OP,
    OPTION_END,
};

const struct command command_summary = {
    .name = "summary",
    .summary = "what each operation cost, over all ranks",
    .arguments = "DIR",
    .min_arguments = 1,
    .max_arguments = 1,
    .options = option_rows,
    .columns = summary_columns,
    .run = run,
};
