/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap list: one line per job below a directory.
 * Lives here: options, the table's columns. Must not live here: finding jobs (fleet/).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/base/planted_path.h"
#include "analyzer/base/regular_file.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/user.h"
#include "analyzer/fleet/fleet.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/table.h"

enum { TIME_TEXT = 32 };

struct list_row {
    const struct fleet_job *job;
    char started[TIME_TEXT];
    char *directory; /* owned */
    char user[USER_BYTES];
};

#define VALUE(NAME, EXPRESSION)                                                                                        \
    static struct cell NAME(const void *item) {                                                                        \
        const struct list_row *row = item;                                                                             \
        return EXPRESSION;                                                                                             \
    }
#define TEXT(FIELD) ((FIELD)[0] ? cell_text(FIELD) : cell_unknown())

static const char *const states[] = {
    [FLEET_ENDED] = "ended", [FLEET_KILLED] = "killed", [FLEET_UNKNOWN] = "unknown", [FLEET_RUNS] = "running"};

static struct cell state_of(const struct fleet_job *job) {
    return cell_text(job->launches == 0 && job->state == FLEET_ENDED ? "packed" : states[job->state]);
}

VALUE(started, TEXT(row->started))
VALUE(state, state_of(row->job))
VALUE(user, TEXT(row->user))
VALUE(job_id, TEXT(row->job->job_id))
VALUE(dumps, cell_unsigned(row->job->dumps))
VALUE(packed, cell_unsigned(row->job->packed))
VALUE(launches, row->job->launches > 0 ? cell_unsigned(row->job->launches) : cell_unknown())
VALUE(disk_bytes, cell_unsigned(row->job->bytes))
VALUE(directory, cell_text(row->directory))
VALUE(run_id, cell_text(row->job->run_id))
VALUE(command, TEXT(row->job->command))

static const struct column columns[] = {
    {"started", "started", .value = started, .left = true, .doc = "when its first process began (ISO 8601, UTC)"},
    {"state", "state", .value = state, .left = true,
     .doc = "ended, killed, running, packed (where that cannot be read), or unknown: on other hosts, and did not end "
            "properly"},
    {"user", "user", .value = user, .left = true, .doc = "who ran it"},
    {"job_id", "job", .value = job_id, .left = true, .doc = "job's id in its batch system"},
    {"dumps", "dumps", .value = dumps, .doc = "loose dumps"},
    {"packed", "packed", .value = packed, .optional = true, .doc = "files of packed dumps"},
    {"launches", "launches", .value = launches,
     .doc = "programs that were launched in it, restarts included: to commtap report each "
            "is a "
            "job, DIR --run RUN/2 the second"},
    {"disk_bytes", "disk", LOOK_SIZE, .value = disk_bytes, .doc = "what its files take on the disk"},
    {"directory", "directory", .value = directory, .left = true, .doc = "where they are"},
    {"run_id", "run", .value = run_id, .left = true, .doc = "run"},
    {"command", "command", .value = command, .left = true, .doc = "its program and arguments"},
    {NULL, NULL, .value = NULL},
};

static void write_time(char text[TIME_TEXT], int64_t ns) {
    struct tm tm;
    time_t seconds = (time_t)(ns / 1000000000);
    if (ns == INT64_MAX || !gmtime_r(&seconds, &tm) || strftime(text, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        text[0] = '\0';
}

struct rows {
    struct list_row *items; /* the oldest first */
    size_t count;
};

static bool add_rows(struct rows *rows, const char *place, const struct fleet *fleet) {
    struct list_row *grown = realloc(rows->items, (rows->count + fleet->count + 1) * sizeof *grown);
    if (!grown)
        return false;
    rows->items = grown;
    char name[USER_BYTES];
    for (size_t i = 0; i < fleet->count; i++) {
        struct list_row *row = &rows->items[rows->count];
        *row = (struct list_row){.job = &fleet->jobs[i]};
        write_time(row->started, fleet->jobs[i].started_ns);
        snprintf(row->user, sizeof row->user, "%s", user_named(fleet->jobs[i].user, name));
        if (asprintf(&row->directory, "%s%s%s", place, fleet->jobs[i].path[0] ? "/" : "", fleet->jobs[i].path) < 0)
            return false;
        rows->count++;
    }
    return true;
}

static int compare_rows(const void *a, const void *b) {
    const struct list_row *one = a, *other = b;
    if (one->job->started_ns != other->job->started_ns)
        return one->job->started_ns < other->job->started_ns ? -1 : 1;
    int places = strcmp(one->directory, other->directory);
    return places ? places : strcmp(one->job->run_id, other->job->run_id);
}

static bool print(const struct output *output, const struct rows *rows) {
    const size_t most = output->top > 0 && output->top < rows->count ? output->top : rows->count;
    const struct table table = {columns, rows->items + rows->count - most, sizeof *rows->items, most};
    if (output->format == OUTPUT_CSV) {
        table_print_csv(output->stream, &table);
        return true;
    }
    if (output->format != OUTPUT_JSON) {
        bool printed = table_print_text(output->stream, &table, output->color);
        table_print_rest(output->stream, &table, rows->count);
        return printed;
    }
    json_t *jobs = table_to_json(&table);
    return jobs && json_print(output->stream, json_pack("{s:s, s:o}", "schema", "commtap.list/1", "jobs", jobs));
}

static int find_all(const struct options *options, struct fleet *fleets, struct rows *rows) {
    int code = EXIT_FINE;
    for (size_t i = 0; code == EXIT_FINE && i < options->argument_count; i++) {
        int descriptor = planted_path_open(options->arguments[i]);
        if (descriptor < 0) {
            int error = errno;
            fputs("commtap: ", stderr);
            escape_text(stderr, options->arguments[i]);
            fprintf(stderr, ": %s\n", regular_file_error(error));
            code = EXIT_UNUSABLE;
        } else if (!fleet_find(&fleets[i], descriptor) || !add_rows(rows, options->arguments[i], &fleets[i])) {
            code = input_no_memory();
        }
        if (fleets[i].unreadable > 0)
            fprintf(stderr, "commtap: %zu directories could not be looked into\n", fleets[i].unreadable);
        if (descriptor >= 0)
            close(descriptor);
    }
    return code;
}

static int run(const struct options *options) {
    struct output output;
    struct rows rows = {0};
    size_t most;
    if (options_top(options, &most) != EXIT_FINE)
        return EXIT_USAGE;
    struct fleet *fleets = calloc(options->argument_count + 1, sizeof *fleets);
    int code = fleets ? find_all(options, fleets, &rows) : input_no_memory();
    if (rows.count > 1)
        qsort(rows.items, rows.count, sizeof *rows.items, compare_rows);
    if (code == EXIT_FINE)
        code = output_open(&output, options);
    if (code == EXIT_FINE)
        code = output_close(&output, print(&output, &rows) ? EXIT_FINE : input_no_memory());
    for (size_t i = 0; i < rows.count; i++)
        free(rows.items[i].directory);
    free(rows.items);
    for (size_t i = 0; fleets && i < options->argument_count; i++)
        fleet_free(&fleets[i]);
    free(fleets);
    return code;
}

static const struct option option_rows[] = {
    {.name = "top", .argument = "N", .doc = "so many jobs, those that began last; default: all"},
    OPTION_FORMAT("text|json|csv"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap list /scratch/commtap", "whose jobs have left dumps there, when, and how large"},
    {NULL, NULL},
};

const struct command command_list = {
    .name = "list",
    .company = COMPANY_FIRST,
    .summary = "one line per job below a directory: when, whose, how large, whether it runs",
    .arguments = "DIR...",
    .details =
        "Looks at the headers of dumps alone, seven levels deep, and follows no link. A line is what commtap prune\n"
        "removes together: a directory's dumps of one run, however often the script launched programs.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .columns = columns,
    .examples = examples,
    .run = run,
};
